"""How good models are: metrics with their intervals as ``scores.json`` has them, and those of models of no silo."""

import json
from pathlib import Path
from typing import Any

from syrupy.assertion import SnapshotAssertion

from fedct_flwr.report.page import content, document
from fedct_flwr.report.scores import accuracy, clinical
from fedct_flwr.report.summary import read_run
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.runs.scores import OnTest, save
from tests.report.folders import SILOS, add_round, begin, finished
from tests.runs.test_scores import EMPTY, GOOD, ONE_CLASS, RARE, row


def scored(path: Path, tests: list[tuple[OnTest, OnTest]]) -> Path:
    folder = finished(path)
    save([row(silo, *found) for silo, found in zip(SILOS, tests, strict=False)], folder.path / "scores.json")
    return folder.path


def cells(table: Any) -> dict[tuple[str, str], list[str]]:
    return {(line[0], line[1]): list(line[2:]) for line in [*table.rows, *table.foot]}


def test_each_silo_and_model_has_its_metrics_with_n_and_positives(tmp_path: Path, wording: SnapshotAssertion) -> None:
    path = scored(tmp_path / "run", [(GOOD, RARE), (ONE_CLASS, RARE), (EMPTY, RARE)])
    section = clinical(read_run(path))
    assert [title for title, _ in section.tables] == wording
    own, confusion = (table for title, table in section.tables if "own" in title)
    assert list(own.columns[2:]) == [
        "n", "ill", "balanced accuracy", "accuracy", "AUC", "sensitivity", "specificity", "Brier score",
    ]  # fmt: skip
    found = cells(own)
    auc = GOOD.models["federated"].metrics["auc"]
    assert found["oslo", "FedCT"][:2] == ["6", "3"]
    assert found["oslo", "FedCT"][4] == f"{auc.value:.3f} ({auc.low:.2f}–{auc.high:.2f})"
    # One class: neither balanced accuracy nor AUC nor specificity, which is no reason to leave the others out.
    assert [number for number, cell in enumerate(found["rome", "FedCT"]) if cell == "–"] == [2, 4, 6]
    assert ("cairo", "FedCT") not in found
    assert found["mean", "FedCT"][4] == f"{auc.value:.3f}"
    assert ["oslo", "FedCT", "ill", "1", "2"] in [list(line) for line in confusion.rows]
    assert any("one class" in note for note in section.notes)


def test_the_page_takes_all_of_it_and_hides_nothing_of_a_name(tmp_path: Path) -> None:
    path = scored(tmp_path / "run", [(GOOD, RARE)] * 3)
    scores = json.loads((path / "scores.json").read_text())
    text = json.dumps(scores).replace('"ill"', '"<b>ill\\u202e"')
    (path / "scores.json").write_text(text)
    page = document(content(read_run(path)))
    assert "Metrics with intervals" in page
    assert "<b>ill" not in page
    assert "\u202e" not in page


# --- models of no silo


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
