"""Where Flower makes its connection to the coordinator is where it was, and a client certificate is shown there."""

import contextlib
import importlib
import inspect
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.cli.certificates import create_authority, create_client_certificate, create_server_certificate
from fedct_flwr.cli.coordinator.gateway import VERDICT_HEADER
from fedct_flwr.hospital import noted_calls
from fedct_flwr.hospital.certified_supernode import RETURNED
from tests.patience import PATIENCE
from tests.processes.deployment import free_port

MOVED = "this Flower makes a SuperNode's connection otherwise: see fedct_flwr/hospital/certified_supernode.py"


def test_flowers_insides_are_where_they_were() -> None:
    from flwr.supernode import fleet_http_connection
    from flwr.supernode.cli import flower_supernode
    from flwr.supernode.fleet_http_client import FleetHttpClient

    assert callable(flower_supernode), MOVED
    assert vars(fleet_http_connection).get("FleetHttpClient") is FleetHttpClient, MOVED
    assert "verify" in inspect.signature(FleetHttpClient.__init__).parameters, MOVED
    source = inspect.getsource(fleet_http_connection.http_request_response)
    assert "with FleetHttpClient.from_server_address(" in source, MOVED


def test_what_notes_calls_is_where_it_was() -> None:
    import httpx
    from flwr.supercore.error import ApiErrorCode
    from flwr.supercore.protobuf.client import ProtobufClient
    from flwr.supercore.protobuf.constants import PROTOBUF_MEDIA_TYPE
    from flwr.supercore.retry.http_retry import _RETRYABLE_TRANSPORT_ERRORS
    from flwr.supernode.cli import flower_supernode
    from flwr.supernode.fleet_http_client import FleetHttpClient

    assert "rpc_method" in inspect.signature(FleetHttpClient._unary_unary).parameters, MOVED
    assert "context" in inspect.signature(FleetHttpClient._send).parameters, MOVED
    assert "self._base_url = " in inspect.getsource(ProtobufClient.__init__), MOVED
    source = inspect.getsource(importlib.import_module("flwr.supernode.cli.flower_supernode"))
    assert "from flwr.supernode.main import (" in source, "the SuperNode's API is made otherwise: see tell_agents"
    assert callable(flower_supernode)
    assert noted_calls._MEDIA_TYPE == PROTOBUF_MEDIA_TYPE
    assert int(ApiErrorCode.FLEET_NODE_ACTIVATION_FAILED) == noted_calls._NOT_ACTIVATED
    assert httpx.ConnectError in _RETRYABLE_TRANSPORT_ERRORS, "after this error Flower asks again"


def test_the_gateways_word_on_a_certificate_is_understood() -> None:
    assert VERDICT_HEADER.lower() == noted_calls._VERDICT_HEADER


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Two authorities, a server and a client."""
    for name in ("ca", "clients"):
        create_authority(tmp_path / f"{name}.crt", tmp_path / f"{name}.key")
    authority = (tmp_path / "ca.crt", tmp_path / "ca.key")
    create_server_certificate(tmp_path / "server.pem", tmp_path / "server.key", ["localhost"], *authority)
    authority = (tmp_path / "clients.crt", tmp_path / "clients.key")
    create_client_certificate(tmp_path / "client.crt", tmp_path / "client.key", "zurich", *authority)
    return tmp_path


@contextlib.contextmanager
def gateway(files: Path) -> Iterator[tuple[int, list[str]]]:
    """Asks for a certificate; gives its port, and the names of those who have shown one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files / "server.pem", files / "server.key")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(files / "clients.crt")
    shown: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            with contextlib.suppress(OSError):
                while True:
                    raw, _ = listener.accept()
                    raw.settimeout(20)
                    with contextlib.suppress(OSError), context.wrap_socket(raw, server_side=True) as connection:
                        connection.recv(65536)
                        subject = dict(part[0] for part in connection.getpeercert()["subject"])  # type: ignore[index, misc]
                        shown.append(str(subject["commonName"]))
                        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield listener.getsockname()[1], shown
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(20)


def run(*arguments: str | Path | int) -> subprocess.CompletedProcess[str]:
    """The launcher as silos run it."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "fedct_flwr.hospital.certified_supernode", *map(str, arguments)],
        capture_output=True, text=True, timeout=240, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def test_a_supernode_shows_the_certificate(files: Path) -> None:
    with gateway(files) as (port, shown):
        done = run(
            "--client-certificate", files / "client.crt", "--client-key", files / "client.key",
            "--superlink", f"localhost:{port}", "--root-certificates", files / "ca.crt", "--isolation", "process",
            "--host", "127.0.0.1", "--port", free_port(), "--max-retries", "0",
        )  # fmt: skip
    assert shown == ["zurich"], done.stdout + done.stderr
    assert done.returncode != 0


def test_files_that_are_no_pair_are_one_sentence(files: Path, wording: SnapshotAssertion) -> None:
    done = run("--client-certificate", files / "client.crt", "--client-key", files / "server.key")
    assert done.returncode == 1
    assert done.stderr.partition(" (")[0] == wording
    assert done.stderr.count("\n") == 1
    alone = run("--client-certificate", files / "client.crt")
    assert alone.stderr == wording


@pytest.mark.parametrize("end", ["return", "raise OSError('of its own')"])
def test_a_supernode_whose_work_ends_leaves_no_process_that_calls_nobody(end: str) -> None:
    """Flower's thread that serves the agent is there and would keep it."""
    code = f"""
import threading
import flwr.supernode.cli
from fedct_flwr.hospital import certified_supernode

def work():
    threading.Thread(target=threading.Event().wait).start()
    {end}

flwr.supernode.cli.flower_supernode = work
certified_supernode.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == RETURNED
    assert done.stderr.endswith("the SuperNode's work has ended, and nobody had asked for that\n")
    assert ("of its own" in done.stderr) is ("raise" in end)


def test_without_a_certificate_it_is_flowers_own_program() -> None:
    assert "Flower version" in run("--version").stdout
