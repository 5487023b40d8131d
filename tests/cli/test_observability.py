"""What machines read of silo and coordinator: logs as JSON, numbers for Prometheus; no data."""

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from fedct_flwr.cli.coordinator.init import prepare
from fedct_flwr.hospital.log_entry import Event, LogEntry
from fedct_flwr.hospital.log_line import VARIABLE, about, log_line
from tests.cli.silos import Fedct, Kit


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
