"""All scores of one model on one test set, and chances from a model that only ranks."""

import contextlib
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from scipy.stats import linregress, rankdata, t

from fedct_flwr.scoring import Predictor, r_squared_of
from fedct_flwr.scoring.intervals import (
    LEVEL,
    UNKNOWN,
    Estimate,
    area,
    intercept_and_slope,
    mean_of_losses,
    mean_of_proportions,
    proportion,
    wilson,
)
from fedct_flwr.types import LABEL_DTYPE, Answers, Examples, Features, HardLabels, TrainingError, Values

_Floats: TypeAlias = NDArray[np.float64]
METRICS: Final = {
    "balanced_accuracy": "balanced accuracy",
    "accuracy": "accuracy",
    "auc": "AUC",
    "sensitivity": "sensitivity",
    "specificity": "specificity",
    "brier": "Brier score",
    "intercept": "calibration intercept",
    "r_squared": "R²",
    "mae": "mean absolute error",
    "rmse": "root mean squared error",
    "slope": "calibration slope",
    "concordance": "concordance",
}
"""Titles of all metrics, in the order of tables."""
_FEW_OF_CLASS: Final = 10
"""Examples of a class below which DeLong's interval holds too seldom: 68-98% for two to nine of five distributions
against 30 or 400. Newcombe's (79-100%) depends on the distribution; both together hold in 86-100%.
"""


def auc(y: HardLabels, probabilities: _Floats, positive: int | None = None) -> Estimate:
    """AUC of probabilities ``(n, classes)`` for labels ``(n,)``, with DeLong's interval.

    Of the class ``positive``, or else the unweighted mean over all classes in ``y``, each against the rest (macro
    one-vs-rest), whose variance takes into account that the same examples are in all of them. Of two classes and fewer
    than ten examples of one, it is widened to Newcombe's. NaN for fewer than two classes in ``y``, or for probabilities
    that are not finite.
    """
    there = np.flatnonzero(np.bincount(y)) if len(y) else np.zeros(0, dtype=np.intp)
    if len(there) < 2 or not np.isfinite(probabilities).all():
        return UNKNOWN
    one_vs_rest = [delong(y == c, probabilities[:, c]) for c in (there if positive is None else [positive])]
    value = float(np.mean([found for found, _ in one_vs_rest]))
    variance = float(np.sum(np.mean([parts for _, parts in one_vs_rest], axis=0) ** 2))
    value, fewer = min(1.0, max(0.0, value)), int(np.bincount(y)[there].min())
    found = area(value, variance, fewer, len(y) - fewer)
    if len(there) > 2 or fewer >= _FEW_OF_CLASS:
        return found
    by_sizes = area(value, 0.0, fewer, len(y) - fewer)
    return Estimate(value, min(found.low, by_sizes.low), max(found.high, by_sizes.high))


def delong(positive: NDArray[np.bool_], score: _Floats) -> tuple[float, _Floats]:
    """The area, and what each example ``(n,)`` adds to its standard error: the sum of squares is DeLong's variance.

    E. DeLong, D. DeLong, D. Clarke-Pearson, Biometrics 44, 1988; by ranks as in X. Sun, W. Xu, "Fast implementation of
    DeLong's algorithm", IEEE Signal Processing Letters 21, 2014.
    """
    m = int(positive.sum())
    n = len(positive) - m
    ranks = rankdata(score)
    # Of each positive the share of negatives below it, of each negative that of positives above it.
    placed = np.empty(len(score))
    placed[positive] = (ranks[positive] - rankdata(score[positive])) / n
    placed[~positive] = 1 - (ranks[~positive] - rankdata(score[~positive])) / m
    value = float(placed[positive].mean())
    scale = np.where(positive, np.sqrt(m * max(1, m - 1)), np.sqrt(n * max(1, n - 1)))
    return value, (placed - value) / scale


BINS: Final = 10


@dataclass(frozen=True)
class Bin:
    """Predictions between two probabilities: how many, their mean, and the observed share with its 95% interval."""

    low: float
    high: float
    n: int
    predicted: float
    observed: float
    observed_low: float
    observed_high: float


def calibration_curve(y: HardLabels, probabilities: NDArray[np.float64], positive: int | None = None) -> list[Bin]:
    """The reliability diagram of probabilities ``(n, classes)`` in bins of one width, without empty ones.

    Of the class ``positive``; or else of the most probable class of each example, and whether it is the right one.
    """
    if not len(y) or not np.isfinite(probabilities).all():
        return []
    if positive is None:
        stated, happened = probabilities.max(axis=1), probabilities.argmax(axis=1) == y
    else:
        stated, happened = probabilities[:, positive], y == positive
    # A bin has its upper end, as in scikit-learn's.
    at = np.searchsorted(np.linspace(0, 1, BINS + 1)[1:-1], stated)
    bins, size = np.unique(at, return_counts=True)
    total, right = (np.bincount(at, weights=values)[bins] for values in (stated, happened))
    parts = (bins / BINS, (bins + 1) / BINS, size, total / size, right / size, *wilson(right, size.astype(np.float64)))
    return [Bin(*row) for row in zip(*(part.tolist() for part in parts), strict=True)]


