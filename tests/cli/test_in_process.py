"""``fedct simulate --in-process``."""

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.cli.runner import Outcome
from tests.wording import sentences_with


@pytest.fixture(scope="module")
def settings() -> list[str]:
    return ["--learner", "decision-tree", "--run-dir", "run", "--rounds", "2", "--set", "stop-at-fixed-point=false"]


def test_it_ends_in_the_table_and_the_folder_of_any_run(
    fedct: Callable[..., Outcome], here: Path, settings: list[str]
) -> None:
    outcome = fedct("simulate", "--in-process", *settings)
    assert outcome.code == 0, outcome
    assert outcome.out.count("4 silos sent") == 2
    assert "mean" in outcome.out
    assert "Round 2: 4 silos" in (here / "run" / "flower.log").read_text()
    assert json.loads((here / "run" / "result.json").read_text())["status"] == "completed"
    assert len(list((here / "run" / "models").iterdir())) == 4
    assert "Round" not in outcome.out, "what goes to the log is not printed"


def test_it_goes_on_with_a_run(
    fedct: Callable[..., Outcome], here: Path, settings: list[str], wording: SnapshotAssertion
) -> None:
    assert fedct("simulate", "--in-process", *settings).code == 0
    report = here / "run" / "report.html"
    report.unlink()
    report.mkdir()
    outcome = fedct("simulate", "--in-process", "--resume", "run", "--rounds", "3")
    assert outcome.code == 0
    assert "round  3" in outcome.out
    assert "round  2" not in outcome.out
    # What stands in the way of the report takes nothing from the run.
    assert sentences_with(outcome.out, "report", str(report), "Is a directory") == wording
    assert outcome.err == ""


def test_a_run_that_fails_says_why_and_keeps_its_log(
    fedct: Callable[..., Outcome], here: Path, settings: list[str], wording: SnapshotAssertion
) -> None:
    before = logging.getLogger("flwr").handlers[:]
    outcome = fedct("simulate", "--in-process", *settings[2:], "--learner", "tests.federation.learners.Raising")
    assert outcome.code == 4
    assert outcome.sentence == wording
    assert (here / "run" / "flower.log").exists()
    assert logging.getLogger("flwr").handlers == before
