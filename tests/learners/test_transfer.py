"""What a silo's students say of the public set."""

from typing import Self

import numpy as np

from fedct_flwr.learners.transfer import Transfer
from fedct_flwr.types import Examples


class Majority:
    """Says of everything what most of its records are."""

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: None = None) -> Self:
        self._label = np.bincount(y).argmax()
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.full(len(X), self._label, dtype=np.int16)


def test_every_student_votes_once_on_each_queried_example() -> None:
    rng = np.random.default_rng(0)
    private = Examples(rng.normal(size=(40, 2)), np.repeat(np.int16([0, 2]), [4, 36]))
    transfer = Transfer(lambda _: Majority(), 3, partitions=2, teachers=5, num_records=40, seed=0)
    counts = transfer.votes(private, rng.normal(size=(30, 2)), np.array([3, 8, 9]), None)
    assert counts.tolist() == [[0, 0, 2]] * 3
