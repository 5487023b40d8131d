"""Times of follow-up with their events, and measures for censored records: concordance, scores, curves.

The time of an event is positive, and that of a censored record negative, as XGBoost's Cox objective has it. So records
travel through folds, pools and files like those of any other number. A censored time of 0 is -0.0.

Intervals are of jackknife type: each record's influence on the measure gives its variance. Few events leave too little
of it, so the interval comes from their number.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.consensus.grades import GRADES, grades
from fedct_flwr.scoring import Predictor
from fedct_flwr.scoring.assessment import Assessment, ByGrade
from fedct_flwr.scoring.intervals import UNKNOWN, Estimate, area, mean_of_losses, proportion
from fedct_flwr.text.printable import count, quoted
from fedct_flwr.types import DataError, Examples

_Floats: TypeAlias = NDArray[np.float64]
_BLOCK: Final = 1 << 22
"""Pairs of records that are looked at together."""
_FEWEST_EVENTS: Final = 5
"""Events from which on intervals use their variance: by it, those of 1 to 4 events hold the truth too seldom."""
GRADE_NAMES: Final = tuple(str(grade) for grade in range(1, GRADES + 1))
"""Names of the grades as classes: 1 is the lowest risk."""
AT: Final = "_at_"
"""Between a measure's name and its horizon."""
_FEWEST_OF_GRADE: Final = 10
"""Test records of one grade on average."""
EVENTS: Final = "write 1 where the event was seen, and 0 where the record is censored"
"""Advice on a column of events."""


class Times(NamedTuple):
    """Follow-up of records ``(n,)``: ``time`` until the event, or until the record is censored."""

    time: NDArray[np.float64]
    event: NDArray[np.bool_]

    @property
    def signed(self) -> NDArray[np.float64]:
        """One number for each record."""
        # An exported zero may be -0.0, and would turn an event at the start into a censored record.
        time = np.abs(self.time)
        return np.where(self.event, time, -time)


def times_of(y: NDArray[Any]) -> Times:
    """Read signed times ``(n,)``."""
    return Times(np.abs(y).astype(np.float64), ~np.signbit(y))


def follow_up(time: NDArray[np.float64], event: NDArray[np.float64], names: tuple[str, str], where: object) -> Times:
    """Check the columns of a table, ``(n,)`` each, called ``names``. Raises DataError, which quotes no record.

    >>> follow_up(np.array([5.0, 2.0]), np.array([1.0, 0.0]), ("days", "died"), "the table").signed
    array([ 5., -2.])
    """
    of_time, of_event = map(quoted, names)
    if missing := int((~np.isfinite(time)).sum()):
        raise DataError(f"{of_time} of {where} is missing in {count(missing, 'record')}: fill it in, or take them out")
    if negative := int((time < 0).sum()):
        raise DataError(f"{of_time} of {where} is negative in {count(negative, 'record')}: count from each one's start")
    if other := int((~np.isin(event, (0, 1))).sum()):
        # As censored, a death before a relapse gives the chance of a relapse as if no one could die.
        several = {0, 1} <= {*event} and (event > 1).any()
        competing = "; where another event comes first, such as death, count it as one, too" if several else ""
        what = f"{of_event} of {where} is neither 0 nor 1 in {count(other, 'record')}"
        raise DataError(f"{what}: {EVENTS}{competing}")
    return Times(time, event == 1)


def usual_horizon(parts: Sequence[NDArray[Any]]) -> tuple[float, ...]:
    """The median time of all events, of signed times by silo, as the one horizon; none without an event."""
    times = times_of(np.concatenate(parts))
    return (float(np.median(times.time[times.event])),) if times.event.any() else ()


def check_can_rank(times: Times, where: object) -> None:
    """Raise DataError for records that cannot rank: no event, or one time for all."""
    if not times.event.any():
        raise DataError(f"{where} has no event, so it cannot rank anybody by risk: leave it out, or wait for events")
    if len(np.unique(times.time)) < 2:
        raise DataError(f"{where} has one time for all records, so it cannot rank anybody: check the time column")


class Concordance(NamedTuple):
    """Harrell's concordance; ``influence`` ``(n,)`` is what each record adds to its error, with a sum of 0.

    ``events``: how many records have a pair by their own event.
    """

    value: float
    influence: _Floats
    events: int

    @property
    def error(self) -> float:
        """The standard error."""
        return float(np.sqrt(np.sum(self.influence**2)))

    @property
    def estimate(self) -> Estimate:
        """With its 95% interval, within 0..1."""
        if not np.isfinite(self.value):
            return UNKNOWN
        variance = self.error**2 * self.events / max(1, self.events - 1)
        return _area(self.value, variance, self.events, len(self.influence))


