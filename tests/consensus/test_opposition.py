"""Votes that are the opposite of all others'."""

import numpy as np
import pytest
from numpy.typing import NDArray

from fedct_flwr.consensus.agreement import opposed
from fedct_flwr.consensus.label_matrix import label_matrix


def votes(wrong: float, silos: int = 5, examples: int = 300, classes: int = 2) -> dict[str, NDArray[np.int16]]:
    """Votes of silos that are each right but for this share; of which the last swaps its first two classes."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, classes, examples).astype(np.int16)
    cast = np.where(rng.random((silos, examples)) < wrong, rng.integers(0, classes, (silos, examples)), truth)
    last = cast[-1].copy()
    cast[-1] = np.where(last == 0, 1, np.where(last == 1, 0, last))
    return {f"silo {number}": row.astype(np.int16) for number, row in enumerate(cast)}


def found(ballots: dict[str, NDArray[np.int16]], classes: int = 2) -> list[str]:
    examples = len(next(iter(ballots.values())))
    return [*opposed(label_matrix(ballots.items(), examples, classes))]


@pytest.mark.parametrize("wrong", [0.0, 0.2, 0.3])
def test_swapped_votes_are_found(wrong: float) -> None:
    assert found(votes(wrong, silos=8 if wrong else 3)) == [f"silo {7 if wrong else 2}"]


def test_votes_that_nothing_predicts_are_not_opposed() -> None:
    assert not found(votes(1.0))


def test_few_examples_tell_nothing() -> None:
    assert not found(votes(0.0, examples=40))


def test_two_camps_of_like_size_are_left_as_they_are() -> None:
    cast = votes(0.1, silos=4)
    cast["silo 2"] = 1 - cast["silo 2"]
    assert not found(cast)
