"""All that is said of one model on one test set, from its predictions, which are made once."""

import contextlib
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.scoring.calibration import Bin, calibration_curve
from fedct_flwr.scoring.intervals import (
    LEVEL,
    UNKNOWN,
    Estimate,
    mean_of_losses,
    mean_of_proportions,
    proportion,
)
from fedct_flwr.scoring.measures import Predictor, accuracy_of, balanced_accuracy_of, r_squared_of
from fedct_flwr.scoring.roc import auc
from fedct_flwr.types import LABEL_DTYPE, Answers, Examples, Features, HardLabels, TrainingError, Values

OF_CLASSES: Final = ("balanced_accuracy", "accuracy", "auc", "sensitivity", "specificity", "brier")
OF_VALUES: Final = ("r_squared", "mae", "rmse")
_REPLICATES: Final = 1000
_BLOCKS: Final = 1000
"""Resampled are blocks of examples where there are more: the numbers are functions of sums."""


class Predicted(NamedTuple):
    """What a model says of examples: classes or values ``(n,)``; probabilities ``(n, classes)``, if it knows any."""

    answers: Answers
    probabilities: NDArray[np.float64] | None = None


class Labels(NamedTuple):
    """What is predicted: how many classes, 0 for a quantity; and which is positive, where there are two."""

    num_classes: int
    positive: int | None = None


@dataclass(frozen=True)
class Assessment:
    """One model on one test set.

    ``metrics`` are by name: ``OF_CLASSES`` or ``OF_VALUES``, but for what does not apply. ``confusion``
    ``(classes, classes)`` counts examples by true class (rows) and predicted class. ``calibration`` is empty without
    probabilities.
    """

    metrics: dict[str, Estimate]
    confusion: list[list[int]] = field(default_factory=list)
    calibration: list[Bin] = field(default_factory=list)

    def value(self, name: str) -> float:
        """The number of this name, NaN where there is none."""
        return self.metrics.get(name, UNKNOWN).value


def predict(model: Predictor, X: Features, labels: Labels) -> Predicted:
    """A model's predictions of ``X`` ``(n, ...)``, with probabilities where it knows them. Raises TrainingError."""
    if not len(X):
        return Predicted(np.zeros(0, dtype=LABEL_DTYPE if labels.num_classes else np.float64))
    answers, known = model.predict(X), None
    asked: Any = getattr(model, "probabilities", None)
    if asked is not None and labels.num_classes:
        # What knows classes may fail at probabilities, and is scored by the classes alone.
        with contextlib.suppress(TrainingError):
            known = asked(X, labels.num_classes)
    return Predicted(answers, None if known is None else np.asarray(known, dtype=np.float64))


def assess(test: Examples, predicted: Predicted, labels: Labels) -> Assessment:
    """All that is said of these predictions of a test set."""
    if not labels.num_classes:
        return Assessment(_of_values(test.y, predicted.answers))
    y, probabilities = test.y, predicted.probabilities
    confusion = _confusion(y, predicted.answers, labels.num_classes)
    metrics: dict[str, Estimate] = {
        "balanced_accuracy": _balanced_accuracy(y, predicted.answers, confusion),
        "accuracy": _accuracy(y, predicted.answers),
    }
    if labels.positive is not None:
        yes, no = labels.positive, 1 - labels.positive
        metrics["sensitivity"] = proportion(int(confusion[yes, yes]), int(confusion[yes].sum()))
        metrics["specificity"] = proportion(int(confusion[no, no]), int(confusion[no].sum()))
    if probabilities is None:
        return Assessment(metrics, confusion.tolist())
    metrics["auc"] = auc(y, probabilities, labels.positive)
    metrics["brier"] = brier(y, probabilities)
    return Assessment(metrics, confusion.tolist(), calibration_curve(y, probabilities, labels.positive))


def brier(y: HardLabels, probabilities: NDArray[np.float64]) -> Estimate:
    """Brier score: mean squared distance between probabilities ``(n, classes)`` and what happened.

    In 0..1 for two classes (of one of them, as clinicians have it), in 0..2 for more (over all of them). G. Brier,
    "Verification of forecasts expressed in terms of probability", Monthly Weather Review 78, 1950.
    """
    if not np.isfinite(probabilities).all():
        return UNKNOWN
    losses = np.square(probabilities - (y[:, np.newaxis] == np.arange(probabilities.shape[1]))).sum(axis=1)
    return mean_of_losses(losses / 2, 1.0) if probabilities.shape[1] == 2 else mean_of_losses(losses, 2.0)


def _confusion(y: HardLabels, answers: HardLabels, num_classes: int) -> NDArray[np.int64]:
    cells = y.astype(np.int64) * num_classes + answers
    return np.bincount(cells, minlength=num_classes**2).reshape(num_classes, num_classes)


def _balanced_accuracy(y: HardLabels, answers: HardLabels, confusion: NDArray[np.int64]) -> Estimate:
    sizes = confusion.sum(axis=1)
    there = sizes > 0
    if there.sum() < 2:
        return UNKNOWN
    found = mean_of_proportions(confusion.diagonal()[there].astype(float), sizes[there].astype(float))
    # The very number that a reply or a log has.
    return Estimate(balanced_accuracy_of(y, answers), found.low, found.high)


def _accuracy(y: HardLabels, answers: HardLabels) -> Estimate:
    found = proportion(int((y == answers).sum()), len(y))
    return Estimate(accuracy_of(y, answers), found.low, found.high)


def _of_values(y: Values, predicted: Values) -> dict[str, Estimate]:
    error = y.astype(np.float64) - predicted
    squares = mean_of_losses(error**2)
    rmse = Estimate(*(float(np.sqrt(end)) for end in (squares.value, squares.low, squares.high)))
    return {"r_squared": _r_squared(y, predicted), "mae": mean_of_losses(np.abs(error)), "rmse": rmse}


def _r_squared(y: Values, predicted: Values) -> Estimate:
    """R² with the percentiles of a bootstrap (B. Efron, R. Tibshirani, "An introduction to the bootstrap", 1993)."""
    value, size = r_squared_of(y, predicted), len(y)
    if not np.isfinite(value) or size < 3:
        return Estimate(value, float("nan"), float("nan"))
    centered = y.astype(np.float64) - y.mean()
    blocks = min(size, _BLOCKS)
    of_block = np.random.default_rng(0).permutation(np.arange(size) % blocks)
    number, squares, sums, errors = (
        _weights(blocks) @ np.bincount(of_block, weights=weights)
        for weights in (np.ones(size), centered**2, centered, np.square(y - predicted))
    )
    variance = squares - sums**2 / number
    found = 1 - errors[variance > 0] / variance[variance > 0]
    low, high = np.quantile(found, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(value, float(low), float(high))


@lru_cache(maxsize=4)
def _weights(blocks: int) -> NDArray[np.float64]:
    """How often each block is drawn in each of the bootstrap's replicates ``(replicates, blocks)``; always the same."""
    drawn = np.random.default_rng(0).multinomial(blocks, np.full(blocks, 1 / blocks), size=_REPLICATES)
    return drawn.astype(np.float64)
