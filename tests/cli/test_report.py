"""``fedct report``."""

import json
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.cli.report import write_at_end
from fedct_flwr.report import page
from fedct_flwr.runs.run_folder import RunFolder
from tests.cli.runner import Outcome
from tests.report.folders import begin, finished


def test_it_writes_one_page_into_the_runs_folder(fedct: Callable[..., Outcome], here: Path) -> None:
    finished(here / "run")
    outcome = fedct("report", "run")
    assert (outcome.code, outcome.out) == (0, "report: run/report.html\n")
    assert (here / "run" / "report.html").read_text("utf-8").startswith("<!doctype html>")


def test_several_runs_go_to_one_page_here(fedct: Callable[..., Outcome], here: Path) -> None:
    for name in ("a", "b"):
        finished(here / name)
    assert fedct("report", "a", "b").out == "report: report.html\n"
    assert "hearts: 2 runs" in (here / "report.html").read_text("utf-8")


def test_it_overwrites_only_by_force(fedct: Callable[..., Outcome], here: Path, wording: SnapshotAssertion) -> None:
    finished(here / "run")
    (here / "page.html").write_text("mine")
    outcome = fedct("report", "run", "--output", "page.html")
    assert outcome.code == 2
    assert outcome.sentence == wording
    assert (here / "page.html").read_text() == "mine"
    assert fedct("report", "run", "--output", "page.html", "--force").code == 0
    assert (here / "page.html").read_text("utf-8").startswith("<!doctype html>")


def test_a_run_without_a_finished_round_is_said(
    fedct: Callable[..., Outcome], here: Path, wording: SnapshotAssertion
) -> None:
    begin(here / "run")
    outcome = fedct("report", "run")
    assert outcome.code == 0
    assert outcome.out.splitlines()[0] == wording


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["nowhere"], 4),
        (["empty"], 4),
        (["newer"], 4),
        (["damaged"], 4),
        (["run", "--output", "none/page.html"], 2),
        (["run", "--output", "/dev/null", "--force"], 2),
        (["run", "--output", "empty"], 2),
    ],
)
def test_bad_input_is_one_sentence(
    fedct: Callable[..., Outcome], here: Path, arguments: list[str], code: int, wording: SnapshotAssertion
) -> None:
    (here / "empty").mkdir()
    finished(here / "run")
    newer = finished(here / "newer").path / "config.json"
    newer.write_text(json.dumps(json.loads(newer.read_text()) | {"versions": {"fedct-flwr": "99.1"}}))
    (finished(here / "damaged").path / "rounds.jsonl").write_text("{}\n")
    # Where a page would go is looked at first.
    output = [] if "--output" in arguments else ["--output", "page.html"]
    outcome = fedct("report", *arguments, *output)
    assert outcome.code == code
    assert outcome.sentence == wording
    assert not (here / "page.html").exists()


def test_a_run_that_is_not_there_is_said_before_where_a_page_would_go(
    fedct: Callable[..., Outcome], here: Path, wording: SnapshotAssertion
) -> None:
    outcome = fedct("report", "nowhere")
    assert outcome.code == 4
    assert outcome.sentence == wording


def test_without_the_extra_it_says_how_to_get_it(
    fedct: Callable[..., Outcome], here: Path, monkeypatch: pytest.MonkeyPatch, wording: SnapshotAssertion
) -> None:
    finished(here / "run")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    outcome = fedct("report", "run")
    assert outcome.code == 2
    assert outcome.sentence == wording


def folder_in_its_place(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    (run.path / "report.html").mkdir()


def damaged_scores(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    (run.path / "scores.json").write_text("{")


def no_extra(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


def half_a_plotly(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "plotly_script", lambda: run.path / "plotly.min.js")


def half_a_jinja(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("jinja2")
    module.__spec__ = ModuleSpec("jinja2", None)
    monkeypatch.setitem(sys.modules, "jinja2", module)
    page._environment.cache_clear()


@pytest.mark.parametrize("fault", [folder_in_its_place, damaged_scores, no_extra, half_a_plotly, half_a_jinja])
def test_what_stands_in_the_way_at_a_runs_end_is_one_line(
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: Callable[[RunFolder, pytest.MonkeyPatch], None],
    wording: SnapshotAssertion,
) -> None:
    run = finished(here / "run")
    fault(run, monkeypatch)
    line = write_at_end(run)
    assert "\n" not in line
    assert line == wording


def test_a_fault_of_the_reports_own_is_not_hidden(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedct_flwr.report.page.content", lambda runs: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_at_end(finished(here / "run"))


def test_a_report_is_named_from_where_one_is(here: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert write_at_end(finished(here / "run")) == "report: run/report.html"
    elsewhere = finished(tmp_path_factory.mktemp("elsewhere") / "run")
    assert write_at_end(elsewhere) == f"report: {elsewhere.path}/report.html"
