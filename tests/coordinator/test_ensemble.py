"""The vote of FedKT's students on examples that the silos never saw."""

from typing import Self

import numpy as np
import pytest

from fedct_flwr.coordinator.global_model import StudentEnsemble
from fedct_flwr.labelers.transfer import Students
from fedct_flwr.types import Features, HardLabels

NUM_CLASSES = 3


class Fixed:
    """Gives the same labels, whatever it is asked."""

    def __init__(self, *labels: int) -> None:
        self._labels = np.array(labels, dtype=np.int16)

    def fit(self, X: Features, y: HardLabels, sample_weight: None = None) -> Self:
        return self

    def predict(self, X: Features) -> HardLabels:
        return self._labels


def vote(*silos: list[int], seed: int = 0) -> int:
    """The label of one example, for which these are the labels of each silo's students."""
    taught = [Students([Fixed(label) for label in labels], None, NUM_CLASSES) for labels in silos]
    (label,) = StudentEnsemble(taught, NUM_CLASSES, seed).predict(np.zeros((1, 2)))
    return int(label)


@pytest.mark.parametrize(
    ("silos", "label"),
    [
        ([[0, 0], [1, 1], [1, 1]], 1),
        # Four students out of ten say 0, four 1, of silos that do not agree with themselves.
        ([[2, 2], [0, 1], [0, 1], [0, 1], [0, 1]], 2),
        ([[0, 1], [1, 2], [1, 0]], 1),
        ([[2], [2], [0]], 2),
    ],
)
def test_silos_whose_students_agree_decide_and_otherwise_all_students(silos: list[list[int]], label: int) -> None:
    assert vote(*silos) == label


def test_ties_are_drawn_by_lot_among_the_leaders() -> None:
    assert {vote([1, 1], [2, 2], [0, 1], seed=seed) for seed in range(20)} == {1, 2}
    assert {vote([0, 1], [1, 0], seed=seed) for seed in range(20)} == {0, 1}


def test_each_example_is_decided_by_itself() -> None:
    silos = [Students([Fixed(0, 0), Fixed(0, 1)], None, NUM_CLASSES), Students([Fixed(1, 1)] * 2, None, NUM_CLASSES)]
    assert StudentEnsemble([silos[1], silos[0], silos[1]], NUM_CLASSES, 0).predict(np.zeros((2, 2))).tolist() == [1, 1]
