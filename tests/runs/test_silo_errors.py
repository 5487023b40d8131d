"""A learner's error in a simulation reaches the user who runs it, and no message."""

import threading
from pathlib import Path

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

import fedct_flwr
from fedct_flwr.runs.records import errors_of, keep_error
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.types import RunError, TrainingError

RAISING = "tests.federation.learners.Raising"
X = np.random.default_rng(0).normal(size=(60, 2))
SILOS = dict.fromkeys(("ahlen", "bonn", "celle"), (X, X[:, 0] > 0))


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)


def test_each_round_has_its_own(folder: RunFolder) -> None:
    keep_error(folder, 1, "bonn", TrainingError("no tree: ValueError: no"))
    keep_error(folder, 2, "celle", KeyError("x"))
    assert errors_of(folder, 1) == {"bonn": "no tree: ValueError: no"}
    assert errors_of(folder) == {**errors_of(folder, 1), **errors_of(folder, 2)}
    assert errors_of(folder, 3) == {}


def test_several_silos_at_once_lose_no_line(folder: RunFolder) -> None:
    names = [f"silo-{number}" for number in range(40)]
    threads = [threading.Thread(target=keep_error, args=(folder, 1, name, KeyError("x" * 400))) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(errors_of(folder, 1)) == set(names)


def test_a_run_that_fails_raises_type_text_and_silo(tmp_path: Path, wording: SnapshotAssertion) -> None:
    with pytest.raises(RunError) as failed:
        fedct_flwr.simulate(SILOS, X, learner=RAISING, run_dir=tmp_path / "run", progress=False)
    assert str(failed.value) == wording
