"""What the agent does and what has left, for people, for programs and for health checks."""

import http.server
import importlib.util
import json
import os
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.hospital.agent_status import STATUS_FILE, Status
from fedct_flwr.hospital.approval import approve
from fedct_flwr.hospital.gate import Gate
from fedct_flwr.hospital.link import SILENT_HEADER, SILENT_SECONDS
from fedct_flwr.hospital.log_entry import Event, LogEntry
from fedct_flwr.privacy.budget import Budget
from fedct_flwr.privacy.events import pure
from fedct_flwr.privacy.ledger import Ledger
from fedct_flwr.silo.release import DATA_SET
from tests.cli.silos import Fedct, Kit

NO_PROCESS = 2**22 + 1


def write_agent(kit: Kit, **changes: object) -> None:
    """What an agent that has just been in contact says."""
    now = time.time()
    said = {
        "pid": os.getpid(), "started": psutil.Process().create_time() + 1, "study": "heart-disease", "seen": now,
        "connected": True, "working": False, "round": 0, **changes,
    }  # fmt: skip
    (kit.state / STATUS_FILE).write_text(json.dumps(said))


def said(fedct: Fedct, kit: Kit) -> dict[str, Any]:
    outcome = fedct("silo", "status", kit.folder, "--json")
    assert outcome.code == 0
    found: dict[str, Any] = json.loads(outcome.out)
    return found


@pytest.mark.parametrize(
    ("changes", "ago", "healthy"),
    [
        ({}, {}, True),
        ({"connected": False}, {}, False),
        ({}, {"seen": 3600}, False),
        ({}, {"heard": 0}, True),
        ({}, {"heard": 3600}, False),
        ({"shut": "log"}, {}, False),
        ({}, {"seen": -3600}, False),
    ],
)
def test_the_health_check_of_a_container_reads_what_an_agent_writes(
    tmp_path: Path, changes: dict[str, Any], ago: dict[str, float], healthy: bool
) -> None:
    """It stands alone, so nothing but this holds the two together."""
    times = {"seen": time.time(), **{name: time.time() - seconds for name, seconds in ago.items()}}
    status = replace(Status(1, 1.0, "study", seen=0.0, connected=True), **times, **changes)
    (tmp_path / STATUS_FILE).write_text(json.dumps(asdict(status)))
    assert health_check().has_contact(str(tmp_path / STATUS_FILE)) is healthy


