"""What the agent does and what has left, for people, for programs and for health checks."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from fedct_flwr.cli.silo import status_report
from fedct_flwr.cli.silo.connect import supernode_command
from fedct_flwr.hospital.agent_status import STATUS_FILE, Status, status_file
from fedct_flwr.hospital.approval import approve, withdraw
from fedct_flwr.hospital.link import SILENT_SECONDS, LinkStatus
from fedct_flwr.hospital.log_entry import Event, LogEntry, Used
from fedct_flwr.hospital.opening import open_gate
from fedct_flwr.hospital.shared_usage import SharedUsage
from fedct_flwr.privacy.budget import DATA_SET, Budget
from fedct_flwr.privacy.events import pure
from fedct_flwr.privacy.ledger import Ledger
from fedct_flwr.privacy.ledger_file import LedgerError
from fedct_flwr.types import ConfigError
from tests.cli.silos import Fedct, Kit, words
from tests.patience import PATIENCE, eventually
from tests.readme import ROOT
from tests.wheelhouses import load_script

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


def agent_says(path: Path, ago: float = 0, **changes: Any) -> None:
    said = Status(1, 1.0, "study", seen=time.time() - ago, connected=True)
    path.write_text(json.dumps(asdict(replace(said, **changes))))


def supervisor_says(path: Path, ago: float) -> None:
    LinkStatus(time.time(), time.time() - ago).write(path)


@pytest.mark.parametrize(
    ("says", "healthy"),
    [
        (agent_says, True),
        (lambda path: agent_says(path, connected=False), False),
        (lambda path: agent_says(path, 3600), False),
        (lambda path: agent_says(path, shut="log"), False),
        (lambda path: agent_says(path, -3600), False),
        (lambda path: supervisor_says(path, 2), True),
        (lambda path: supervisor_says(path, 3600), False),
    ],
)
def test_the_health_check_of_a_container_reads_what_agent_and_supernode_write(
    tmp_path: Path, says: Callable[[Path], None], healthy: bool
) -> None:
    """It stands alone, so nothing but this holds them together."""
    says(tmp_path / STATUS_FILE)
    module = load_script("healthy")
    assert module.has_contact(str(tmp_path / STATUS_FILE)) is healthy
    assert module._SILENT_SECONDS == SILENT_SECONDS


def _link(**of: Any) -> Callable[[Kit], None]:
    def write(kit: Kit) -> None:
        LinkStatus(time.time(), time.time() - of.pop("ago", 0), **of).write(status_file(kit.config))

    return write


STATES: dict[str, tuple[Callable[[Kit], object], str, int]] = {
    "well": (_link(ago=2), "answered 2 s ago", 0),
    "never connected": (_link(ago=25, connected=False, error="refused"), "not connected in 25 s; nothing listens", 1),
    "not registered": (_link(ago=90, connected=False), "the coordinator answers, but not this silo's SuperNode", 1),
    "removed": (
        lambda kit: (_link(ago=90)(kit), write_agent(kit, connected=False)),
        "cannot be asked, as the coordinator does not let its SuperNode in (process",
        1,
    ),
    "removed just now": (_link(ago=90), "so it has removed the silo: ask it for a new invitation", 1),
    "gateway or coordinator down": (_link(ago=90, error="refused"), "1 min ago; nothing listens at", 1),
    "clock off": (_link(ago=90, error="out-of-date"), "by this machine's clock, the coordinator's certificate", 1),
    "agent dead": (lambda kit: write_agent(kit, pid=0), "not at work: fedct silo start", 1),
    "SuperNode dead": (lambda kit: write_agent(kit, connected=False), "waits for its SuperNode (process", 1),
    "disk full": (lambda kit: write_agent(kit, shut="log"), "the agent cannot write its egress log", 1),
    "files changed": (lambda kit: write_agent(kit, shut="files"), "a key, or files of study or app were written", 1),
    "approval revoked": (lambda kit: withdraw(kit.state), "revoked, so nothing leaves: fedct silo approve", 1),
}
"""States that docs/operations.md lists: the sentence of ``fedct silo status``, and the exit code of ``--healthy``."""


@pytest.mark.parametrize("state", STATES)
def test_the_status_is_true_in_every_state(fedct: Fedct, approved_kit: Kit, state: str) -> None:
    write_agent(approved_kit)
    change, sentence, code = STATES[state]
    change(approved_kit)
    assert sentence in words(fedct("silo", "status", approved_kit.folder).out)
    assert fedct("silo", "status", approved_kit.folder, "--healthy").code == code
    assert f"| {state} |" in (ROOT / "docs" / "operations.md").read_text("utf-8")


def test_a_disk_without_room_is_said(fedct: Fedct, kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_report, "FEW_BYTES", 1 << 60)
    assert "MB free: make room" in fedct("silo", "status", kit.folder).out


def test_what_has_left_is_what_the_gate_counts(fedct: Fedct, kit: Kit) -> None:
    config, study = kit.config, kit.study
    with kit.log() as log:
        approve(log, config, study)
        log.append(kit.released(1, 228, 151))
        log.append(LogEntry(Event.REPEATED, study.name, study.public.fingerprint.hex(), 7, 1, "hard", 228, 151))
        log.append(LogEntry(Event.RELEASED, "another-study", "00", 8, 1, "hard", 1000, 1000))
        counted = open_gate(config, study, log, lambda: True).spent()
    assert said(fedct, kit)["used"] == {"rounds": counted.rounds, "labels": counted.queries, "bytes": counted.bytes}
    assert counted.bytes == 302


@pytest.mark.parametrize(
    ("agent", "alive", "code"),
    [
        pytest.param({}, True, 0, id="at work"),
        pytest.param({"seen": 0.0, "connected": False}, True, 1, id="no contact"),
        pytest.param({"pid": 0}, False, 1, id="stopped"),
        pytest.param({"pid": NO_PROCESS, "seen": 0.0}, False, 1, id="killed"),
        pytest.param({"started": 10.0, "seen": 11.0}, False, 1, id="another process of its number"),
        pytest.param({"pid": NO_PROCESS}, True, 0, id="in a container"),
        pytest.param({"seen": time.time() + 3600}, True, 1, id="stands still, and the clock set back"),
    ],
)
def test_whether_the_agent_lives(
    fedct: Fedct, approved_kit: Kit, agent: dict[str, Any], alive: bool, code: int
) -> None:
    write_agent(approved_kit, **agent)
    outcome = fedct("silo", "status", approved_kit.folder, "--healthy")
    assert (outcome.code, outcome.out, outcome.err) == (code, "", "")
    assert said(fedct, approved_kit)["agent"]["alive"] is alive


def test_what_is_spent_of_a_promise_is_what_the_ledger_has(fedct: Fedct, kit: Kit) -> None:
    assert "privacy" not in said(fedct, kit)
    kit.protect("dp-linear")
    assert said(fedct, kit)["privacy"] == {
        "protection": "dp-linear", "epsilon": 1.0, "delta": 1e-5, "spent": 0.0, "left": 1.0, "charges": 0,
        "others": 0, "together": 0.0,
    }  # fmt: skip
    assert not (kit.state / "privacy").exists()
    with Ledger(kit.state) as ledger:
        ledger.charge("heart-disease", DATA_SET, Budget(1.0, 1e-5), pure(0.25))
    found = said(fedct, kit)["privacy"]
    assert found["charges"] == 1
    assert (found["spent"], found["left"]) == pytest.approx((0.25, 0.75), abs=1e-3)
    assert "dp-linear: epsilon 0.25 of 1 spent, 0.75 left" in fedct("silo", "status", kit.folder).out
    assert "all studies" not in fedct("silo", "status", kit.folder).out
    (kit.state / "privacy" / "ledger.sqlite").unlink()
    assert said(fedct, kit)["privacy"]["spent"] is None
    assert "the ledger cannot be read, so nothing leaves" in fedct("silo", "status", kit.folder).out


def test_status_and_approval_tell_of_limits_that_studies_share(fedct: Fedct, kit: Kit, tmp_path: Path) -> None:
    kit.file.write_text(
        f"{kit.file.read_text('utf-8')}\n[records]\nfolder = '{tmp_path / 'common'}'\nmax-queries = 300\n", "utf-8"
    )
    limits = {"max_rounds": 9, "max_queries": 300, "max_bytes": 9000}
    usage = SharedUsage(tmp_path / "common", "another", limits, bare=True)
    assert "epsilon 0 spent" in fedct("silo", "status", kit.folder).out
    usage.charge(Used(rounds=1, queries=228, bytes=40))
    page = " ".join(fedct("silo", "approve", kit.folder, "--yes", "--reason", "test").out.split())
    assert "Limits over all studies of these records" in page
    assert "Labels: 300, of which 228 are used" in page
    spent = "Epsilon: no limit at delta 1e-05 for each record, of which there is no bound"
    assert spent in page
    assert spent in fedct("privacy-sheet", kit.folder).out
    assert "This study has no protection" in page
    assert "Counted for 1 silo folder in" in page
    said = json.loads(fedct("silo", "status", kit.folder, "--json").out)["records"]
    assert said["used"] == {"rounds": 1, "labels": 228, "bytes": 40}
    assert said["limits"]["labels"] == 300
    assert (said["privacy"]["spent"], said["privacy"]["bounded"]) == (None, False)
    shown = " ".join(fedct("silo", "status", kit.folder).out.split())
    assert "labels: 228 of 300 used" in shown
    assert "epsilon: no bound, as labels have left without a protection" in shown
    assert "1 silo folder counted in" in shown
    (tmp_path / "common" / "ledger.mark").write_bytes(b"another\n")
    shown = " ".join(fedct("silo", "status", kit.folder).out.split())
    assert "what has left cannot be told, so nothing leaves" in shown
    assert json.loads(fedct("silo", "status", kit.folder, "--json").out)["records"]["privacy"]["bounded"] is None
    assert fedct("privacy-sheet", kit.folder).code == LedgerError.exit_code


# --- the agent and the SuperNode as processes: refused in one sentence, stopped cleanly, with Flower's options


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda kit: withdraw(kit.state), "revoked, so nothing leaves"),
        (lambda kit: kit.edit("max-rounds = 100", "max-rounds = 200"), "have changed"),
        (lambda kit: kit.edit("epsilon = 1.0", "epsilon = 0.1"), "epsilon has no effect"),
    ],
)
def test_what_is_not_approved_does_not_start(
    fedct: Fedct, approved_kit: Kit, spoil: Callable[[Kit], None], said: str
) -> None:
    spoil(approved_kit)
    outcome = fedct("silo", "start", approved_kit.folder)
    assert (outcome.code, said in outcome.sentence) == (ConfigError.exit_code, True)


@contextmanager
def started(kit: Kit) -> Iterator[subprocess.Popen[str]]:
    """``fedct silo start`` in a process of its own; it has said that it is ready."""
    code = "from fedct_flwr.cli.main import run; run()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "silo", "start", str(kit.folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert "silo cleveland is ready: about 170 records to train on" in said, said + process.stdout.read()
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_ends_it_in_order(fedct: Fedct, approved_kit: Kit, number: signal.Signals) -> None:
    kit = approved_kit
    kit.edit("127.0.0.1:9094", "127.0.0.1:1")
    with started(kit) as process:
        eventually(lambda: "process" in fedct("silo", "status", kit.folder).out, "the agent's status", pause=0.1)
        assert "waits for its SuperNode" in fedct("silo", "status", kit.folder).out
        assert fedct("silo", "status", kit.folder, "--healthy").code == 1
        process.send_signal(number)
        assert process.wait(PATIENCE) == 0
        assert process.stdout is not None
        assert process.stdout.read().rstrip().endswith("stopped")
    assert "not at work" in fedct("silo", "status", kit.folder).out
    assert fedct("silo", "verify", kit.folder).code == 0
    assert kit.events == [Event.APPROVED, Event.OPENED]


# --- its SuperNode

PROGRAM = ["-P", "-m", "fedct_flwr.hospital.supervisor"]


def test_the_command_is_what_the_settings_say_and_flower_takes_it(kit: Kit) -> None:
    from flwr.supernode.cli.flower_supernode import _parse_args_run_supernode

    (kit.folder / "connection" / "client.crt").touch()
    program, options = (command := supernode_command(kit.config.connection))[:4], command[4:]
    assert program == [sys.executable, *PROGRAM]
    assert dict(zip(options[::2], options[1::2], strict=True)) == {
        "--client-certificate": str(kit.folder / "connection" / "client.crt"),
        "--client-key": str(kit.folder / "connection" / "client.key"),
        "--isolation": "process",
        "--superlink": "localhost:1",
        "--root-certificates": str(kit.folder / "connection" / "ca.crt"),
        "--auth-supernode-private-key": str(kit.folder / "connection" / "node.key"),
        "--superexec-auth-secret-file": str(kit.folder / "connection" / "secret"),
        "--host": "127.0.0.1",
        "--port": "9094",
    }
    # The client's certificate is our own.
    parsed = _parse_args_run_supernode().parse_args(options[4:])
    assert (parsed.isolation, parsed.port) == ("process", 9094)