@dataclass(frozen=True)
class ByGrade:
    """Test records of one predicted grade of risk: Kaplan and Meier's share without event after each of ``times``."""

    grade: int
    n: int
    events: int
    times: list[float]
    share: list[float]


class Predicted(NamedTuple):
    """A model's predictions: classes or values ``(n,)``; probabilities ``(n, classes)``, if it knows any."""

    answers: Answers
    probabilities: NDArray[np.float64] | None = None


class Labels(NamedTuple):
    """The outcome: its number of classes, 0 for a quantity; and the positive one of two."""

    num_classes: int
    positive: int | None = None


@dataclass(frozen=True)
class Assessment:
    """One model on one test set.

    ``metrics`` are by name (``METRICS`` has all), without those that do not apply. ``confusion``
    ``(classes, classes)`` counts examples by true class (rows) and predicted class. ``calibration`` is empty without
    probabilities, ``grades`` unless the outcome is time to an event.
    """

    metrics: dict[str, Estimate]
    confusion: list[list[int]] = field(default_factory=list)
    calibration: list[Bin] = field(default_factory=list)
    grades: list[ByGrade] = field(default_factory=list)

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
        # A model that fails at probabilities is scored by its classes alone.
        with contextlib.suppress(TrainingError):
            known = asked(X, labels.num_classes)
    return Predicted(answers, None if known is None else np.asarray(known, dtype=np.float64))


def assess(test: Examples, predicted: Predicted, labels: Labels) -> Assessment:
    """All scores of these predictions of a test set."""
    if not labels.num_classes:
        return Assessment(_of_values(test.y, predicted.answers))
    y, probabilities = test.y, predicted.probabilities
    confusion = _confusion(y, predicted.answers, labels.num_classes)
    metrics: dict[str, Estimate] = {
        "balanced_accuracy": _balanced_accuracy(confusion),
        "accuracy": proportion(int(confusion.trace()), len(y)),
    }
    if labels.positive is not None:
        yes, no = labels.positive, 1 - labels.positive
        metrics["sensitivity"] = proportion(int(confusion[yes, yes]), int(confusion[yes].sum()))
        metrics["specificity"] = proportion(int(confusion[no, no]), int(confusion[no].sum()))
    if probabilities is None:
        return Assessment(metrics, confusion.tolist())
    metrics["auc"] = auc(y, probabilities, labels.positive)
    metrics["brier"] = brier(y, probabilities)
    if labels.positive is not None:
        stated = probabilities[:, labels.positive]
        metrics["intercept"], metrics["slope"] = intercept_and_slope(y == labels.positive, stated)
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


def _balanced_accuracy(confusion: NDArray[np.int64]) -> Estimate:
    sizes = confusion.sum(axis=1)
    there = sizes > 0
    if there.sum() < 2:
        return UNKNOWN
    return mean_of_proportions(confusion.diagonal()[there].astype(float), sizes[there].astype(float))


def _of_values(y: Values, predicted: Values) -> dict[str, Estimate]:
    error = y.astype(np.float64) - predicted
    squares = mean_of_losses(error**2)
    rmse = Estimate(*(float(np.sqrt(end)) for end in (squares.value, squares.low, squares.high)))
    slope = _slope(y, predicted)
    return {"r_squared": _r_squared(y, predicted), "mae": mean_of_losses(np.abs(error)), "rmse": rmse, "slope": slope}


def _slope(y: Values, predicted: Values) -> Estimate:
    """Calibration slope of values on their predictions, with Student's interval; 1 where the range is right.

    Below 1 predictions range too widely, above 1 too narrowly. E. Steyerberg, "Clinical prediction models", 2009.
    """
    if len(y) < 3 or np.ptp(predicted) == 0:
        return UNKNOWN
    found = linregress(predicted, y)
    half = t.ppf((1 + LEVEL) / 2, len(y) - 2) * found.stderr
    return Estimate(*map(float, (found.slope, found.slope - half, found.slope + half)))


def _r_squared(y: Values, predicted: Values) -> Estimate:
    """R² with Student's interval by the delta method: a ratio of two means over the records.

    A. van der Vaart, "Asymptotic statistics", 1998, chapter 3.
    """
    value, size = r_squared_of(y, predicted), len(y)
    if not np.isfinite(value) or size < 3:
        return Estimate(value, float("nan"), float("nan"))
    errors, squares = np.square(y.astype(np.float64) - predicted), np.square(y - y.mean(dtype=np.float64))
    influence = ((1 - value) * squares - errors) / squares.mean()
    half = float(t.ppf((1 + LEVEL) / 2, size - 1) * influence.std(ddof=1) / np.sqrt(size))
    return Estimate(value, value - half, min(1.0, value + half))


