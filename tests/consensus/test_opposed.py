"""Silos whose votes are the opposite of the others': kappa by hand, and which are found."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import cohen_kappa_score

from fedct_flwr.consensus.label_matrix import LabelMatrix, kappas, label_matrix, opposed
from fedct_flwr.types import ABSTAIN


def matrix(votes: Sequence[Sequence[int]], num_classes: int = 2) -> LabelMatrix:
    rows = np.array(votes)
    return LabelMatrix([f"silo-{n}" for n in range(len(rows))], np.where(rows < 0, num_classes, rows), num_classes)


class TestKappa:
    def test_is_that_of_scikit_learn(self) -> None:
        votes = np.random.default_rng(0).integers(0, 4, (5, 60))
        votes[1:, :30] = votes[0, :30]
        ours = kappas(matrix(votes.tolist(), 4))
        for i in range(5):
            for j in range(5):
                assert ours[i, j] == pytest.approx(cohen_kappa_score(votes[i], votes[j]))

    def test_counts_only_examples_that_both_voted_on(self) -> None:
        ours = kappas(matrix([[0, 0, 1, 1, -1, 0, 1], [0, 1, 1, 1, 0, -1, -1]]))
        assert ours[0, 1] == ours[1, 0] == pytest.approx(0.5)

    def test_is_none_where_there_is_nothing_to_tell(self) -> None:
        assert kappas(matrix([[0, -1], [-1, 0]]))[0, 1] == 0
        assert kappas(matrix([[1, 1, 1], [1, 1, 1]]))[0, 1] == 0


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


@given(st.permutations(range(4)))
def test_rows_are_in_the_same_order_whatever_the_order_and_the_names_of_the_ballots(order: list[int]) -> None:
    votes = np.random.default_rng(0).integers(ABSTAIN, 3, (4, 20)).astype(np.int16)
    matrix = label_matrix(((f"silo-{n}", votes[row]) for n, row in enumerate(order)), 20, 3)
    np.testing.assert_array_equal(matrix.votes, label_matrix(enumerate_silos(votes), 20, 3).votes)
    for silo, row in zip(matrix.silos, matrix.votes, strict=True):
        vote = votes[order[int(silo[-1])]]
        np.testing.assert_array_equal(row, np.where(vote == ABSTAIN, 3, vote))


def enumerate_silos(votes: np.ndarray) -> list[tuple[str, np.ndarray]]:
    return [(f"silo-{number}", vote) for number, vote in enumerate(votes)]
