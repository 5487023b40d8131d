"""How good predictions are."""

from typing import Protocol

import numpy as np
from sklearn.metrics import accuracy_score, recall_score

from fedct_flwr.types import Examples, Features, HardLabels


class Predictor(Protocol):
    """Anything that predicts classes."""

    def predict(self, X: Features) -> HardLabels:
        """The class of each example."""
        ...


def accuracy(model: Predictor, test: Examples) -> float:
    """Share of right predictions, in 0..1; NaN for an empty test set."""
    if test.size == 0:
        return float("nan")
    return float(accuracy_score(test.y, model.predict(test.X)))


def balanced_accuracy(model: Predictor, test: Examples) -> float:
    """Mean recall over the classes that the test set holds, in 0..1; NaN for an empty test set."""
    if test.size == 0:
        return float("nan")
    return float(recall_score(test.y, model.predict(test.X), labels=np.unique(test.y), average="macro"))