def health_check() -> Any:
    """docker/healthy.py."""
    spec = importlib.util.spec_from_file_location("healthy", Path(__file__).parents[2] / "docker" / "healthy.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class SuperNodes(http.server.BaseHTTPRequestHandler):
    """Answers as one that has not heard from its coordinator for the seconds in the path."""

    def do_GET(self) -> None:
        self.send_response(200)
        if self.path.strip("/"):
            self.send_header(SILENT_HEADER, self.path.strip("/"))
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(
    ("silent", "healthy"), [("", True), ("2.0", True), ("3600.0", False), ("nan", False), ("-1", False)]
)
def test_the_health_check_of_a_supernode_asks_when_the_coordinator_answered(silent: str, healthy: bool) -> None:
    module = health_check()
    assert module._SILENT_SECONDS == SILENT_SECONDS
    with http.server.HTTPServer(("127.0.0.1", 0), SuperNodes) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        assert module.answers(f"http://127.0.0.1:{server.server_port}/{silent}", None) is healthy


def test_a_link_that_is_silent_is_told_and_is_not_healthy(fedct: Fedct, kit: Kit, wording: SnapshotAssertion) -> None:
    write_agent(kit, heard=time.time() - 600, trouble="status-503")
    outcome = fedct("silo", "status", kit.folder)
    assert "no word for 10 min" in outcome.out
    assert "HTTP status 503" in outcome.out
    assert "waits for questions" not in outcome.out
    assert fedct("silo", "status", kit.folder, "--healthy").code == 1
    agent = said(fedct, kit)["agent"]
    assert (agent["healthy"], agent["trouble"]) == (False, "status-503")
    assert 600 <= agent["silence"] < 660
    found = fedct("silo", "check", kit.folder, "--offline")
    assert found.code == 3
    assert found.out == wording
    # A single call that failed is nothing yet.
    write_agent(kit, heard=time.time() - 5, trouble="broken")
    assert fedct("silo", "status", kit.folder, "--healthy").code == 0
    assert "waits for questions" in fedct("silo", "status", kit.folder).out
    assert "✓ agent: it is at work" in fedct("silo", "check", kit.folder, "--offline").out


def test_what_has_left_is_what_the_gate_counts(fedct: Fedct, kit: Kit) -> None:
    config, study = kit.config, kit.study
    with kit.log() as log:
        approve(log, config, study)
        log.append(kit.released(1, 228, 151))
        log.append(LogEntry(Event.REPEATED, study.name, study.public.fingerprint.hex(), 7, 1, "hard", 228, 151))
        log.append(LogEntry(Event.RELEASED, "another-study", "00", 8, 1, "hard", 1000, 1000))
        counted = Gate(config, study, log, lambda: True).spent()
    assert said(fedct, kit)["used"] == {"rounds": counted.rounds, "labels": counted.queries, "bytes": counted.bytes}
    assert counted.bytes == 302


@pytest.mark.parametrize(
    ("agent", "alive", "code"),
    [
        ({}, True, 0),
        ({"seen": 0.0, "connected": False}, True, 1),
        ({"pid": 0}, False, 1),
        ({"pid": NO_PROCESS, "seen": 0.0}, False, 1),
        ({"started": 10.0, "seen": 11.0}, False, 1),
        ({"pid": NO_PROCESS}, True, 0),
        ({"pid": NO_PROCESS, "seen": time.time() + 3600}, False, 1),
        ({"seen": time.time() + 3600}, True, 1),
    ],
    ids=[
        "at work",
        "no contact",
        "stopped",
        "killed",
        "another process of its number",
        "in a container",
        "killed, and the clock set back",
        "stands still, and the clock set back",
    ],
)
def test_whether_the_agent_lives(fedct: Fedct, kit: Kit, agent: dict[str, Any], alive: bool, code: int) -> None:
    write_agent(kit, **agent)
    outcome = fedct("silo", "status", kit.folder, "--healthy")
    assert (outcome.code, outcome.out, outcome.err) == (code, "", "")
    assert said(fedct, kit)["agent"]["alive"] is alive


def test_what_is_spent_of_a_promise_is_what_the_ledger_has(fedct: Fedct, kit: Kit, wording: SnapshotAssertion) -> None:
    assert "privacy" not in said(fedct, kit)
    kit.edit('protection = "none"', 'protection = "teachers"')
    assert said(fedct, kit)["privacy"] == {
        "protection": "teachers", "epsilon": 1.0, "delta": 1e-5, "spent": 0.0, "left": 1.0, "charges": 0,
        "others": 0, "together": 0.0, "ahead": "",
    }  # fmt: skip
    assert not (kit.state / "privacy").exists()
    with Ledger(kit.state) as ledger:
        ledger.charge("heart-disease", DATA_SET, Budget(1.0, 1e-5), pure(0.25))
    found = said(fedct, kit)["privacy"]
    assert found["charges"] == 1
    assert (found["spent"], found["left"]) == pytest.approx((0.25, 0.75), abs=1e-3)
    assert "teachers: epsilon 0.25 of 1 spent, 0.75 left" in fedct("silo", "status", kit.folder).out
    assert "all studies" not in fedct("silo", "status", kit.folder).out
    (kit.state / "privacy" / "ledger.sqlite").unlink()
    assert said(fedct, kit)["privacy"]["spent"] is None
    assert fedct("silo", "status", kit.folder).out == wording
