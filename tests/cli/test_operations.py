"""What machines read of silo and coordinator, and the recipes of docs/operations.md; no data."""

import json
import os
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from fedct_flwr.cli.coordinator.folder import CoordinatorFolder
from fedct_flwr.cli.coordinator.init import prepare
from fedct_flwr.hospital.log_entry import Event, LogEntry
from fedct_flwr.hospital.log_line import VARIABLE, about, log_line
from tests.cli.silos import Fedct, Kit
from tests.hospitals import write_study_folder
from tests.readme import ROOT, shown


def test_a_line_is_an_object_in_utc_that_says_what_it_is_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "json")
    with about(part="agent", silo="zurich"), about(run=7, round=3):
        said = json.loads(log_line("labels left\n"))
    assert {key: said[key] for key in ("part", "silo", "run", "round", "message", "level")} == {
        "part": "agent", "silo": "zurich", "run": 7, "round": 3, "message": "labels left\n", "level": "info"
    }  # fmt: skip
    assert datetime.fromisoformat(said["time"]).utcoffset() == timedelta(0)
    assert "run" not in json.loads(log_line("later"))


def numbers(text: str) -> dict[str, float]:
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines()}


def test_a_silos_numbers(fedct: Fedct, kit: Kit) -> None:
    fedct("silo", "approve", kit.folder, "--yes", "--reason", "a test")
    with kit.log() as log:
        log.append(kit.released(1, 228, 151))
        log.append(LogEntry(Event.REFUSED, reason="LIMIT"))
    done = fedct("silo", "metrics", kit.folder)
    assert done.code == 0, done.err
    found = numbers(done.out)
    of = '{silo="cleveland"}'
    assert found["fedct_readable"] == 1
    assert found['fedct_approval_state{silo="cleveland",state="approved"}'] == 1
    assert (found[f"fedct_used_rounds{of}"], found[f"fedct_limits_rounds{of}"]) == (1, 100)
    assert found[f"fedct_limits_labels{of}"] == 22_800
    assert found[f"fedct_refused_LIMIT{of}"] == 1
    assert (found[f"fedct_agent_alive{of}"], found[f"fedct_agent_healthy{of}"]) == (0, 0)
    assert found[f"fedct_free_bytes{of}"] > 0
    # Nothing of the records: neither classes nor columns.
    assert "healthy" not in done.out.replace("fedct_agent_healthy", "")
    assert all(name not in done.out for name in ("diseased", "cholesterol", "oldpeak"))


def test_a_coordinators_numbers(fedct: Fedct, tmp_path: Path) -> None:
    folder, _ = prepare(tmp_path / "coordinator", ["fl.example.org"], address="127.0.0.1:1")
    found = numbers(fedct("coordinator", "metrics", folder.path).out)
    assert (found["fedct_reachable"], found["fedct_gateway_answers"]) == (0, 0)
    assert found["fedct_certificate_days_server"] == 824


# --- the commands of docs/operations.md: stop, tar, start

PAGE = (ROOT / "docs" / "operations.md").read_text("utf-8")


def run(block: str, here: Path) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["sh", "-c", shown(block, "sh", PAGE)],
        cwd=here,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
    ).stdout


def test_a_coordinator_is_packed_unpacked_and_watched(tmp_path: Path, fedct: Fedct, kit: Kit) -> None:
    study = write_study_folder(tmp_path / "study")
    folder, _ = prepare(tmp_path / "coordinator", ["coordinator.example"], study=study)
    (folder.state / "state.db").write_bytes(b"runs")
    run("<!-- backup of a coordinator -->", tmp_path)
    run("<!-- restore of a coordinator -->", tmp_path)
    there = CoordinatorFolder.open(tmp_path / "elsewhere" / "coordinator")
    for name in ("certificates/ca.key", "secret", "state/state.db"):
        assert (there.path / name).read_bytes() == (folder.path / name).read_bytes()
    run("<!-- a fresh database -->", tmp_path)
    assert not (folder.state / "state.db").exists()
    kit.folder.rename(tmp_path / "silo")
    silo, end = json.JSONDecoder().raw_decode(printed := run("<!-- monitoring -->", tmp_path))
    assert silo["agent"]["healthy"] is False
    assert json.loads(printed[end:])["silos"] == []