FEWEST: Final = 3
"""Records of each class below which nothing is learned."""
FEW: Final = 10
"""Events below which the slope stays 1."""
RANKS: Final = "ranks, not chances"
"""A model's probabilities that nothing has calibrated."""
FLATTEST: Final = 0.01
"""Least slope: a model must not rank the other way round."""
_LARGEST: Final = 1e3


@dataclass(frozen=True)
class Recalibration:
    """``softmax(slope * log(p) + intercepts)``, where ``records`` count as in Laplace's rule of succession.

    Probabilities ``p`` first become ``(records * p + 1) / (records + classes)``: no more is known by as few,
    and a forest's 0 has a logarithm. Raises ValueError for numbers out of range.

    For two classes this is Platt's scaling (J. Platt, "Probabilistic outputs for support vector machines", Advances in
    large margin classifiers, 1999). For more it is bias-corrected temperature scaling, which keeps the order of any two
    classes' odds (A. Alexandari, A. Kundaje, A. Shrikumar, "Maximum likelihood with bias-corrected calibration is
    hard-to-beat at label shift adaptation", ICML 2020). The slope's prior is normal, with mean 1 and deviation 1.
    """

    slope: float
    intercepts: tuple[float, ...]
    records: int

    def __post_init__(self) -> None:
        if not (0 < self.slope <= _LARGEST and self.records > 0 and all(abs(b) <= _LARGEST for b in self.intercepts)):
            raise ValueError("a recalibration has a slope above 0 and up to 1000, intercepts up to 1000, and records")

    @classmethod
    def learned(cls, y: HardLabels, p: _Floats) -> Self | None:
        """From classes ``(n,)`` and probabilities ``(n, classes)``; None with fewer than three records of a class.

        >>> ranks = np.array([[0.6, 0.4], [0.5, 0.5], [0.4, 0.6]] * 4)
        >>> found = Recalibration.learned(np.int16([0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1]), ranks)
        >>> found.slope, round(float(found.apply(ranks)[:, 1].mean()), 2)
        (1.0, 0.27)
        """
        n, classes = p.shape
        counts = np.bincount(y, minlength=classes)
        if counts.min() < FEWEST or not np.isfinite(p).all():
            return None
        # Platt's targets: how sure as many records of a class can make anybody.
        targets = np.repeat(1 / (counts[y] + classes), classes).reshape(n, classes)
        targets[np.arange(n), y] *= counts[y] + 1
        slope, *intercepts = _likeliest(_logs(p, n), targets, fixed=events(y) < FEW)
        return cls(slope, (0.0, *intercepts), n)

    def apply(self, p: _Floats) -> _Floats:
        """Chances ``(n, classes)`` of a model's probabilities; rows sum to 1."""
        return np.asarray(softmax(self.slope * _logs(p, self.records) + np.array(self.intercepts), axis=1))

    @property
    def words(self) -> str:
        """The source of the chances, in a few words."""
        return f"recalibrated on {self.records} records"


def events(y: HardLabels) -> int:
    """Records ``(n,)`` without the most frequent class."""
    return len(y) - int(np.bincount(y).max()) if len(y) else 0


def _logs(p: _Floats, records: int) -> _Floats:
    return np.asarray(np.log((records * p + 1) / (records + p.shape[1])))


def _likeliest(logs: _Floats, targets: _Floats, *, fixed: bool) -> list[float]:
    """The slope, 1 if it is ``fixed``, and all intercepts but the first, which is 0."""
    from scipy.optimize import minimize  # takes a while, and most who read settings learn nothing

    def loss(at: _Floats) -> tuple[float, _Floats]:
        z = at[0] * logs
        z[:, 1:] += at[1:]
        top = z.max(axis=1, keepdims=True)
        powers = np.exp(z - top)
        total = powers.sum(axis=1, keepdims=True)
        over = powers / total - targets
        gradient: _Floats = over.sum(axis=0)
        gradient[0] = np.vdot(over, logs) + at[0] - 1
        return float((top + np.log(total)).sum() - np.vdot(targets, z) + (at[0] - 1) ** 2 / 2), gradient

    free = [(-_LARGEST, _LARGEST)] * (logs.shape[1] - 1)
    begun = np.r_[1.0, np.zeros(len(free))]
    found = minimize(loss, begun, jac=True, bounds=[(1.0, 1.0) if fixed else (FLATTEST, _LARGEST), *free])
    return list(map(float, found.x))
