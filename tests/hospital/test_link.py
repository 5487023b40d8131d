"""What one call to the coordinator tells of the link, and what the supervisor's file says of it."""

import json
import socket
import ssl
import time
from pathlib import Path

import pytest

from fedct_flwr.hospital.link import NOT_ADMITTED, REMOVED, LinkError, LinkStatus, call
from tests.processes.relay import Relay


@pytest.mark.parametrize(("fault", "error"), [("drop", "broken"), ("reset", "broken"), ("503", "no-tls")])
def test_a_call_that_fails_is_named(fault: str, error: str) -> None:
    with Relay(1) as relay:
        relay.fail(fault)
        assert call(relay.address, ssl.create_default_context()).error == error


def test_a_proxy_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with Relay(1) as relay:
        monkeypatch.setenv("HTTPS_PROXY", f"http://user:secret@{relay.address}")
        relay.fail("503")
        assert call("coordinator.example:8443", ssl.create_default_context()).error == "proxy-status-503"
    assert call("coordinator.example:8443", ssl.create_default_context()).error == LinkError.PROXY


def test_a_port_without_a_listener_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert call(f"127.0.0.1:{port}", ssl.create_default_context()).error == LinkError.REFUSED


def test_a_status_is_read_as_it_was_written_while_it_is_fresh(tmp_path: Path) -> None:
    now, path = time.time(), tmp_path / "link.json"
    assert LinkStatus.read(path) is None
    LinkStatus(now, now - 120, "status-503").write(path)
    found = LinkStatus.read(path)
    assert found == LinkStatus(now, now - 120, "status-503")
    assert found.sentence.startswith("lost contact with the coordinator 2 min ago; HTTP status 503 comes")
    silent = LinkStatus(now, now - 120).sentence
    assert silent == "lost contact with the coordinator 2 min ago; " + REMOVED
    never = LinkStatus(now, now - 120, connected=False).sentence
    assert never == "not connected in 2 min; " + NOT_ADMITTED
    LinkStatus(now - 600, now - 600).write(path)
    assert LinkStatus.read(path) is None, "its supervisor is gone"
    for odd in ({"written": now, "heard": now, "error": "\x1b[2J"}, {"written": now}, []):
        path.write_text(json.dumps(odd))
        assert LinkStatus.read(path) is None