def concordance(times: Times, risk: _Floats, folds: NDArray[np.intp] | None = None) -> Concordance:
    """The share of comparable pairs in which the record with the earlier event has the larger risk ``(n,)``.

    Ties of risk count a half; pairs of one time count where only one has the event. ``folds`` ``(n,)``: pairs within a
    fold alone. NaN without a pair. F. Harrell et al., JAMA 247, 1982; the variance of a ratio of two U-statistics: L.
    Hanley, Statistics in Medicine 5, 1986.
    """
    n = len(risk)
    pairs, right, events = np.zeros(n), np.zeros(n), 0
    rows = max(1, _BLOCK // max(1, n))
    for begin in range(0, n, rows):
        at = slice(begin, begin + rows)
        time, event, mine = (part[at, np.newaxis] for part in (times.time, times.event, risk))
        comparable = event & ((time < times.time) | ((time == times.time) & ~times.event))
        if folds is not None:
            comparable &= folds[at, np.newaxis] == folds
        events += int(comparable.any(axis=1).sum())
        good = comparable * ((mine > risk) + 0.5 * (mine == risk))
        for of, found in ((pairs, comparable), (right, good)):
            of[at] += found.sum(axis=1)
            of += found.sum(axis=0)
    total = pairs.sum() / 2
    if not total:
        return Concordance(float("nan"), np.zeros(n), 0)
    value = right.sum() / 2 / total
    return Concordance(float(value), (right - value * pairs) / total, events)


def better(times: Times, first: _Floats, second: _Floats, folds: NDArray[np.intp] | None = None) -> tuple[float, float]:
    """How much more concordant the ``second`` risks are than the first, and the standard error of the difference."""
    one, other = (concordance(times, risk, folds) for risk in (first, second))
    return other.value - one.value, float(np.sqrt(np.sum((other.influence - one.influence) ** 2)))


class Curve(NamedTuple):
    """Kaplan and Meier's estimate: the share without event from each of ``steps`` on; ``at_risk`` just before it."""

    steps: _Floats
    share: _Floats
    at_risk: NDArray[np.int64]

    def at(self, time: _Floats, *, before: bool = False) -> _Floats:
        """The share at these times, or just before them."""
        found: _Floats = np.append(1.0, self.share)[
            np.searchsorted(self.steps, time, side="left" if before else "right")
        ]
        return found


def kaplan_meier(times: Times, *, censoring: bool = False) -> Curve:
    """The Kaplan-Meier curve of records with these times (E. Kaplan, P. Meier, JASA 53, 1958).

    ``censoring``: the share not censored instead. Events come before the censoring of the same time.
    """
    ends = times.event ^ censoring
    steps, count = np.unique(times.time[ends], return_counts=True)
    before = [np.searchsorted(np.sort(times.time[ends]), steps, side="left")]
    before += [np.searchsorted(np.sort(times.time[~ends]), steps, side="right" if censoring else "left")]
    at_risk = len(times.time) - before[0] - before[1]
    share: _Floats = np.cumprod(1 - count / np.maximum(at_risk, 1)).astype(np.float64)
    return Curve(steps, share, at_risk)


def excess(times: Times) -> _Floats:
    """Nelson and Aalen's cumulative hazard at each record's time, less its event ``(n,)``: the later, the larger.

    The negative martingale residuals of the model without columns: also of records that are followed up shortly, the
    mean is 0 (T. Therneau, P. Grambsch, T. Fleming, Biometrika 77, 1990).
    """
    steps, count = np.unique(times.time[times.event], return_counts=True)
    at_risk = len(times.time) - np.searchsorted(np.sort(times.time), steps, side="left")
    hazard = np.append(0.0, np.cumsum(count / np.maximum(at_risk, 1)))
    return np.asarray(hazard[np.searchsorted(steps, times.time, side="right")] - times.event)


def at_horizon(times: Times, risk: _Floats, chance: _Floats | None, horizon: float) -> dict[str, Estimate]:
    """AUC of ``risk`` and, of the ``chance`` of an event up to the horizon, Brier score and observed minus stated.

    Records censored before the horizon stand for nothing themselves; the others weigh as much more (E. Graf et al.,
    Statistics in Medicine 18, 1999; H. Uno et al., JASA 102, 2007). A record censored at the horizon had no event by
    then. ``calibration`` is Kaplan and Meier's share with the event minus the mean stated chance: 0 where chances are
    true.
    """
    censoring = kaplan_meier(times, censoring=True)
    had = times.event & (times.time <= horizon)
    later = ~had & (times.time >= horizon)
    still = np.maximum(censoring.at(np.minimum(times.time, horizon), before=True), 1e-9)
    weight = np.where(had | later, 1 / still, 0.0)
    found = {"auc": _weighted_auc(risk, weight, had, later)}
    if chance is None or not later.any():
        return found
    losses, known = weight * (had - chance) ** 2, int((had | later).sum())
    few, loss = min(had.sum(), later.sum()) < _FEWEST_EVENTS, min(1.0, float(losses.mean()))
    found["brier"] = proportion(loss * known, known) if few else mean_of_losses(losses, 1.0)
    observed, stated = 1 - float(kaplan_meier(times).at(np.array([horizon]))[0]), float(chance.mean())
    # Wilson's interval, with the effective number of records, has a width without an event, too.
    variance = float((weight * had - chance).var(ddof=1)) / len(chance) if had.any() else 0.0
    trials = observed * (1 - observed) / variance if variance > 0 else known
    around = proportion(observed * trials, trials)
    found["calibration"] = Estimate(observed - stated, around.low - stated, around.high - stated)
    return found


def _weighted_auc(risk: _Floats, weight: _Floats, had: NDArray[np.bool_], later: NDArray[np.bool_]) -> Estimate:
    ill, well = weight[had], weight[later]
    if not (ill.sum() and well.sum()):
        return UNKNOWN
    order = np.argsort(risk[later], kind="stable")
    ranked, below = risk[later][order], np.append(0.0, np.cumsum(well[order]))
    left, right = (below[np.searchsorted(ranked, risk[had], side=side)] for side in ("left", "right"))
    of_ill = (left + right) / 2 / below[-1]
    order = np.argsort(risk[had], kind="stable")
    ranked, below = risk[had][order], np.append(0.0, np.cumsum(ill[order]))
    left, right = (below[-1] - below[np.searchsorted(ranked, risk[later], side=side)] for side in ("left", "right"))
    of_well = (left + right) / 2 / below[-1]
    value = float(np.average(of_ill, weights=ill))
    parts = [
        np.sum((weight / weight.sum() * (of - value)) ** 2) * len(of) / max(1, len(of) - 1)
        for weight, of in ((ill, of_ill), (well, of_well))
    ]
    return _area(value, float(sum(parts)), len(ill), len(well))


def _area(value: float, variance: float, one: int, other: int) -> Estimate:
    fewer, more = sorted((one, other))
    return area(min(1.0, max(0.0, value)), variance if fewer >= _FEWEST_EVENTS else 0.0, fewer, more)


def assess_times(model: Predictor, test: Examples, horizons: Sequence[float]) -> tuple[NDArray[np.float64], Assessment]:
    """The model's scores ``(n,)`` for a test set with signed times, and how good they are. Raises TrainingError."""
    if not test.size:
        return np.zeros(0), Assessment({})
    risk, times = np.asarray(model.predict(test.X), dtype=np.float64), times_of(test.y)
    found: dict[str, Estimate] = {"concordance": concordance(times, risk).estimate}
    asked: Any = getattr(model, "risks", None)
    stated = None if asked is None else asked(test.X, tuple(horizons))
    for place, horizon in enumerate(horizons):
        # A silo states no chance for times that it does not follow up.
        chance = None if stated is None or np.isnan(stated[:, place]).any() else stated[:, place]
        at = at_horizon(times, risk, chance, horizon)
        found |= {f"{name}{AT}{horizon:g}": estimate for name, estimate in at.items()}
    return risk, Assessment(found, grades=_by_grade(times, risk))


def _by_grade(times: Times, risk: NDArray[np.float64]) -> list[ByGrade]:
    """A curve for each grade, of fewer grades where records are few; none where there are not enough for two."""
    parts = min(GRADES, len(risk) // _FEWEST_OF_GRADE)
    if parts < 2:
        return []
    graded, found = grades(risk, parts), []
    for grade in range(parts):
        own = Times(times.time[graded == grade], times.event[graded == grade])
        curve = kaplan_meier(own)
        last = [float(own.time.max(initial=0.0))]
        steps, share = [0.0, *curve.steps.tolist()], [1.0, *curve.share.tolist()]
        found.append(ByGrade(grade + 1, len(own.time), int(own.event.sum()), steps + last, share + share[-1:]))
    return found
