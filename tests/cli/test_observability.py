"""What machines read of silo and coordinator: logs as JSON, numbers for Prometheus; no data."""

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from fedct_flwr.cli.coordinator import status as coordinators
from fedct_flwr.cli.coordinator.folder import CoordinatorFolder
from fedct_flwr.cli.coordinator.init import prepare
from fedct_flwr.hospital.log_entry import Event, LogEntry
from fedct_flwr.hospital.log_line import VARIABLE, about, log_line
from tests.cli.silos import Fedct, Kit

# --- logs


def test_a_line_is_an_object_in_utc_that_says_what_it_is_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "json")
    with about(part="agent", silo="zurich"), about(run=7, round=3):
        said = json.loads(log_line("labels left\n"))
    assert {key: said[key] for key in ("part", "silo", "run", "round", "message", "level")} == {
        "part": "agent", "silo": "zurich", "run": 7, "round": 3, "message": "labels left\n", "level": "info"
    }  # fmt: skip
    assert datetime.fromisoformat(said["time"]).utcoffset() == timedelta(0)
    assert "run" not in json.loads(log_line("later"))


# --- numbers


def numbers(text: str) -> dict[str, float]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


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
    assert found[f"fedct_approved{of}"] == 1
    assert (found[f"fedct_rounds_used{of}"], found[f"fedct_rounds_left{of}"]) == (1, 99)
    assert found[f"fedct_labels_left{of}"] == 22_800 - 228
    assert found['fedct_refusals{reason="LIMIT",silo="cleveland"}'] == 1
    assert found[f"fedct_agent_up{of}"] == 0
    assert found[f"fedct_disk_free_bytes{of}"] > 0
    # Nothing of the records: neither classes nor columns.
    assert "healthy" not in done.out.replace("fedct_agent_healthy", "")
    assert all(name not in done.out for name in ("diseased", "cholesterol", "oldpeak"))


def test_a_coordinators_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, _ = prepare(tmp_path / "coordinator", ["fl.example.org"], address="127.0.0.1:1")
    run = folder.runs / "heart-1"
    run.mkdir()
    lines = [{"round": 1, "absent": {}}, {"round": 2, "absent": {"basel": "LIMIT"}}]
    (run / "rounds.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    found = {(name, *labels.values()): value for name, _, labels, value in coordinators.samples(folder)}
    assert found["superlink_up",] == 0
    assert found["run_rounds", "heart-1"] == 2
    assert found["run_absences", "heart-1", "basel", "LIMIT"] == 1
    assert found["certificate_days", "server"] == 824
    assert CoordinatorFolder.open(folder.path)
