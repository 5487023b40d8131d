"""``fedct simulate --in-process``."""

import logging
from pathlib import Path

from tests.cli.silos import Fedct

SETTINGS = ("--learner", "decision-tree", "--run-dir", "run", "--rounds", "2", "--set", "stop-at-fixed-point=false")


def test_a_run_that_fails_says_why_and_keeps_its_log(fedct: Fedct, here: Path) -> None:
    before = logging.getLogger("flwr").handlers[:]
    outcome = fedct("simulate", "--in-process", *SETTINGS[2:], "--learner", "tests.federation.learners.Raising")
    assert outcome.code == 4
    assert outcome.sentence
    assert (here / "run" / "flower.log").exists()
    assert logging.getLogger("flwr").handlers == before
