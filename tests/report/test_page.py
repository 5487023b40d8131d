"""The page: all that it says, and nothing that a silo's name could make of it."""

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.report.figures import Figure
from fedct_flwr.report.page import document, plotly_script
from fedct_flwr.report.sections import metrics, scores, sections_of, table_of_silos
from fedct_flwr.report.summary import RoundHistory, RunSummary, read_course
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.runs.scores import save
from fedct_flwr.types import RunError
from tests.report.folders import CLASSES, SILOS, add_round, add_weights_round, begin, finished
from tests.runs.test_scores import EMPTY, GOOD, ONE_CLASS, RARE, row

NASTY = "<img src=x onerror=\"document.title='owned'\"></script><b>&amp;"


def own_part(page: str) -> str:
    """All but Plotly's script."""
    return page.replace(plotly_script().read_text("utf-8"), "")


def figures(run: RunSummary) -> dict[str, Figure]:
    return {figure.id: figure for section in sections_of(run) for figure in section.figures}


@pytest.fixture
def one(tmp_path: Path) -> RunSummary:
    return RunSummary(finished(tmp_path / "run").path)


def test_it_is_one_file_that_loads_nothing(one: RunSummary):
    page = document(one)
    assert page.count(plotly_script().read_text("utf-8")) == 1
    assert len(page.encode()) < 6_000_000
    assert not re.search(r"<link|<[^>]* src=", own_part(page))
    assert "default-src 'none'" in page
    assert "connect-src 'none'" in page
    assert 'http-equiv="refresh"' not in own_part(page)
    assert '<meta http-equiv="refresh" content="5">' in document(one, reloads=True)


def test_every_figure_is_one_that_plotly_knows(one: RunSummary, tmp_path: Path):
    other = finished(tmp_path / "other", silos=[f"silo-{n}" for n in range(20)])
    for found in (one, RunSummary(other.path)):
        for figure in figures(found).values():
            # Raises ValueError for a property that there is not.
            go.Figure({"data": figure.traces, "layout": figure.layout})


def test_every_figure_has_its_numbers_in_a_table(one: RunSummary):
    drawn = figures(one)
    assert list(drawn["agreement"].table.columns) == ["Round", *SILOS]
    assert list(drawn["agreement"].table.rows[0]) == ["1", "60.0%", "59.0%", "58.0%"]
    # Those of the end are in the table at a glance.
    assert drawn.pop("accuracy-pooled-end").table is None
    for figure in drawn.values():
        assert figure.table.rows
        assert {len(row) for row in figure.table.rows} == {len(figure.table.columns)}


def part(run: RunSummary, tag: str, kind: str) -> list[str]:
    """The texts of all elements of this tag and class at a glance."""
    opened = f'{tag} class="{kind}"' if kind else tag
    found = re.findall(rf"<{opened}>(.*?)</{tag}>", own_part(document(run)).partition("</section>")[0], re.S)
    return [" ".join(unescape(text).split()) for text in found]


def test_it_says_what_ran_and_how_it_went(one: RunSummary, wording: SnapshotAssertion):
    assert one.title == "hearts: FedCT (majority)"
    (lead,) = part(one, "p", "lead")
    assert "3 silos trained together for 3 rounds; from round 3 on no label changed" in lead
    assert lead == wording
    tiles = dict(zip(part(one, "dt", ""), part(one, "dd", ""), strict=True))
    assert tiles["Agreement"] == "80.0%"
    assert tiles == wording
    assert [section.id for section in sections_of(one)] == [
        "accuracy", "consensus", "privacy", "silos", "settings",
    ]  # fmt: skip


def test_runs_that_share_weights(tmp_path: Path, wording: SnapshotAssertion):
    folder = begin(tmp_path / "run", algorithm="fedavg", learner="mlp")
    add_weights_round(folder, 1, accuracy=0.7)
    add_weights_round(folder, 2, accuracy=0.75)
    folder.finish("completed")
    found = RunSummary(folder.path)
    assert "agreement" not in figures(found)
    assert figures(found)["accuracy-pooled"].traces[0]["y"] == [0.7, 0.75]
    assert part(found, "p", "lead")[0] == wording
    table = table_of_silos(found)
    assert list(table.columns) == ["Silo", "bytes sent", "median delay", "rounds missed"]
    assert {len(row) for row in (*table.rows, *table.foot)} == {4}


