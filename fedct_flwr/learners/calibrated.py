"""Probabilities that say how often a model is right, fitted to records that it had not learned.

A classifier's probabilities rank records; most are too sure (naive Bayes, deep trees) or not sure enough (forests). A
calibration maps them to the shares of records that were right, by scikit-learn's ``CalibratedClassifierCV``: with a
sigmoid (J. Platt 1999), or with any rising curve, isotonic, which needs a thousand records or so (B. Zadrozny, C.
Elkan, KDD 2002). The class that a model says stays what it was: the labels that silos share, and the scores that count
classes, do not depend on it.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, Self, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from fedct_flwr.config import LearnerSettings
from fedct_flwr.learners.base import Calibratable, Learner, Probabilistic, Resumable
from fedct_flwr.seeding import random_state
from fedct_flwr.text.log import logger
from fedct_flwr.types import LABEL_DTYPE, Examples, Features, Groups, HardLabels, SiloName

Method: TypeAlias = Literal["sigmoid", "isotonic"]
Fit: TypeAlias = Callable[[Learner, Examples], object]
"""Trains a learner on these private records, and on whatever else it learns."""

ARRAYS: Final = "calibration."
"""How names of a calibration's arrays begin."""
_TWO: Final = 2

FOLDS: Final = 5
"""Parts that records are predicted in, each by a model of the others; so many of each class are needed."""


