"""A SuperNode keeps its connection between two calls, so that an idle silo shakes no hands."""

import http.server
import importlib
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from flwr.proto.fleet_pb2 import PullMessagesRequest

from fedct_flwr.cli.coordinator.gateway import in_container
from fedct_flwr.hospital.noted_calls import KEPT_SECONDS, note_calls
from fedct_flwr.hospital.pace import IDLE_SECONDS
from tests.cli.silos import Authority
from tests.processes.relay import Relay

HTTPX_SECONDS = 5
"""So long httpx keeps a connection by itself."""


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    moved = ""
    """Where another server is to be asked."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(307 if self.moved else 200)
        if self.moved:
            self.send_header("Location", self.moved)
        self.send_header("Content-Type", "application/protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """A server with TLS that keeps connections."""
    authority = Authority.make()
    authority.write(tmp_path / "ca.crt")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        server.daemon_threads = True
        server.socket = authority.server(tmp_path).wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def test_a_call_after_a_pause_takes_the_connection_that_is_there(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = importlib.import_module("flwr.supernode.fleet_http_connection")
    monkeypatch.setattr(module, "FleetHttpClient", module.FleetHttpClient)
    heard: list[tuple[str, str]] = []
    note_calls(lambda call, trouble: heard.append((call, trouble)))
    with Relay(port) as relay:
        client = module.FleetHttpClient.from_server_address(
            f"localhost:{relay.port}", False, (tmp_path / "ca.crt").read_bytes(), ()
        )
        carried = []
        for pause in (0, HTTPX_SECONDS + 1):
            time.sleep(pause)
            before = relay.up + relay.down
            client.PullMessages(PullMessagesRequest())
            carried.append(relay.up + relay.down - before)
        client._client.close()
    assert heard == [("PullMessages", "")] * 2
    assert carried[1] < carried[0] / 2, carried


def test_a_redirection_is_not_followed(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in between is told nothing that is signed, and the call is made again later."""
    module: Any = importlib.import_module("flwr.supernode.fleet_http_connection")
    monkeypatch.setattr(module, "FleetHttpClient", module.FleetHttpClient)
    heard: list[tuple[str, str]] = []
    note_calls(lambda call, trouble: heard.append((call, trouble)))
    with Relay(port) as elsewhere:
        monkeypatch.setattr(
            Answer, "moved", f"https://localhost:{elsewhere.port}/v1/fleet/pull-messages", raising=False
        )
        client = module.FleetHttpClient.from_server_address(
            f"localhost:{port}", False, (tmp_path / "ca.crt").read_bytes(), ()
        )
        with pytest.raises(httpx.ConnectError):
            client.PullMessages(PullMessagesRequest())
        client._client.close()
        assert elsewhere.up == 0
    assert heard == [("PullMessages", "status-307")]


def test_a_connection_outlasts_the_longest_pause_and_not_the_gateways_patience() -> None:
    (closes,) = re.findall(r"keepalive_timeout (\d+)s;", in_container().render())
    assert IDLE_SECONDS < KEPT_SECONDS < int(closes)
