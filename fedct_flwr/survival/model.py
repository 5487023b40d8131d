"""A silo's own ranking, and the personal model that starts from what all silos' grades teach.

Ranks need no common baseline hazard and no common follow-up. A silo ranks the public set by its own model and grades it
in parts of one size, in fewer parts where it has few events. A student learns the mean grades by ridge regression. The
silo's own scores count next to it as much as its records support.
"""

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fedct_flwr.consensus.grades import GRADES, grades
from fedct_flwr.survival.cox import RidgeCox, baseline, chances
from fedct_flwr.survival.measures import Times, better, concordance, times_of

PENALTIES: Final = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01)
_FOLDS: Final = 3
_DIVISIONS: Final = 5
_RIDGES: Final = (0.1, 1.0, 10.0, 100.0, 1000.0)
OWN_SHARES: Final = (0.0, 0.25, 0.5, 0.75, 1.0)
USUAL: Final = 0.25
"""Share of a silo's own scores where its records support no other."""
_ERRORS: Final = 2
"""Standard errors by which another share has to be better."""
_SURELY: Final = 3
"""The same for a ranking below chance: of 300 silos whose columns tell nothing, none is."""
_OF_SLOPE: Final = 0.01
_EVENTS_PER_COLUMN: Final = 2.0
"""Events for each column from which on a silo uses all grades."""
_FEWEST: Final = 2
_Floats: TypeAlias = NDArray[np.float64]


class Division(NamedTuple):
    """One division of own records: the fold of each ``(n,)``, and risks of a model that has not seen that fold."""

    folds: NDArray[np.intp]
    risk: _Floats


