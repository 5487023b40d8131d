"""``fedct simulate --in-process``."""

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
