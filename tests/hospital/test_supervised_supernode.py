"""The supervisor, with a short program in the SuperNode's place."""

import sys
import threading
from collections.abc import Callable

import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.hospital import supervised_supernode
from fedct_flwr.hospital.supervised_supernode import FAILED_CODE, SETTINGS_CODE, Supervisor
from tests.patience import PATIENCE, eventually

Supervise = Callable[[str], "Supervised"]

WAIT = "import sys; sys.stdin.read()"
NOTE = "import json, sys; note = lambda *what: print(json.dumps(what), flush=True)"


class Supervised:
    def __init__(self, code: str) -> None:
        self.said: list[str] = []
        self.codes: list[int] = []
        self.stop = threading.Event()
        self._supervisor = Supervisor([sys.executable, "-c", code], self.said.append, self.stop)
        self._thread = threading.Thread(target=lambda: self.codes.append(self._supervisor.run()), daemon=True)
        self._thread.start()

    def says(self, text: str) -> None:
        eventually(lambda: any(text in line for line in self.said), text)

    def code(self) -> int:
        self._thread.join(PATIENCE)
        return self.codes[0]

    def end(self) -> int:
        self.stop.set()
        return self.code()


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised_supernode, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(supervised_supernode, "_LONGEST_PAUSE", 0.05)
    monkeypatch.setattr(supervised_supernode, "_LOOK_SECONDS", 0.02)


def test_one_that_ends_is_started_again(wording: SnapshotAssertion) -> None:
    running = Supervised(f"{NOTE}; note('ActivateNode', ''); sys.exit(70)")
    eventually(lambda: sum("(exit code 70): it is started again" in line for line in running.said) > 2)
    assert running.said[0] == wording
    assert running.end() == 0


def test_a_fault_and_its_end_are_said_once_each(wording: SnapshotAssertion) -> None:
    calls = "; ".join(
        f"note('PullMessages', {trouble!r})" for trouble in ("", "broken", "broken", "status-503", "", "", "")
    )
    running = Supervised(f"{NOTE}; note('fingerprint', 'SHA256:key'); note('ActivateNode', ''); {calls}; {WAIT}")
    running.says("answers again")
    assert running.end() == 0
    assert [line.partition(":")[0] for line in running.said] == wording


def test_an_unknown_key_is_said_with_its_fingerprint(wording: SnapshotAssertion) -> None:
    running = Supervised(f"{NOTE}; note('fingerprint', 'SHA256:key'); note('ActivateNode', 'unregistered'); {WAIT}")
    running.says("(fingerprint SHA256:key)")
    assert running.end() == 0
    assert running.said[0] == wording


@pytest.mark.parametrize("note", ["note('ActivateNode', '')", "note('PullMessages', 'broken')"])
def test_one_that_calls_no_more_is_replaced(
    monkeypatch: pytest.MonkeyPatch, note: str, wording: SnapshotAssertion
) -> None:
    monkeypatch.setattr(supervised_supernode, "SILENT_SECONDS", 0.1)
    monkeypatch.setattr("fedct_flwr.hospital.link.SILENT_SECONDS", 0.1)
    running = Supervised(f"{NOTE}; {note}; {WAIT}")
    running.says("for 0 s")
    running.says("it is started again")
    assert running.end() == 0
    assert next(line for line in running.said if "for 0 s" in line) == wording


def test_one_that_calls_in_vain_is_replaced_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised_supernode, "SILENT_SECONDS", 0.1)
    monkeypatch.setattr(supervised_supernode, "_FIRST_RENEWAL", 0.5)
    loop = "import time\nwhile True: note('PullMessages', 'broken'); time.sleep(0.05)"
    running = Supervised(f"{NOTE}\n{loop}")
    running.says("it is started again")
    told = [line for line in running.said if line.startswith("no word")]
    assert len(told) == 2, "once when it fell silent, and once with the reason to start again"
    assert running.end() == 0


def test_one_that_cannot_start_ends_with_a_code_and_a_sentence(wording: SnapshotAssertion) -> None:
    running = Supervised("raise SystemExit(3)")
    assert running.code() == FAILED_CODE
    assert running.said[-1] == wording


def test_a_certificate_that_is_not_let_in_ends_it_unless_it_once_was(wording: SnapshotAssertion) -> None:
    refused = Supervised(f"{NOTE}; note('ActivateNode', 'client-certificate'); sys.exit(1)")
    assert refused.code() == SETTINGS_CODE
    assert refused.said[-1] == wording
    once = Supervised(f"{NOTE}; note('ActivateNode', ''); note('PullMessages', 'client-certificate'); sys.exit(1)")
    eventually(lambda: sum("it is started again" in line for line in once.said) > 2)
    assert once.end() == 0


def test_one_that_does_not_want_to_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised_supernode, "_STOP_SECONDS", 0.2)
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); note('ActivateNode', '')"
    running = Supervised(f"{NOTE}; {code}; {WAIT}; signal.pause()")
    running.says("connected")
    assert running.end() == 0
