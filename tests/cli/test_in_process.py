"""``fedct simulate --in-process``."""

import json
import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
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


def test_test_files_of_one_class_and_a_group_are_said_and_models_are_there(
    fedct: Callable[..., Outcome], tmp_path: Path, wording: SnapshotAssertion
) -> None:
    rng = np.random.default_rng(0)
    for name in ("a", "b", "public", "a.test", "b.test"):
        rows = [f"{x:.3f},{y:.3f},{n // 2},{int(x > 0)}" for n, (x, y) in enumerate(rng.normal(size=(60, 2)))]
        kept = [row for row in rows if row.endswith(",1")] if "test" in name else rows
        (tmp_path / f"{name}.csv").write_text("\n".join(["x,y,patient,ill", *kept]))
    arguments = ["--label", "ill", "--group", "patient", "--learner", "decision-tree", "--run-dir", tmp_path / "run"]
    outcome = fedct("simulate", "--in-process", "--no-watch", "--data-dir", tmp_path, *arguments)
    assert outcome.code == 0
    said = " ".join(outcome.out.split())
    # The same numbers are given to patients of both silos, and to those of the test files.
    assert "30 of 30 groups have records at more than one silo" in said
    assert "silo 'a' trains on" in said
    assert sentences_with(said, "of class '1'") == wording
    assert "no model was kept" not in said
    assert "could not be trained" not in said
