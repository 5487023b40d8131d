"""How good predictions are."""

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

import numpy as np
from sklearn.metrics import accuracy_score, r2_score, recall_score

from fedct_flwr.types import Answers, Examples, Features


class Predictor(Protocol):
    """Anything that predicts classes, or the values of a quantity."""

    def predict(self, X: Features) -> Answers:
        """The class or the value of each example."""
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


def r_squared(model: Predictor, test: Examples) -> float:
    """Share of the variance of a quantity that the model explains: 1 at most, 0 for its mean, negative for worse.

    NaN for fewer than two examples.
    """
    if test.size < 2:
        return float("nan")
    return float(r2_score(test.y, model.predict(test.X)))


class Measure(NamedTuple):
    """What models are compared by, and what it is called."""

    name: str
    of: Callable[[Predictor, Examples], float]


BALANCED_ACCURACY: Final = Measure("balanced accuracy", balanced_accuracy)
R_SQUARED: Final = Measure("R²", r_squared)


def measure_of(quantity: str) -> Measure:
    """Balanced accuracy, or R² where it is the value of a ``quantity`` that is predicted (empty: classes)."""
    return R_SQUARED if quantity else BALANCED_ACCURACY
