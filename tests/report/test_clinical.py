"""Metrics with their intervals on the page, as ``scores.json`` has them."""

import json
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.report.clinical import clinical
from fedct_flwr.report.page import content, document
from fedct_flwr.report.summary import read_runs
from fedct_flwr.runs.scores import OnTest, save
from tests.report.folders import SILOS, finished
from tests.runs.test_scores import EMPTY, GOOD, ONE_CLASS, RARE, row


def scored(path: Path, tests: list[tuple[OnTest, OnTest]]) -> Path:
    folder = finished(path)
    save([row(silo, *found) for silo, found in zip(SILOS, tests, strict=False)], folder.path / "scores.json")
    return folder.path


def cells(table: Any) -> dict[tuple[str, str], list[str]]:
    return {(line[0], line[1]): list(line[2:]) for line in [*table.rows, *table.foot]}


def test_each_silo_and_model_has_its_metrics_with_n_and_positives(tmp_path: Path, wording: SnapshotAssertion) -> None:
    path = scored(tmp_path / "run", [(GOOD, RARE), (ONE_CLASS, RARE), (EMPTY, RARE)])
    (run,) = read_runs([path])
    section = clinical([run])
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


def test_the_curve_has_the_bins_of_each_silo(tmp_path: Path) -> None:
    (run,) = read_runs([scored(tmp_path / "run", [(GOOD, RARE)] * 3)])
    figures = {figure.id: figure for figure in clinical([run]).figures}
    curve = figures["calibration-own"]
    assert [trace.get("name") for trace in curve.traces] == [None, *SILOS]
    bins = GOOD.models["federated"].calibration
    assert curve.traces[1]["x"] == [part.predicted for part in bins]
    assert curve.traces[1]["customdata"] == [part.n for part in bins]
    assert len(curve.table.rows) == 3 * len(bins)


def test_many_silos_have_one_curve_of_all_their_records(tmp_path: Path) -> None:
    silos = [f"silo-{number}" for number in range(20)]
    folder = finished(tmp_path / "run")
    save([row(silo, GOOD, RARE) for silo in silos], folder.path / "scores.json")
    (run,) = read_runs([folder.path])
    figures = {figure.id: figure for figure in clinical([run]).figures}
    (_, curve) = figures["calibration-own"].traces
    assert sum(curve["customdata"]) == 20 * GOOD.n
    one = GOOD.models["federated"].calibration
    assert curve["y"] == pytest.approx([part.observed for part in one])


def test_several_runs_are_compared_by_their_means(tmp_path: Path, wording: SnapshotAssertion) -> None:
    paths = [scored(tmp_path / "one", [(GOOD, GOOD)] * 3), scored(tmp_path / "two", [(RARE, RARE)] * 3)]
    tables = clinical(read_runs(paths)).tables
    assert [title for title, _ in tables] == wording
    table = next(table for title, table in tables if "own" in title)
    at = list(table.columns).index("AUC")
    expected = [f"{test.models['federated'].value('auc'):.3f}" for test in (GOOD, RARE)]
    assert [line[at] for line in table.rows] == expected


def test_runs_without_metrics_have_no_such_section(tmp_path: Path) -> None:
    assert clinical(read_runs([finished(tmp_path / "run").path])).empty


def test_the_page_takes_all_of_it_and_hides_nothing_of_a_name(tmp_path: Path) -> None:
    path = scored(tmp_path / "run", [(GOOD, RARE)] * 3)
    scores = json.loads((path / "scores.json").read_text())
    text = json.dumps(scores).replace('"ill"', '"<b>ill\\u202e"')
    (path / "scores.json").write_text(text)
    page = document(content(read_runs([path])))
    assert "Metrics with intervals" in page
    assert "<b>ill" not in page
    assert "\u202e" not in page
