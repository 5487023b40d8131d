"""Balanced accuracy and R², on examples that can be counted by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, recall_score

from fedct_flwr.scoring import BALANCED_ACCURACY, R_SQUARED, accuracy, balanced_accuracy, both_accuracies, r_squared
from fedct_flwr.scoring.assessment import OF_CLASSES, OF_VALUES
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


@pytest.mark.parametrize(
    ("truth", "predicted", "expected"),
    [
        ([0, 1, 2], [0, 1, 2], 1.0),
        ([0, 1, 2], [1, 2, 0], 0.0),
        ([0, 0, 0, 1], [0, 0, 0, 0], 1 / 2),
        ([0, 0, 0, 1], [0, 0, 1, 1], (2 / 3 + 1) / 2),
        ([0, 0, 1, 1, 2, 2], [0, 1, 1, 1, 0, 0], (1 / 2 + 1 + 0) / 3),
    ],
)
def test_recall_is_averaged_over_the_classes(truth: list[int], predicted: list[int], expected: float) -> None:
    assert score(truth, predicted) == pytest.approx(expected)


def test_classes_that_the_test_set_lacks_do_not_count() -> None:
    assert score([0, 0, 1, 1], [0, 2, 1, 1]) == pytest.approx(0.75)


@pytest.mark.parametrize("predicted", [[1, 1, 1, 1], [1, 1, 1, 0], [0, 0, 0, 0]])
def test_a_test_set_of_one_class_has_no_score(predicted: list[int]) -> None:
    assert math.isnan(score([1, 1, 1, 1], predicted))


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


def test_no_class_weighs_more_for_having_more_examples() -> None:
    assert score([0] * 98 + [1] * 2, [0] * 100) == pytest.approx(0.5)


def test_an_empty_test_set_has_no_score_and_asks_no_model() -> None:
    class Unasked:
        def predict(self, X: Features) -> HardLabels:
            raise AssertionError("nobody should ask")

    assert math.isnan(balanced_accuracy(Unasked(), Examples(np.empty((0, 3)), np.empty(0, LABEL_DTYPE))))


def test_a_score_is_a_plain_float_that_json_can_hold() -> None:
    assert type(score([0, 1], [0, 1])) is float


@pytest.mark.parametrize(
    ("predicted", "expected"), [([1, 2, 3], 1.0), ([2, 2, 2], 0.0), ([1, 2, 4], 0.5), ([3, 2, 1], -3.0)]
)
def test_r_squared_is_the_share_of_the_variance(predicted: list[int], expected: float) -> None:
    test = Examples(np.zeros((3, 1)), np.array([1.0, 2.0, 3.0]))
    assert r_squared(Answers(predicted), test) == pytest.approx(expected)


@pytest.mark.parametrize("size", [0, 1])
def test_there_is_no_variance_of_fewer_than_two(size: int) -> None:
    assert math.isnan(r_squared(Answers([1] * size), Examples(np.zeros((size, 1)), np.ones(size))))


def test_each_measure_is_a_metric_that_assessments_have() -> None:
    assert (BALANCED_ACCURACY.key, R_SQUARED.key) == (OF_CLASSES[0], OF_VALUES[0])


def test_both_accuracies_ask_a_model_once() -> None:
    asked: list[int] = []

    class Counting(Answers):
        def predict(self, X: Features) -> HardLabels:
            asked.append(len(X))
            return super().predict(X)

    test = Examples(np.zeros((3, 1)), np.array([0, 0, 1], dtype=LABEL_DTYPE))
    assert both_accuracies(Counting([0, 1, 1]), test) == (2 / 3, 0.75)
    assert asked == [3]
    nothing = both_accuracies(Counting([]), Examples(np.empty((0, 1)), np.empty(0, LABEL_DTYPE)))
    assert all(map(math.isnan, nothing))
    assert asked == [3]
