"""Predictions for a silo's own records by models that have not seen them: a silo's only evidence of its own.

Folds are the same for all models that are compared, so that differences are paired, record by record. Classes weigh by
their shares: G. King, L. Zeng, "Logistic regression in rare events data", Political Analysis 9(2), 2001, §4.
"""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from fedct_flwr.learners import Learner, Probabilistic
from fedct_flwr.types import Examples, Features, Groups, HardLabels, SiloName, generator


def class_weights(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weight of an example of each class ``(classes,)`` with which all classes at hand count the same.

    ``shares`` ``(classes,)`` are those of now, in any unit. The mean weight of all examples is 1.

    >>> class_weights(np.array([3.0, 1.0, 0.0])).round(2)
    array([0.67, 2.  , 0.  ])
    """
    there = shares > 0
    weights = np.zeros(len(shares))
    weights[there] = shares.sum() / there.sum() / shares[there]
    return weights


def balanced_weights(y: HardLabels, sample_weight: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Weights of the examples ``(n,)`` with which all classes of ``y`` have the same sum, as large as before.

    >>> balanced_weights(np.int16([0, 0, 0, 1])).round(2)
    array([0.67, 0.67, 0.67, 2.  ])
    """
    before = np.ones(len(y)) if sample_weight is None else sample_weight
    shares = np.bincount(y, weights=before).astype(np.float64)
    return np.asarray(before * class_weights(shares)[y], dtype=np.float64)


FOLDS: Final = 5
_ENOUGH: Final = 500
"""Records that are predicted out of fold at most: more fits would tell little more."""
_FEWEST_OF_ONE: Final = 5
"""Records of its only class by which a silo judges: fewer are all wrong by chance (a sign test at 5%)."""
_FEWEST_HELD_OUT: Final = 8
"""Held-out records below which their loss is mostly chance."""


class Pseudo(NamedTuple):
    """Public examples ``(n, ...)`` with the labels ``(n,)`` that silos agreed upon, and what each of them counts."""

    X: Features
    y: HardLabels
    weight: float = 1.0


class Evidence(NamedTuple):
    """How much better one model is on the same records: mean difference, its standard error, number of records."""

    gain: float
    error: float
    records: int

    @classmethod
    def of(cls, differences: NDArray[np.float64]) -> Self:
        """From what the one model's score is better by, record by record ``(records,)``."""
        if len(differences) < 2:
            return cls(0.0, 0.0, len(differences))
        error = float(differences.std(ddof=1) / np.sqrt(len(differences)))
        return cls(float(differences.mean()), error, len(differences))

    @property
    def errors(self) -> float:
        """The gain in standard errors; 0 where there is no difference, or nothing to tell it by."""
        return self.gain / self.error if self.error > 0 else 0.0


class OwnRecords:
    """A silo's own records, divided once, to train on some and to ask about the others.

    ``groups`` ``(n,)`` are kept together. Records beyond 500 are not asked about, where that saves folds.
    """

    def __init__(self, private: Examples, rng: Generator, groups: NDArray[np.generic] | None = None) -> None:
        self._private = private
        self._fold = folds(private.y, rng, groups)
        self._asked = range(min(FOLDS, max(2, int(np.ceil(_ENOUGH * FOLDS / max(1, private.size))))))

    @property
    def can_tell(self) -> bool:
        """Whether they can speak for or against a model: two classes with two records each, or one with five."""
        return self.know_classes or bool((np.bincount(self.y) >= _FEWEST_OF_ONE).any())

    @property
    def know_classes(self) -> bool:
        """Whether a model of these records alone tells classes apart: two of them or more, with two records each."""
        counts = np.bincount(self.y)
        return len(np.unique(self._private.y)) > 1 and bool((counts[counts > 0] > 1).all()) and (counts > 0).sum() > 1

    @property
    def y(self) -> HardLabels:
        """The classes of the records that are asked about, fold by fold."""
        places = [np.flatnonzero(self._fold == fold) for fold in self._asked]
        return np.asarray(self._private.y[np.concatenate(places)])

    def predicted(self, learner: Learner, num_classes: int, pseudo: Pseudo | None = None) -> NDArray[np.float64]:
        """Predict each record's probabilities ``(asked, num_classes)`` with a model that has not seen its fold.

        Each fit also learns the ``pseudo``-labeled examples. Raises TrainingError where one fails.
        """
        if not self.divided:
            return np.zeros((len(self.y), num_classes))
        return self.predictions(
            lambda records: fit_with(learner, records, pseudo), lambda X: probabilities(learner, X, num_classes)
        )

    @property
    def divided(self) -> bool:
        """Whether there are records to train on and others to ask about: not if all are of one group."""
        return len(np.unique(self._fold)) > 1

    def predictions(
        self, train: Callable[[Examples], object], answer: Callable[[Features], NDArray[np.floating]]
    ) -> NDArray[np.float64]:
        """Out-of-fold answers ``(asked, ...)`` after ``train`` on the records of other folds. Raises TrainingError."""
        found = []
        # These fits are small and many.
        with one_thread():
            for fold in self._asked:
                there = self._fold == fold
                if there.any() and not there.all():
                    train(Examples(self._private.X[~there], self._private.y[~there]))
                    found.append(np.asarray(answer(self._private.X[there]), dtype=np.float64))
        return np.concatenate(found) if found else np.zeros(0)

    def compare(self, first: NDArray[np.float64], second: NDArray[np.float64]) -> Evidence:
        """How much better the ``second`` predictions are than the first, both as ``predicted`` gives them."""
        return Evidence.of(self._weights * (losses(first, self.y) - losses(second, self.y)))

    def loss(self, predicted: NDArray[np.float64]) -> float:
        """The mean loss of predictions, of which each class counts the same."""
        return float((self._weights * losses(predicted, self.y)).mean())

    @property
    def _weights(self) -> NDArray[np.float64]:
        """Of the records that are asked about, with which each class counts the same."""
        return class_weights(np.bincount(self.y).astype(np.float64))[self.y]


def chosen(X: Features, positions: NDArray[np.intp]) -> Features:
    """The examples at sorted positions, none twice, to be read alone: all of them are not copied."""
    return X if len(positions) == len(X) else X[positions]


def fit_with(learner: Learner, private: Examples, pseudo: Pseudo | None) -> None:
    """Train on records, which count 1, and on pseudo-labeled examples, if there are any. Raises TrainingError."""
    if pseudo is None or not len(pseudo.y):
        learner.fit(private.X, private.y)
        return
    weights = None
    if pseudo.weight != 1.0:
        weights = np.concatenate([np.ones(private.size), np.full(len(pseudo.y), pseudo.weight)])
    X, y = np.concatenate([private.X, pseudo.X]), np.concatenate([private.y, pseudo.y])
    learner.fit(X, y, sample_weight=weights)


def probabilities(learner: Learner, X: Features, num_classes: int) -> NDArray[np.float64]:
    """Of each class ``(n, num_classes)``; all on one where the learner knows none. Raises TrainingError."""
    found = learner.probabilities(X, num_classes) if isinstance(learner, Probabilistic) else None
    return np.eye(num_classes)[learner.predict(X)] if found is None else found


def losses(predicted: NDArray[np.float64], y: HardLabels) -> NDArray[np.float64]:
    """Brier's score of each prediction ``(n,)``, in 0..2: proper, and no single record outweighs all others.

    G. W. Brier, "Verification of forecasts expressed in terms of probability", Monthly Weather Review 78(1), 1950.

    >>> losses(np.array([[1.0, 0.0], [0.5, 0.5]]), np.int16([0, 1])).tolist()
    [0.0, 0.5]
    """
    return np.asarray(((predicted - np.eye(predicted.shape[1])[y]) ** 2).sum(axis=1))


def folds(y: HardLabels, rng: Generator, groups: NDArray[np.generic] | None) -> NDArray[np.intp]:
    """The fold of each record ``(n,)``: classes are dealt out in turn, groups as a whole."""
    of = np.arange(len(y)) if groups is None else np.unique(groups, return_inverse=True)[1]
    _, first = np.unique(of, return_index=True)
    order = rng.permutation(len(first))
    fold = np.empty(len(first), dtype=np.intp)
    fold[order[np.argsort(y[first][order], kind="stable")]] = np.arange(len(first)) % FOLDS
    return fold[of]


class HeldOut(OwnRecords):
    """A silo's own records of which one fold is asked about, and never trained on: for models that are not refitted.

    It is the same fold for the same ``seed`` and ``silo``: warm-up and the safeguard must hold out the same records.
    """

    def __init__(self, private: Examples, seed: int, silo: SiloName, groups: Groups | None = None) -> None:
        super().__init__(private, generator(seed, "warm-up", silo), groups)
        self._asked = range(1)

    @property
    def enough(self) -> bool:
        """Whether the loss on those held out is more than chance, and others are left to train on."""
        return _FEWEST_HELD_OUT <= self.asked.size < self._private.size

    @property
    def can_tell(self) -> bool:
        """Whether they can speak for or against a model."""
        return self.enough and super().can_tell

    @property
    def asked(self) -> Examples:
        """The records of the fold that is held out."""
        there = self._fold == 0
        return Examples(self._private.X[there], self._private.y[there])

    @property
    def rest(self) -> Examples:
        """The other records."""
        there = self._fold != 0
        return Examples(self._private.X[there], self._private.y[there])


class OwnValues(OwnRecords):
    """The same for values: high and low ones are dealt out alike."""

    @property
    def can_tell(self) -> bool:
        """Whether they can speak for or against a model: at least two different values to ask about."""
        return len(np.unique(self.y)) > 1

    @property
    def know_classes(self) -> bool:
        """Of values there is nothing to tell apart."""
        return True

    def compare(self, first: NDArray[np.float64], second: NDArray[np.float64]) -> Evidence:
        """Gain of the ``second`` values over the first, both out-of-fold ``predictions`` ``(asked,)``."""
        return Evidence.of(self._losses(first) - self._losses(second))

    def loss(self, predicted: NDArray[np.float64]) -> float:
        """The mean loss of values."""
        return float(self._losses(predicted).mean())

    def _losses(self, predicted: NDArray[np.float64]) -> NDArray[np.float64]:
        variance = float(self._private.y.var()) or 1.0
        return np.asarray((predicted - self.y) ** 2 / variance)


def one_thread(api: Literal["blas"] | None = None) -> AbstractContextManager[Any]:
    """While it lasts, for the thread that enters it: OpenMP's limit is one of each thread, BLAS's is one for all.

    ``api`` limits BLAS alone, and leaves OpenMP's threads to boosting and networks.
    """
    return _libraries(len(sys.modules)).limit(limits=1, user_api=api)  # type: ignore[no-any-return]  # it is untyped


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """Those that are loaded: to find them takes milliseconds, so only when there are more modules."""
    return ThreadpoolController()
