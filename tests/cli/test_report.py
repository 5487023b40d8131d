"""``fedct report``."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.cli.runner import Outcome
from tests.report.folders import finished


def test_it_writes_one_page_into_the_runs_folder(fedct: Callable[..., Outcome], here: Path) -> None:
    finished(here / "run")
    outcome = fedct("report", "run")
    assert (outcome.code, outcome.out) == (0, "report: run/report.html\n")
    assert (here / "run" / "report.html").read_text("utf-8").startswith("<!doctype html>")


def test_it_overwrites_only_by_force(fedct: Callable[..., Outcome], here: Path, wording: SnapshotAssertion) -> None:
    finished(here / "run")
    (here / "page.html").write_text("mine")
    outcome = fedct("report", "run", "--output", "page.html")
    assert outcome.code == 2
    assert outcome.sentence == wording
    assert (here / "page.html").read_text() == "mine"
    assert fedct("report", "run", "--output", "page.html", "--force").code == 0
    assert (here / "page.html").read_text("utf-8").startswith("<!doctype html>")


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


def test_without_the_extra_it_says_how_to_get_it(
    fedct: Callable[..., Outcome], here: Path, monkeypatch: pytest.MonkeyPatch, wording: SnapshotAssertion
) -> None:
    finished(here / "run")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    outcome = fedct("report", "run")
    assert outcome.code == 2
    assert outcome.sentence == wording
