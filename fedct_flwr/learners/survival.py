"""Learners of time to an event: ridge Cox, or any estimator that ranks, with grades of all silos on top."""

import math
import warnings
from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone

from fedct_flwr import survival
from fedct_flwr.config.learner import AUTO, LearnerSettings
from fedct_flwr.learners.catalog import SURVIVAL, make, packages
from fedct_flwr.learners.out_of_fold import Evidence, one_thread
from fedct_flwr.learners.safeguard import Trust
from fedct_flwr.learners.sklearn import SklearnRegressor, called, is_estimator, last_step, prepare, reason_of
from fedct_flwr.learners.trained_model import values_of
from fedct_flwr.text.printable import logger
from fedct_flwr.types import (
    ABSTAIN,
    LABEL_DTYPE,
    Answers,
    DataWarning,
    Examples,
    Features,
    Groups,
    HardLabels,
    LearnerError,
    SiloName,
    TrainingError,
)

if TYPE_CHECKING:
    from fedct_flwr.survival.model import OwnRanking

_BOOSTED: Final = "xgboost"
_COX: Final = "survival:cox"
_RATIOS: Final = (1e-30, 1e30)
"""Bounds of a hazard ratio, whose logarithm is finite."""
_Made = TypeVar("_Made")


class ByFunction(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # untyped base classes
    """An estimator of a function ``fit(X, time, event)``, which returns another, from ``X`` to scores ``(n,)``."""

    def __init__(self, function: Any = None) -> None:
        self.function = function

    def fit(self, X: Any, y: Any) -> Self:
        """Call it with columns ``(n, p)`` and what signed times ``(n,)`` stand for."""
        self.score_ = self.function(X, *survival.times_of(np.asarray(y)))
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The scores of its result, or of that one's ``predict``."""
        ask = getattr(self.score_, "predict", self.score_)
        return np.asarray(values_of(ask(X), len(X), model="the function's result"), dtype=np.float64)


class LogHazard(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # untyped base classes
    """Log hazards of an estimator with XGBoost's Cox objective, whose predictions are hazard ratios.

    The objective takes a time of 0 as censored. Such records get half the least time above 0, which is the same order.
    """

    def __init__(self, estimator: Any = None) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any) -> Self:
        """Train a copy on columns ``(n, p)`` and signed times ``(n,)``."""
        y = np.asarray(y, dtype=np.float64)
        least = min(np.abs(y[y != 0]), default=1.0) / 2
        self.estimator_ = clone(self.estimator).fit(X, np.where(y == 0, np.copysign(least, y), y))
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Log hazards ``(n,)``, up to a constant."""
        return np.log(np.clip(np.asarray(self.estimator_.predict(X), dtype=np.float64), *_RATIOS))


class SurvivalLearner(SklearnRegressor):
    """A ranking of own records, and a student of the grades that all silos gave the public set.

    ``choose`` finds the penalty and the evidence out of fold, once; ``fit`` trains on own records alone.
    """

    last: Trust | None = None
    _ranking: "OwnRanking | None" = None

    def __init__(self, estimator: Any, transformer: Any, seed: int, silo: SiloName, **options: Any) -> None:
        super().__init__(survival.RiskModel(estimator), transformer, **options)
        self._own, self._seed, self._silo = estimator, seed, silo

    def choose(self, private: Examples, groups: Groups | None = None) -> None:
        if self._ranking is None or not np.array_equal(self._ranking.times.signed, private.y):
            rng = np.random.default_rng(self._seed)
            self._ranking = self._made(
                lambda: survival.OwnRanking(self._own, self._transform(private.X), private.y, groups, rng)
            )

    def fit(self, X: Features, y: Answers, sample_weight: NDArray[np.float64] | None = None) -> Self:
        if sample_weight is not None:
            raise TrainingError("a learner of times takes no weights of records")
        fresh = copy(self)
        fresh.choose(Examples(X, y))
        self._trained = self._made(lambda: survival.RiskModel(self._own).fit(self._transform(X), y, fresh._ranking))
        return self

    def grade(
        self, private: Examples, public: Features, targets: HardLabels, positions: NDArray[np.intp]
    ) -> HardLabels:
        self.choose(private)
        own, labeled = copy(self).fit(*private), np.flatnonzero(targets != ABSTAIN)
        ranking = self._ranking
        assert ranking is not None  # noqa: S101 - chosen above
        self._trained = own._trained
        if len(labeled):
            model = survival.RiskModel(self._own)
            X, examples = self._transform(private.X), self._transform(public[labeled])
            found = self._made(lambda: model.learn(X, private.y, ranking, examples, targets[labeled]))
            self._trained = model
            weight = min(1.0, (1 - found.share) / (1 - survival.USUAL))
            self.last = Trust(round(weight, 4), Evidence(-found.gain, found.error, private.size))
        # Of the other learners, chance alone turns a ranking around where events are few.
        if isinstance(last_step(self._own), ByFunction) and ranking.reversed:
            advice = "scores must be larger for earlier events"
            what = f"scores of silo {self._silo} rank its records the wrong way round: {advice}"
            warnings.warn(what, DataWarning, stacklevel=2)
        if not ranking.can_rank:
            logger.info("Silo %s: its records cannot rank better than chance, so it gives no grades", self._silo)
            return np.full(len(positions), ABSTAIN, dtype=LABEL_DTYPE)
        return ranking.grades(own.predict(public[positions])).astype(LABEL_DTYPE)

    def risks(self, X: Features, horizons: tuple[float, ...]) -> NDArray[np.float64]:
        """The chance of an event up to each horizon ``(n, horizons)``, by own records. Raises TrainingError."""
        found: NDArray[np.float64] = self._made(lambda: self._trained.chances(self._transform(X), horizons))
        return found

    @property
    def followed(self) -> float:
        """The last time of own records, after which the trained model states no chances."""
        return float(self._trained.followed_)

    def _made(self, make: Callable[[], _Made]) -> _Made:
        try:
            # These fits are small and many.
            with one_thread("blas"):
                return make()
        except TrainingError:
            raise
        except Exception as error:  # whatever a user's own estimator raises
            name = called(self._own.estimator if isinstance(self._own, LogHazard) else self._own)
            raise TrainingError(f"{name} could not rank records: {reason_of(error)}") from error


def survival_learner(settings: LearnerSettings, seed: int, silo: SiloName, transformer: Any) -> SurvivalLearner:
    """The learner of these settings: ``auto`` and ``cox`` are ridge Cox. Raises LearnerError."""
    name, params = settings.name, settings.params
    if name in (AUTO, *SURVIVAL):
        if unknown := params.keys() - {"penalty"}:
            raise LearnerError(f"learner 'cox' has no parameter {min(unknown)!r}: penalty is its only one")
        penalty = params.get("penalty")
        if penalty is not None and not (isinstance(penalty, int | float) and 0 <= penalty < math.inf):
            raise LearnerError(f"penalty of learner 'cox' is {penalty!r}: give a number of 0 or more")
        estimator: Any = survival.RidgeCox(**params)
    else:
        params = {"objective": _COX, **params} if name == _BOOSTED else params
        made = make(name, params, number=True)
        # Any other regressor would predict signed times, as if they were amounts.
        known, boosted = isinstance(last_step(made), survival.RidgeCox | ByFunction), _is_boosted_cox(made)
        if not (known or boosted):
            what = called(made) if "@" in name else f"learner {name!r}"
            raise LearnerError(
                f"{what} does not take censored times: use 'cox', 'xgboost' with the objective {_COX!r}, or a function "
                "fit(X, time, event) that returns another, from X to log hazards"
            )
        estimator = prepare(made, name, seed, number=True)
        estimator = LogHazard(estimator) if boosted else estimator
    return SurvivalLearner(estimator, transformer, seed, silo, packages=packages(name))


def _is_boosted_cox(model: Any) -> bool:
    """Whether a model's predictions are those of XGBoost's Cox objective, also from a pipeline, a search or bagging."""
    model = last_step(model)
    params = model.get_params(deep=False) if is_estimator(model) else {}
    return params.get("objective") == _COX or ("estimator" in params and _is_boosted_cox(params["estimator"]))
