"""``fedct simulate --in-process``."""

import logging
from pathlib import Path

from tests.cli.silos import Fedct

SETTINGS = ("--learner", "decision-tree", "--run-dir", "run", "--rounds", "2", "--set", "stop-at-fixed-point=false")


def test_it_goes_on_with_a_run(fedct: Fedct, here: Path) -> None:
    assert fedct("simulate", "--in-process", *SETTINGS).code == 0
    report = here / "run" / "report.html"
    report.unlink()
    report.mkdir()
    outcome = fedct("simulate", "--in-process", "--resume", "run", "--rounds", "3")
    assert outcome.code == 0
    assert "round  3" in outcome.out
    assert "round  2" not in outcome.out
    # What stands in the way of the report takes nothing from the run.
    assert "no report was written" in outcome.out
    assert outcome.err == ""


def test_a_run_that_fails_says_why_and_keeps_its_log(fedct: Fedct, here: Path) -> None:
    before = logging.getLogger("flwr").handlers[:]
    outcome = fedct("simulate", "--in-process", *SETTINGS[2:], "--learner", "tests.federation.learners.Raising")
    assert outcome.code == 4
    assert outcome.sentence
    assert (here / "run" / "flower.log").exists()
    assert logging.getLogger("flwr").handlers == before
