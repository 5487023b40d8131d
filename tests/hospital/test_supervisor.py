"""The supervisor, with a short program in the SuperNode's place and a coordinator that answers as the test says."""

import json
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fedct_flwr.flower.supernode import SETTINGS_CODE
from fedct_flwr.hospital import supervisor
from fedct_flwr.hospital.link import NOT_ADMITTED, REMOVED, LinkError, LinkStatus, call
from fedct_flwr.hospital.supervisor import Supervisor
from tests.patience import PATIENCE, eventually
from tests.processes.relay import Relay

LOOK = "import os, sys, time; look = lambda: os.write(int(os.environ['FEDCT_LOOKS']), b'.')"
LOOKS_ONCE = f"{LOOK}; look(); sys.stdin.read()"


class Supervised:
    def __init__(self, code: str, status: Path) -> None:
        self.said: list[str] = []
        self.codes: list[int] = []
        self.error = ""
        self.stop = threading.Event()
        made = Supervisor([sys.executable, "-c", code], lambda: self.error, self.said.append, self.stop, status)
        self._thread = threading.Thread(target=lambda: self.codes.append(made.run()), daemon=True)
        self._thread.start()

    def says(self, text: str) -> None:
        eventually(lambda: any(text in line for line in self.said), text)

    def code(self) -> int:
        self._thread.join(PATIENCE)
        return self.codes[0]


Supervise = Callable[[str], Supervised]


@pytest.fixture
def supervise(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Supervise]:
    for name, value in {"_PAUSES": (0.01, 0.05), "_POLL_SECONDS": 0.02, "_CALL_PAUSE": 0.05, "_QUIET_SECONDS": 0.3,
                        "_BACK_SECONDS": 0.5}.items():  # fmt: skip
        monkeypatch.setattr(supervisor, name, value)
    started: list[Supervised] = []

    def start(code: str) -> Supervised:
        started.append(Supervised(code, tmp_path / "link.json"))
        return started[-1]

    yield start
    for one in started:
        one.stop.set()
        one.code()


def test_one_that_ends_is_started_again_until_the_supervisor_is_stopped(supervise: Supervise) -> None:
    running = supervise(f"{LOOK}; look(); sys.exit(70)")
    eventually(lambda: sum("has ended (exit code 70)" in line for line in running.said) > 2)
    running.stop.set()
    assert running.code() == 0


def test_one_that_dies_in_silence_is_replaced_once_the_coordinator_answers_again(
    supervise: Supervise, tmp_path: Path
) -> None:
    running = supervise(LOOKS_ONCE)
    running.says("connected to the coordinator")
    running.error = LinkError.REFUSED
    running.says("no answer from the coordinator: nothing listens at")
    assert not any("started again" in line for line in running.said), "while the coordinator is away it helps nothing"
    status = eventually(lambda: LinkStatus.read(tmp_path / "link.json"))
    assert status
    assert status.error == LinkError.REFUSED
    running.error = ""
    running.says("the SuperNode stopped polling: it is started again in")
    running.says("the coordinator answers again, after")


def test_one_that_looks_for_work_again_by_itself_stays(supervise: Supervise, tmp_path: Path) -> None:
    """And one that waits for a long look, where the coordinator always answered, stays too."""
    gate = tmp_path / "away"
    code = f"{LOOK}\nwhile True:\n  time.sleep(.02)\n  if not os.path.exists({str(gate)!r}): look()"
    running = supervise(code)
    running.says("connected to the coordinator")
    gate.touch()
    running.error = LinkError.BROKEN
    running.says("no answer from the coordinator")
    running.error = ""
    gate.unlink()
    running.says("the coordinator answers again, after")
    assert not any("started again" in line for line in running.said)


def test_a_client_certificate_that_is_refused_ends_it_with_one_sentence(supervise: Supervise) -> None:
    running = supervise("import time; time.sleep(.1); raise SystemExit(1)")
    running.error = LinkError.CERTIFICATE
    assert running.code() == SETTINGS_CODE
    assert running.said == [f"the SuperNode has ended: {supervisor.sentence_of(LinkError.CERTIFICATE)}"]


def test_one_that_the_coordinator_does_not_let_in_is_tried_again_and_told_why(supervise: Supervise) -> None:
    running = supervise("raise SystemExit(1)")
    running.says("Ask whether connection/node.key.pub is registered")
    eventually(lambda: len(running.said) > 2)


# --- one call to the coordinator, and what the file says of the link


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