class OwnRanking:
    """A silo's choice of an untrained ``estimator``, with its evidence on own records ``(n, p)`` out of fold.

    ``evidence`` is the mean concordance within folds over five divisions, NaN without an event to rank. A ``RidgeCox``
    without a penalty takes the one with the best evidence. ``groups`` ``(n,)`` stay in one fold.
    """

    def __init__(self, estimator: Any, X: Any, y: _Floats, groups: NDArray[Any] | None, rng: Generator) -> None:
        self.times, of = times_of(y), np.arange(len(y)) if groups is None else np.unique(groups, return_inverse=True)[1]
        self.events_per_column = max(1.0, self.times.event.sum()) / max(1, X.shape[1])
        folds = [_divided(self.times, of, rng) for _ in range(_DIVISIONS)]
        chosen = isinstance(estimator, RidgeCox) and estimator.penalty is None
        tried = [clone(estimator).set_params(penalty=each) for each in PENALTIES] if chosen else [estimator]
        best, self.divisions = -1.0, [Division(fold, np.zeros(len(y))) for fold in folds]
        self.evidence, self.estimator = float("nan"), tried[0]
        for each in tried if self.times.event.any() else ():
            found = [Division(fold, _out_of_fold(each, X, y, fold)) for fold in folds]
            evidence = [concordance(self.times, division.risk, division.folds).value for division in found]
            known = [value for value in evidence if np.isfinite(value)]
            if known and np.mean(known) > best:
                best, self.divisions, self.estimator = float(np.mean(known)), found, each
                self.evidence = best

    @property
    def can_rank(self) -> bool:
        """Whether the model ranks own records better than chance: otherwise the silo gives no grades."""
        return self.evidence > 1 / 2

    def grades(self, risk: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
        """Grades of public examples by their ``risk`` ``(n,)``: fewer, in the middle, where events are few.

        One grade fewer each time there are half as many events for a column. So a mean of all silos' grades weighs
        them roughly by the precision of their coefficients (events per variable: P. Peduzzi et al., J. Clin.
        Epidemiol. 48, 1995), and nothing but grades leaves.
        """
        halvings = math.ceil(math.log2(_EVENTS_PER_COLUMN / self.events_per_column))
        parts = max(_FEWEST, GRADES - max(0, halvings))
        return grades(risk, parts) + (GRADES - parts) // 2

    @property
    def reversed(self) -> bool:
        """Whether own records are ranked the wrong way round, by three standard errors: scores may be times."""
        folds, risk = self.divisions[0]
        return self.evidence < 1 / 2 - _SURELY * concordance(self.times, risk, folds).error

    def share(self, student: _Floats) -> "OwnShare":
        """How much own scores count next to the ``student``'s on own records ``(n,)``."""
        spread = _spread(student), _spread(self.divisions[0].risk)
        told = [
            [better(self.times, mixed(USUAL, student, risk, spread), mixed(share, student, risk, spread), folds)
             for share in OWN_SHARES]
            for folds, risk in self.divisions
        ]  # fmt: skip
        gain, error = np.nan_to_num(np.mean(told, axis=0)).T
        best = int((gain - _ERRORS * error).argmax())
        return OwnShare(OWN_SHARES[best], float(gain[best]), float(error[best]), spread)


class OwnShare(NamedTuple):
    """Share of own scores in 0..1, its ``gain`` in concordance over the usual one with its error, and both spreads."""

    share: float
    gain: float = 0.0
    error: float = 0.0
    spread: tuple[float, float] = (1.0, 1.0)


def mixed(share: float, student: _Floats, own: _Floats, spread: tuple[float, float]) -> _Floats:
    """Scores of a student and of an own model, each ``(n,)`` divided by its spread on own records."""
    return (1 - share) * student / spread[0] + share * own / spread[1]


def _spread(values: _Floats) -> float:
    return float(values.std()) or 1.0


def _divided(times: Times, of: NDArray[np.intp], rng: Generator) -> NDArray[np.intp]:
    """The fold of each record ``(n,)``, with events dealt out alike and groups as a whole."""
    count = int(of.max()) + 1
    had = np.bincount(of, times.event, count) > 0
    order = rng.permutation(count)
    fold = np.empty(count, dtype=np.intp)
    fold[order[np.argsort(~had[order], kind="stable")]] = np.arange(count) % _FOLDS
    return fold[of]


def _out_of_fold(estimator: Any, X: Any, y: _Floats, fold: NDArray[np.intp]) -> _Floats:
    risk = np.zeros(len(y))
    for part in np.unique(fold):
        there = fold == part
        if not there.all():
            model = clone(estimator).fit(X[~there], y[~there])
            # The likelihood leaves the level of scores open, and chances need the same in all fits.
            risk[there] = model.predict(X[there]) - np.mean(model.predict(X[~there]))
    return risk


class RiskModel(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # untyped base classes
    """A silo's model: own scores, a student's of the consensus, or both; with the baseline of own records.

    ``own`` is an untrained estimator of signed times. ``predict`` gives scores: the larger, the sooner the event.
    """

    def __init__(self, own: Any = None, seed: int = 0) -> None:
        self.own, self.seed = own, seed

    def fit(self, X: Any, y: Any, ranking: OwnRanking | None = None) -> Self:
        """Train on own records ``(n, p)`` with signed times ``(n,)`` alone."""
        y = np.asarray(y, dtype=np.float64)
        ranking = ranking or OwnRanking(self.own, X, y, None, np.random.default_rng(self.seed))
        self.own_ = clone(ranking.estimator).fit(X, y)
        self.level_ = float(np.mean(self.own_.predict(X)))
        self.student_: Any = None
        self.share_, self.spread_ = 1.0, (1.0, _spread(ranking.divisions[0].risk))
        return self._with_baseline(ranking, np.zeros(len(y)))

    def learn(self, X: Any, y: Any, ranking: OwnRanking, public: Any, targets: NDArray[np.integer[Any]]) -> OwnShare:
        """Train on own records and on grades ``(n,)`` of public examples ``(n, p)``."""
        self.fit(X, y, ranking)
        self.student_ = make_pipeline(StandardScaler(), RidgeCV(_RIDGES)).fit(public, targets)
        taught = self.student_.predict(X)
        found = ranking.share(taught)
        self.share_, self.spread_ = found.share, found.spread
        self._with_baseline(ranking, taught)
        return found

    def predict(self, X: Any) -> _Floats:
        """Scores ``(n,)``."""
        taught = np.zeros(X.shape[0]) if self.student_ is None else self.student_.predict(X)
        return mixed(self.share_, taught, self.own_.predict(X) - self.level_, self.spread_)

    def chances(self, X: Any, horizons: Sequence[float]) -> _Floats:
        """The probability of an event up to each horizon, ``(n, horizons)``, for records ``X`` ``(n, p)``.

        Horizons have the unit of the times in ``fit``. Breslow's baseline hazard is that of own records; after their
        last event the probability stays constant. NaN after their last time: they tell nothing of later ones.
        """
        asked = np.asarray(horizons, dtype=np.float64)
        found = chances(self.steps_, self.hazard_, self.slope_ * self.predict(X), asked)
        return np.where(asked <= self.followed_, found, np.nan)

    def _with_baseline(self, ranking: OwnRanking, taught: _Floats) -> Self:
        # Scores of models that have not seen the record: others would state chances that are too far apart.
        own = np.mean([division.risk for division in ranking.divisions], axis=0)
        score = mixed(self.share_, taught, own, self.spread_)
        slope = RidgeCox(_OF_SLOPE).fit(score[:, np.newaxis], ranking.times.signed).coef_[0]
        self.slope_ = max(0.0, float(slope))
        self.steps_, self.hazard_ = baseline(ranking.times, self.slope_ * score)
        self.followed_ = float(ranking.times.time.max())
        return self
