"""Attack: exhaust the coordinator through its gateway, without a certificate and with one.

The gateway is nginx with the settings of ``fedct coordinator init``; where a limit takes seconds, another
nginx has the same settings with a shorter time, before a server that counts what reaches it.
"""

import contextlib
import http.server
import resource
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from fedct_flwr.cli import certificates
from fedct_flwr.cli.certificates import create_client_certificate
from fedct_flwr.cli.coordinator.gateway import VERDICT_HEADER, Gateway, in_container
from fedct_flwr.config.study import LONGEST_MESSAGE
from tests.attacks.coordinator import (
    PATIENCE,
    SILO,
    Started,
    answer,
    coordinator,
    made,
    needs_nginx,
    nginx,
    status,
    working,
)
from tests.processes.deployment import free_port

__all__ = ["coordinator"]

pytestmark = [pytest.mark.slow, pytest.mark.processes, needs_nginx]

BODIES = 62
HAS_IPV6 = Path("/proc/net/if_inet6").exists() and bool(Path("/proc/net/if_inet6").read_text())
BODY = 16_000_000
PUSH = "/v1/fleet/push-object"
MANY = 4200
MORE_MEMORY = 30_000_000
"""Bytes by which a process may grow that has answered a few calls."""


def head(size: int, path: str = PUSH, more: str = "") -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/protobuf\r\n{more}Content-Length: {size}\r\n\r\n"
    ).encode()