class Calibration(BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """A curve for each class, or one for the second of two: from a model's probability to the share that is right.

    ``curves`` are pairs of arrays ``(points,)`` between which is interpolated (isotonic), or of a slope and an offset
    ``(1,)`` (sigmoid).
    """

    def __init__(self, method: str, curves: Sequence[tuple[Any, Any]]) -> None:
        self.method, self.curves = method, curves

    @property
    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """All that it is made of by name, for a file of arrays; each ``(points,)``."""
        return {
            f"{ARRAYS}{self.method}.{number}.{axis}": np.asarray(values, dtype=np.float64)
            for number, curve in enumerate(self.curves)
            for axis, values in enumerate(curve)
        }

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]], num_classes: int) -> Self | None:
        """What ``arrays`` gave, among others; None without. Raises ValueError for what is no calibration of these."""
        found = {name: np.asarray(values) for name, values in arrays.items() if name.startswith(ARRAYS)}
        if not found:
            return None
        method = next(iter(found)).split(".")[1]
        curves = [
            (found.pop(f"{ARRAYS}{method}.{number}.0", None), found.pop(f"{ARRAYS}{method}.{number}.1", None))
            for number in range(1 if num_classes == _TWO else num_classes)
        ]
        if found or method not in get_args(Method) or not all(_is_curve(*curve, method) for curve in curves):
            raise ValueError("no calibration of so many classes")
        return cls(method, curves)

    @classmethod
    def fitted(cls, probabilities: NDArray[np.float64], y: HardLabels, method: Method) -> Self:
        """The calibration of ``probabilities`` ``(n, k)`` on records of classes ``y`` ``(n,)`` in 0..k-1, all of them.

        >>> sure, y = np.array([[0.0, 1.0]] * 10), np.array([1] * 7 + [0] * 3)
        >>> Calibration.fitted(sure, y, "isotonic").apply(sure[:1]).round(2)
        array([[0.3, 0.7]])
        """
        rows = np.arange(len(y))
        found = CalibratedClassifierCV(_AsTheyAre(), method=method, cv=[(rows, rows)]).fit(probabilities, y)
        fits = found.calibrated_classifiers_[0].calibrators
        if method == "isotonic":
            return cls(method, [(fit.X_thresholds_, fit.y_thresholds_) for fit in fits])
        return cls(method, [(np.array([fit.a_]), np.array([fit.b_])) for fit in fits])

    def apply(self, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
        """Calibrated probabilities ``(n, k)``, of which rows sum to 1."""
        if len(self.curves) == 1:
            second = self._on_curve(0, probabilities[:, 1])
            pairs: NDArray[np.float64] = np.column_stack([1 - second, second])
            return pairs
        found: NDArray[np.float64] = np.column_stack(
            [self._on_curve(k, column) for k, column in enumerate(probabilities.T)]
        )
        sums = found.sum(axis=1, keepdims=True)
        even = np.full_like(found, 1 / found.shape[1])
        np.divide(found, sums, out=even, where=sums > 0)
        return even

    def _on_curve(self, number: int, values: NDArray[np.float64]) -> NDArray[np.float64]:
        first, second = self.curves[number]
        found = np.interp(values, first, second) if self.method == "isotonic" else expit(-(first * values + second))
        return np.asarray(found, dtype=np.float64)


class Calibrated(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A trained classifier with a calibration of its probabilities; the classes that it says are its own."""

    def __init__(self, model: Any, calibration: Any) -> None:
        self.model, self.calibration = model, calibration
        self.classes_ = model.classes_

    def predict(self, X: Features) -> NDArray[Any]:
        """The class of each example, as without a calibration."""
        labels: NDArray[Any] = self.model.predict(X)
        return labels

    def predict_proba(self, X: Features) -> NDArray[np.float64]:
        """The calibrated probability of each of ``classes_``, ``(n, k)``."""
        probabilities: NDArray[np.float64] = self.calibration.apply(self.model.predict_proba(X))
        return probabilities


def fit_alone(learner: Learner, records: Examples) -> object:
    """Train on records and nothing else."""
    return learner.fit(*records)


def calibrate(
    learner: Learner,
    settings: LearnerSettings,
    silo: SiloName,
    private: Examples,
    groups: Groups | None,
    num_classes: int,
    fit: Fit = fit_alone,
) -> None:
    """Calibrate a trained learner as its settings say, if the silo's records can tell how.

    The other arguments are those of ``calibration_for``. Raises TrainingError.
    """
    if settings.calibration == "none" or not isinstance(learner, Calibratable):
        return
    seed = random_state(settings.seed, "calibration", silo)
    found = calibration_for(learner, private, groups, num_classes, settings.calibration, fit, seed)
    if found is not None:
        learner.calibrate(found)
    else:
        logger.warning(
            "Silo %s: its model is not calibrated: that takes %s records of each class that it knows", silo, FOLDS
        )


def calibration_for(
    learner: Learner,
    private: Examples,
    groups: Groups | None,
    num_classes: int,
    method: Method,
    fit: Fit,
    seed: int,
) -> Calibration | None:
    """The calibration of a trained learner, by records that copies of it have not seen.

    The records are cut into folds, of which ``groups`` ``(n,)`` stay whole. ``fit`` trains a copy on all but one: once
    for each fold, but for one fold alone where the learner is a network, which takes long to train. None where the
    records cannot tell: fewer than ``FOLDS`` of a class that the learner knows, or of their groups. Raises
    TrainingError.
    """
    if not isinstance(learner, Probabilistic) or not private.size:
        return None
    probabilities = learner.probabilities(private.X[:1], num_classes)
    counts = np.bincount(private.y, minlength=num_classes)
    known = np.flatnonzero(counts)
    if probabilities is None or len(known) < 2 or counts[known].min() < FOLDS:
        return None
    if groups is not None and min(len(np.unique(groups[private.y == c])) for c in known) < FOLDS:
        return None
    splits = (StratifiedKFold if groups is None else StratifiedGroupKFold)(FOLDS, shuffle=True, random_state=seed)
    folds = [*splits.split(private.X, private.y, groups)]
    if isinstance(learner, Resumable):
        # Folds of whole groups may lack a class.
        folds = [fold for fold in folds if len(np.unique(private.y[fold[1]])) == len(known)][:1]
    unseen: list[NDArray[np.float64]] = []
    other = copy.deepcopy(learner)
    for rest, part in folds:
        fit(other, Examples(private.X[rest], private.y[rest]))
        found = other.probabilities(private.X[part], num_classes)
        if found is None:
            return None
        unseen.append(found)
    # A class that the silo has no record of, and learned from others, cannot be judged here.
    if not unseen or _classes(learner, num_classes) != set(known.tolist()):
        return None
    # In the order of the records, as far as they were predicted.
    rows = np.concatenate([part for _, part in folds])
    order = np.argsort(rows)
    y = np.searchsorted(known, private.y[rows[order]]).astype(LABEL_DTYPE)
    return Calibration.fitted(np.concatenate(unseen)[order][:, known], y, method)


def _is_curve(first: NDArray[Any] | None, second: NDArray[Any] | None, method: str) -> bool:
    """Whether it may be what a fit gives: numbers, in pairs, from left to right."""
    if first is None or second is None or not first.shape == second.shape != (0,) or first.ndim != 1:
        return False
    numbers = all(part.dtype == np.float64 and np.isfinite(part).all() for part in (first, second))
    if method == "sigmoid":
        return numbers and len(first) == 1
    return numbers and bool((np.diff(first) > 0).all() and (second >= 0).all() and (second <= 1).all())


def _classes(learner: Learner, num_classes: int) -> set[int]:
    """The classes that a trained model may say; a network says any."""
    if isinstance(learner, Resumable):
        return set(range(num_classes))
    trained = getattr(learner, "parts", (None, None))[1]
    return set(np.asarray(getattr(trained, "classes_", ())).astype(int).tolist())


class _AsTheyAre(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose features are probabilities already: what is left to fit is their calibration."""

    def fit(self, X: NDArray[np.float64], y: HardLabels) -> Self:
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        return X
