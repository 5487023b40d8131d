"""Balanced accuracy and R², on examples that can be counted by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, recall_score

from fedct_flwr.scoring import accuracy, balanced_accuracy, r_squared
from fedct_flwr.types import LABEL_DTYPE, Examples, Features, HardLabels


class Answers:
    """Predicts what it was told to."""

    def __init__(self, labels: list[int]) -> None:
        self._labels = np.array(labels, dtype=LABEL_DTYPE)

    def predict(self, X: Features) -> HardLabels:
        assert len(X) == len(self._labels)
        return self._labels


def score(truth: list[int], predicted: list[int]) -> float:
    return balanced_accuracy(
        Answers(predicted), Examples(np.zeros((len(truth), 1)), np.array(truth, dtype=LABEL_DTYPE))
    )


@given(
    truth=st.lists(st.integers(0, 3), min_size=1, max_size=30).filter(lambda labels: len(set(labels)) > 1),
    seed=st.integers(0, 9),
)
def test_numbers_are_scikit_learns_to_the_last_bit(truth: list[int], seed: int) -> None:
    predicted = np.random.default_rng(seed).integers(0, 4, len(truth)).tolist()
    expected = recall_score(truth, predicted, labels=np.unique(truth), average="macro", zero_division=0)
    assert score(truth, predicted) == float(expected)
    test = Examples(np.zeros((len(truth), 1)), np.array(truth, dtype=LABEL_DTYPE))
    assert accuracy(Answers(predicted), test) == float(accuracy_score(truth, predicted))


@pytest.mark.parametrize(
    ("predicted", "expected"), [([1, 2, 3], 1.0), ([2, 2, 2], 0.0), ([1, 2, 4], 0.5), ([3, 2, 1], -3.0)]
)
def test_r_squared_is_the_share_of_the_variance(predicted: list[int], expected: float) -> None:
    test = Examples(np.zeros((3, 1)), np.array([1.0, 2.0, 3.0]))
    assert r_squared(Answers(predicted), test) == pytest.approx(expected)
