"""How good models are, where they are of silos and where they are of nobody."""

import json
from pathlib import Path
from typing import Any

from syrupy.assertion import SnapshotAssertion

from fedct_flwr.report.scores import accuracy
from fedct_flwr.report.summary import read_run
from fedct_flwr.runs.run_folder import RunFolder
from tests.report.folders import SILOS, add_round, begin

STUDENT = {"scores": {"student": {"balanced_accuracy": 0.65}, "ensemble": {"balanced_accuracy": 0.675}}}


def one_shot(path: Path, **facts: Any) -> RunFolder:
    """A run that leaves no models at its silos."""
    folder = begin(path, algorithm="fedkt")
    add_round(folder, 1, silos=SILOS)
    rows = [{"silo": silo, "own": {}, "pooled": {"local": 0.6, "centralized": 0.8}} for silo in SILOS]
    (folder.path / "scores.json").write_text(json.dumps(rows))
    log = folder.path / "rounds.jsonl"
    log.write_text(log.read_text().replace("pooled_balanced_accuracy", "other"))
    folder.finish("completed", global_model=STUDENT, **facts)
    return folder


def test_models_of_no_silo_are_lines_through_the_pooled_test_set(tmp_path: Path, wording: SnapshotAssertion) -> None:
    found = accuracy(read_run(one_shot(tmp_path / "run").path))
    (figure,) = found.figures
    lines = {trace["name"]: trace["x"] for trace in figure.traces if trace.get("name") in {"student", "ensemble"}}
    assert lines == {"student": [0.65, 0.65], "ensemble": [0.675, 0.675]}
    assert figure.message == wording
    assert [list(row) for row in figure.table.foot[1:]] == [
        ["student", "–", "0.650", "–"],
        ["ensemble", "–", "0.675", "–"],
    ]
    assert "Lines lead" not in figure.note
