"""A SuperLink that is started again ends no run, whichever call it falls into."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from flwr.superlink.grid import HttpGrid

from fedct_flwr.coordinator.restarts import UntrustedError, outlast_restarts
from fedct_flwr.types import RunError
from tests.cli.silos import Authority


@pytest.fixture
def authority() -> Authority:
    return Authority.make()


@pytest.fixture
def calls() -> list[str]:
    return []


@pytest.fixture
def port(authority: Authority, tmp_path: Path, calls: list[str]) -> Iterator[int]:
    """Dies twice in the handshake of TLS, then answers once, with nothing."""
    authority.write(tmp_path / "ca.crt")
    context = authority.server(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for number in range(3):
                taken = server.accept()[0]
                with taken:
                    if number < 2:
                        calls.append("broken off")
                        continue
                    with context.wrap_socket(taken, server_side=True) as link:
                        link.recv(65536)
                        link.sendall(
                            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Type: application/protobuf\r\n\r\n"
                        )
                        calls.append("answered")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
    thread.join(5)


def test_a_handshake_that_is_broken_off_is_tried_again(port: int, calls: list[str], tmp_path: Path) -> None:
    grid = HttpGrid(f"localhost:{port}", root_certificates=(tmp_path / "ca.crt").read_bytes(), token="token")
    noted = outlast_restarts(grid)
    assert list(grid.get_nodes()) == []
    assert calls == ["broken off", "broken off", "answered"]
    assert noted.count == 2


def test_a_certificate_that_is_wrong_is_not_tried_again() -> None:
    grid = HttpGrid(token="token")
    outlast_restarts(grid)
    gives_up = grid._retry_invoker.should_giveup
    assert gives_up is not None
    # In words of ours, so that the run's folder says why it ended.
    with pytest.raises(UntrustedError) as caught:
        gives_up(httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to get"))
    assert isinstance(caught.value, RunError)
    assert isinstance(caught.value, httpx.ConnectError), "which Flower's heartbeats outlast"
    assert "\n" not in str(caught.value)
    assert not gives_up(httpx.ConnectError("[SSL: UNEXPECTED_EOF_WHILE_READING] EOF occurred"))


def test_what_flower_gives_up_for_is_given_up_for() -> None:
    grid = HttpGrid(token="token")
    noted = outlast_restarts(grid)
    gives_up = grid._retry_invoker.should_giveup
    assert gives_up is not None
    request = httpx.Request("POST", "https://superlink")
    refused = httpx.HTTPStatusError("", request=request, response=httpx.Response(400, request=request))
    assert gives_up(refused)
    assert noted.count == 0