def unfinished(coordinator: Started, size: int, sent: int, *, certificate: bool) -> ssl.SSLSocket:
    """A call whose body never ends."""
    connection = coordinator.call(certificate=certificate)
    connection.settimeout(20)
    with contextlib.suppress(OSError):
        connection.sendall(head(size))
        for _ in range(sent // 100_000):
            connection.sendall(b"x" * 100_000)
    return connection


@pytest.mark.parametrize("certificate", [False, True])
def test_unfinished_bodies_do_not_reach_the_superlink(coordinator: Started, certificate: bool) -> None:
    superlink, gateway = coordinator.part("flower.superlink"), coordinator.part("nginx: worker")
    before = [process.memory_info().rss for process in (superlink, gateway)]
    with ThreadPoolExecutor(8) as pool:
        # As many and as long as the SuperLink once took in, and then ones that are not too long.
        for size, sent in ((BODY, BODY // 2), (LONGEST_MESSAGE, LONGEST_MESSAGE // 2)):
            calls = [pool.submit(unfinished, coordinator, size, sent, certificate=certificate) for _ in range(BODIES)]
            connections = [call.result() for call in calls]
            grown = [process.memory_info().rss - was for process, was in zip((superlink, gateway), before, strict=True)]
            for connection in connections:
                connection.close()
            print(f"{BODIES} bodies of {size:,} bytes: SuperLink {grown[0]:+,}, gateway {grown[1]:+,} bytes")
            assert max(grown) < MORE_MEMORY


def test_without_a_certificate_a_request_ends_before_its_body(coordinator: Started) -> None:
    calls = coordinator.said().count(PUSH)
    with coordinator.call() as connection:
        # Nothing of the body is sent, and the answer comes all the same.
        connection.sendall(head(1000))
        connection.settimeout(20)
        said = connection.recv(65536)
    assert status(said) == 400
    assert f"{VERDICT_HEADER}: missing".encode() in said
    assert b"ask the coordinator for a new invitation" in said
    assert coordinator.said().count(PUSH) == calls


@pytest.mark.parametrize("which", ["expired", "another's", "the server's authority's"])
def test_a_certificate_that_is_not_good_is_refused_and_told(
    coordinator: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    folder = coordinator.folder
    authority = (folder.clients_ca, folder.clients_key)
    if which == "expired":
        monkeypatch.setattr(certificates, "LIFETIME", timedelta(seconds=-1))
    elif which == "another's":
        (tmp_path / "other").mkdir()
        other = made(tmp_path / "other" / "coordinator")
        authority = (other.clients_ca, other.clients_key)
    else:
        authority = (folder.ca, folder.ca_key)
    create_client_certificate(tmp_path / "c.crt", tmp_path / "c.key", SILO, *authority)
    context = coordinator.context()
    context.load_cert_chain(tmp_path / "c.crt", tmp_path / "c.key")
    raw = socket.create_connection(("127.0.0.1", coordinator.port), timeout=20)
    with context.wrap_socket(raw, server_hostname="127.0.0.1") as connection:
        connection.sendall(head(0))
        said = answer(connection)
    assert status(said) == 400
    assert f"{VERDICT_HEADER}: refused".encode() in said


class Stub(http.server.ThreadingHTTPServer):
    """In place of the SuperLink: counts the calls, and says yes. A context manager."""

    daemon_threads = True
    request_queue_size = 512

    def __init__(self, certificate: Path, key: Path) -> None:
        self.calls = 0
        lock = threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"] or 0))
                with lock:
                    self.server.calls += 1  # type: ignore[attr-defined]
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        super().__init__(("127.0.0.1", 0), Handler)
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Started, Stub]]:
    place = tmp_path_factory.mktemp("quick")
    folder, port = made(place / "coordinator"), free_port()
    temporary = place / "temporary"
    temporary.mkdir()
    for path in (place, folder.path, folder.ca.parent):
        path.chmod(0o755)
    with Stub(folder.server_certificate, folder.server_key) as stub:
        thread = threading.Thread(target=stub.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        settings = Gateway(
            listen=f"127.0.0.1:{port}", certificates=str(folder.ca.parent), temporary=str(temporary),
            superlink=("127.0.0.1", stub.server_address[1]), superlink_name="localhost", timeout=1,
            listen_too=f"[::1]:{port}" if HAS_IPV6 else "",
        )  # fmt: skip
        (place / "gateway.conf").write_text("user root;\n" + settings.render(), "utf-8")
        with working(folder, place / "log", [nginx(place / "gateway.conf")], port) as running:
            yield running, stub
        stub.shutdown()


def test_slow_callers_are_cut_off(quick: tuple[Started, Stub]) -> None:
    gateway, stub = quick
    before = stub.calls
    for slow in (b"POST /v1/fl", head(1000) + b"x"):
        began = time.monotonic()
        with gateway.call(certificate=True) as connection:
            connection.sendall(slow)
            assert status(answer(connection)) in (0, 400, 408)
        assert time.monotonic() - began < 15
    # Neither does it help to send a byte now and then instead of the head.
    with gateway.call(certificate=True) as connection:
        connection.settimeout(0.2)
        over = False
        for _ in range(60):
            with contextlib.suppress(TimeoutError):
                try:
                    connection.sendall(b"P")
                    over = connection.recv(100) == b""
                except OSError as error:
                    over = not isinstance(error, TimeoutError)
            if over:
                break
        assert over
    assert stub.calls == before


def test_thousands_of_connections_that_say_one_byte_keep_no_silo_out(coordinator: Started) -> None:
    most, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with contextlib.ExitStack() as opened:
        opened.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (most, hard))
        for _ in range(MANY):
            opened.enter_context(socket.create_connection(("127.0.0.1", coordinator.port))).sendall(b"\x16")
        raw = opened.enter_context(socket.create_connection(("127.0.0.1", coordinator.port)))
        # Before the gateway cuts off the others.
        raw.settimeout(5)
        with coordinator.context(certificate=True).wrap_socket(raw, server_hostname="127.0.0.1") as silo:
            silo.sendall(head(0, "/v1/fleet/pull-messages"))
            assert 400 <= status(answer(silo)) < 503


def test_one_silo_has_so_many_connections_and_calls_and_no_more(quick: tuple[Started, Stub]) -> None:
    gateway, _ = quick
    # What its parts need: nine connections in a round.
    connections = [gateway.call(certificate=True) for _ in range(9)]
    for connection in connections:
        connection.sendall(head(0))
    assert [status(connection.recv(65536)) for connection in connections] == [200] * 9
    for connection in connections:
        connection.close()
    # All at once, as calls one after the other may be fewer than are let through on a busy machine.
    refused = threading.Event()
    end = time.monotonic() + PATIENCE

    def calls(_: int) -> list[int]:
        codes = []
        with gateway.call(certificate=True) as connection:
            while not refused.is_set() and time.monotonic() < end:
                connection.sendall(head(0))
                codes.append(status(connection.recv(65536)))
                if codes[-1] == 503:
                    refused.set()
        return codes

    with ThreadPoolExecutor(9) as pool:
        codes = [code for found in pool.map(calls, range(9)) for code in found]
    assert 503 in codes
    assert len(connections) + codes.count(200) > 200


def test_a_hundred_silos_behind_one_address_are_not_limited(quick: tuple[Started, Stub], tmp_path: Path) -> None:
    gateway, _ = quick
    folder = gateway.folder

    def silo(number: int) -> list[int]:
        """What a silo does at a round's beginning: two connections, and twenty calls at once."""
        files = tmp_path / f"{number}.crt", tmp_path / f"{number}.key"
        create_client_certificate(*files, f"silo-{number}", folder.clients_ca, folder.clients_key)
        context = gateway.context()
        context.load_cert_chain(*files)
        codes = []
        for _ in range(2):
            raw = socket.create_connection(("127.0.0.1", gateway.port), timeout=60)
            with context.wrap_socket(raw, server_hostname="127.0.0.1") as connection:
                for _ in range(10):
                    connection.sendall(head(0, "/v1/fleet/pull-messages"))
                    codes.append(status(connection.recv(65536)))
        return codes

    with ThreadPoolExecutor(16) as pool:
        codes = [code for found in pool.map(silo, range(100)) for code in found]
    assert codes == [200] * 2000


def test_the_gateway_in_containers_differs_in_addresses_alone() -> None:
    own = Gateway("8443", "/app/certificates", "/tmp", ("superlink", 8000), "superlink")
    container = in_container()
    assert container == replace(own, resolver="127.0.0.11", health=True, listen_too="[::]:8443")
    added = set(container.render().splitlines()) - set(own.render().splitlines())
    assert {line.split()[0] for line in added if line.strip()} <= {"resolver", "listen", "return", "server", "#"}
    assert in_container(5_000_000).render().count("client_max_body_size 5000000;") == 1
