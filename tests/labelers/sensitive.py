"""A learner that no record is without effect on."""

from typing import Self

import numpy as np

from fedct_flwr.types import TrainingError


class Sensitive:
    """Its labels depend on every record of its part; it cannot learn from a part whose first record is 13."""

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: None = None) -> Self:
        if 13 in X:
            raise TrainingError("no luck")
        self._sum = int(X.sum() * 7 + y.sum())
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return ((self._sum + X[:, 0].astype(int) * 31) // 3 % 5).astype(np.int16)


def learner(_: int) -> Sensitive:
    return Sensitive()