def test_a_name_with_html_is_text_everywhere(tmp_path: Path):
    folder = finished(tmp_path / "run", silos=["oslo", NASTY, "rome"])
    page = own_part(document(RunSummary(folder.path)))
    assert "<img" not in page
    assert "<b>" not in page
    assert page.count("<script") == page.count("</script>") == 3
    (plots,) = re.findall(r'<script type="application/json" id="plots">(.*?)</script>', page, re.DOTALL)
    assert "<" not in plots
    # Plotly reads some HTML in what it draws.
    drawn = json.dumps(json.loads(plots))
    assert "<img" not in drawn
    assert "&lt;img" in drawn


def test_each_silo_and_model_has_its_metrics_with_n_and_positives(tmp_path: Path, wording: SnapshotAssertion) -> None:
    path, tests = finished(tmp_path / "run").path, (GOOD, ONE_CLASS, EMPTY)
    save([row(silo, test, RARE) for silo, test in zip(SILOS, tests, strict=False)], path / "scores.json")
    section = metrics(RunSummary(path))
    assert [title for title, _ in section.tables] == wording
    own, confusion = (table for title, table in section.tables if "own" in title)
    assert list(own.columns[2:]) == [
        "n", "ill", "balanced accuracy", "accuracy", "AUC", "sensitivity", "specificity", "Brier score",
        "calibration intercept", "calibration slope",
    ]  # fmt: skip
    found = {(line[0], line[1]): list(line[2:]) for line in [*own.rows, *own.foot]}
    auc = GOOD.models["federated"].metrics["auc"]
    assert found["oslo", "FedCT"][:2] == ["6", "3"]
    assert found["oslo", "FedCT"][4] == f"{auc.value:.3f} ({auc.low:.2f}–{auc.high:.2f})"
    # One class: neither balanced accuracy nor AUC nor specificity, which is no reason to leave the others out.
    assert [number for number, cell in enumerate(found["rome", "FedCT"]) if cell == "–"] == [2, 4, 6, 8, 9]
    assert ("cairo", "FedCT") not in found
    assert found["mean", "FedCT"][4] == f"{auc.value:.3f}"
    assert ["oslo", "FedCT", "ill", "1", "2"] in [list(line) for line in confusion.rows]
    assert any("one class" in note for note in section.notes)


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
    found = scores(RunSummary(one_shot(tmp_path / "run").path))
    (figure,) = found.figures
    lines = {trace["name"]: trace["x"] for trace in figure.traces if trace.get("name") in {"student", "ensemble"}}
    assert lines == {"student": [0.65, 0.65], "ensemble": [0.675, 0.675]}
    assert figure.note == wording


@pytest.mark.parametrize("name", ["scores.json", "rounds.jsonl"])
def test_numbers_that_no_float_holds_are_damage(tmp_path: Path, name: str):
    path = finished(tmp_path / "run").path / name
    path.write_text(path.read_text().replace("0.6", "1" + "0" * 400))
    with pytest.raises(RunError, match=f"{name} is damaged"):
        RunSummary(path.parent)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return begin(tmp_path / "run")


def read(folder: RunFolder) -> RoundHistory:
    return read_course(folder, SILOS, CLASSES)


def test_columns_have_a_row_for_each_round_and_a_column_for_each_silo(folder: RunFolder):
    add_round(folder, 1)
    add_round(folder, 2, SILOS[:2], absent={"cairo": "no reply"})
    course = read(folder)
    assert course.number.tolist() == [1, 2]
    np.testing.assert_array_equal(course.silo["bytes_sent"], [[100, 101, 102], [100, 101, np.nan]])
    np.testing.assert_allclose(course.run["agreement"], [0.6, 0.7])
    np.testing.assert_array_equal(course.classes, [[10, 30], [10, 30]])
    assert course.absences == ((2, "cairo", "no reply"),)
    assert course.shares_answers


@pytest.mark.parametrize("line", ["no json\n", '{"round": 1}\n', f'{{"round": 1{"0" * 30}, "silos": {{}}}}\n'])
def test_a_damaged_log_is_said(folder: RunFolder, line: str):
    (folder.path / "rounds.jsonl").write_text(line)
    with pytest.raises(RunError, match=r"rounds\.jsonl is damaged"):
        read(folder)
