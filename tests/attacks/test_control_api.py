"""Attack: start, read or stop runs on the coordinator from outside.

The attackers: a stranger with nothing, one with ca.crt and the address, a silo with its certificate and its registered
key.
"""

import re
import socket

import psutil
import pytest

from tests.attacks.coordinator import Started, coordinator, needs_nginx, status

__all__ = ["coordinator"]

pytestmark = [pytest.mark.slow, pytest.mark.processes, needs_nginx]

CONTROL = (
    "start-run", "list-runs", "stop-run", "stream-logs", "pull-artifacts", "register-node", "list-nodes",
    "unregister-node", "list-federations",
)  # fmt: skip
RUNTIME = ("acquire-task", "pull-task-input", "push-task-output", "pull-messages", "push-messages")
TRICKS = [
    "/", "/health", "/docs", "/openapi.json", "/v1/fleet", "/v1/fleet/", "/flwr.proto.Control/ListRuns",
    "/v1/fleet/../control/list-runs", "/v1/fleet/%2e%2e/control/list-runs", "/v1/fleet/..%2fcontrol/list-runs",
    "/v1/fleet/.%2e/%2e./control/list-runs", "/v1/fleet/;/../../control/list-runs", "/v1/fleet/;a=b",
    "/v1/fleet/pull-messages/../../control/list-runs", "/v1/control/../fleet/pull-messages",
    "//v1/fleet/pull-messages", "/v1//fleet/pull-messages", "/v1/fleet//pull-messages", "/V1/fleet/pull-messages",
    "/v1/Fleet/pull-messages", "/v1/fleet/pull-messages?x=/v1/control", "/v1/fleet/pull-messages#/v1/control",
    "/v1/fleet/pull-messages%20", "/v1/fleet/pull%2dmessages", "/v1%2ffleet/pull-messages", "/v1/fleet/\\..\\control",
    "https://superlink:8000/v1/control/list-runs", "https://superlink:8000/v1/fleet/pull-messages",
]  # fmt: skip


def posted(path: str, version: str = "HTTP/1.1", method: str = "POST", more: str = "", body: str = "") -> bytes:
    head = f"{method} {path} {version}\r\nHost: x\r\nConnection: close\r\n{more}Content-Length: {len(body)}\r\n\r\n"
    return f"{head}{body}".encode()


# --- from outside


@pytest.mark.parametrize(
    "path", [f"/v1/control/{name}" for name in CONTROL] + [f"/v1/runtime/{name}" for name in RUNTIME]
)
@pytest.mark.parametrize("certificate", [False, True])
def test_the_gateway_passes_no_call_but_those_of_silos(coordinator: Started, path: str, certificate: bool) -> None:
    assert status(coordinator.ask(posted(path), certificate=certificate)) == (403 if certificate else 400)


@pytest.mark.parametrize("path", TRICKS)
def test_a_path_written_otherwise_passes_no_better(coordinator: Started, path: str) -> None:
    # With a silo's certificate: without one nothing passes, whatever the path.
    assert status(coordinator.ask(posted(path), certificate=True)) in (400, 403)


@pytest.mark.parametrize(
    "request_",
    [
        posted("/v1/fleet/pull-messages", "HTTP/1.0"),
        posted("/v1/fleet/pull-messages", "HTTP/0.9"),
        posted("/v1/fleet/pull-messages", "HTTP/2.0"),
        posted("/v1/fleet/pull-messages", method="GET"),
        posted("/v1/fleet/pull-messages", method="CONNECT"),
        posted("/v1/fleet/pull-messages", method="post"),
        posted("/v1/fleet/pull-messages", more="Transfer-Encoding: chunked\r\n"),
        posted("/v1/fleet/pull-messages", more="Transfer-Encoding : chunked\r\n"),
        posted("/v1/fleet/pull-messages", more="Content-Length: 4\r\n"),
        posted("/v1/fleet/pull-messages\r\nHost: y\r\n\r\nPOST /v1/control/list-runs"),
        b"POST /v1/fleet/pull-messages\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_a_line_written_otherwise_passes_no_better(coordinator: Started, request_: bytes) -> None:
    before = coordinator.said().count("/v1/control/")
    assert status(coordinator.ask(request_, certificate=True)) in (0, 400, 403, 405, 411, 501, 505)
    assert coordinator.said().count("/v1/control/") == before


def test_a_request_behind_another_one_is_judged_like_the_first(coordinator: Started) -> None:
    # A body that looks like a request, and one request right behind another.
    behind = posted("/v1/control/list-runs").decode()
    smuggled = posted("/v1/fleet/pull-messages", more="X: y\r\n", body=behind)
    assert status(coordinator.ask(smuggled, certificate=True)) in (400, 401, 415, 422)
    first = posted("/v1/fleet/pull-messages").replace(b"Connection: close\r\n", b"")
    both = coordinator.ask(first + posted("/v1/control/list-runs"), certificate=True)
    assert [int(code) for code in re.findall(rb"HTTP/1\.1 (\d+)", both)][1:] == [403]


def test_nothing_but_tls_is_spoken(coordinator: Started) -> None:
    with socket.create_connection(("127.0.0.1", coordinator.port), timeout=30) as raw:
        raw.sendall(posted("/v1/fleet/pull-messages"))
        assert b" 400 " in raw.recv(100)


def test_the_superlink_itself_can_be_reached_from_this_machine_alone(coordinator: Started) -> None:
    addresses = {
        (family, address.address.partition("%")[0])
        for interface in psutil.net_if_addrs().values()
        for address in interface
        if (family := address.family) in (socket.AF_INET, socket.AF_INET6)
    }
    elsewhere = [(family, host) for family, host in addresses if not host.startswith(("127.", "::1", "fe80"))]
    assert elsewhere
    for family, host in elsewhere:
        with socket.socket(family) as probe:
            probe.settimeout(5)
            assert probe.connect_ex((host, coordinator.superlink_port)) != 0, host


def test_a_silo_is_let_through_with_certificate_and_key(coordinator: Started) -> None:
    call = posted("/v1/fleet/pull-messages", more="Content-Type: application/protobuf\r\n")
    assert b"asks for a client certificate" in coordinator.ask(call, certificate=False)
    # What refuses here is the SuperLink: nothing is signed by a node's key.
    assert b"Invalid SuperNode authentication" in coordinator.ask(call, certificate=True)
