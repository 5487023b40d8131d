"""How good predictions are: single numbers for comparisons; all that clinicians ask for is in ``assessment``."""

from typing import Final, NamedTuple, Protocol

import numpy as np

from fedct_flwr.types import Answers, Examples, Features


class Predictor(Protocol):
    """Anything that predicts classes, or the values of a quantity."""

    def predict(self, X: Features) -> Answers:
        """The class or the value of each example."""


def accuracy(model: Predictor, test: Examples) -> float:
    """Share of right predictions, in 0..1; NaN for an empty test set."""
    return both_accuracies(model, test)[0]


def balanced_accuracy(model: Predictor, test: Examples) -> float:
    """Mean recall over the classes that the test set holds, in 0..1; NaN for a test set of one class, or an empty one.

    One class tells nothing: a model that always says this class would have 1.
    """
    return both_accuracies(model, test)[1]


def both_accuracies(model: Predictor, test: Examples) -> tuple[float, float]:
    """Accuracy and balanced accuracy, by asking the model once; NaN as above."""
    if not test.size:
        return float("nan"), float("nan")
    right, of_class = model.predict(test.X) == test.y, np.bincount(test.y)
    there = of_class > 0
    recalls = np.bincount(test.y[right], minlength=len(of_class))[there] / of_class[there]
    return float(np.mean(right)), float(np.mean(recalls)) if len(recalls) > 1 else float("nan")


def r_squared(model: Predictor, test: Examples) -> float:
    """Share of the variance of a quantity that the model explains: 1 at most, 0 for its mean, negative for worse.

    NaN for fewer than two examples, or where all have one value.
    """
    return r_squared_of(test.y, model.predict(test.X)) if test.size > 1 else float("nan")


def r_squared_of(y: Answers, predicted: Answers) -> float:
    """R² of ``predicted`` ``(n,)``; NaN where there is no variance to explain."""
    if len(y) < 2 or np.ptp(y) == 0:
        return float("nan")
    # Takes its time to import, and most who score have classes.
    from sklearn.metrics import r2_score

    return float(r2_score(y, predicted))


class Measure(NamedTuple):
    """Score by which models are compared: its title, and its key among all metrics."""

    name: str
    key: str


BALANCED_ACCURACY: Final = Measure("balanced accuracy", "balanced_accuracy")
R_SQUARED: Final = Measure("R²", "r_squared")
CONCORDANCE: Final = Measure("concordance", "concordance")
