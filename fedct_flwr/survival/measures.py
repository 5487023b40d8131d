"""Measures for censored records: concordance, scores at horizons, and Kaplan and Meier's curve.

Intervals are of jackknife type: each record's influence on the measure gives its variance. Few events leave too little
of it, so the interval comes from their number.
"""

from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.scoring.intervals import UNKNOWN, Estimate, area, mean_of_losses, proportion
from fedct_flwr.survival.times import Times

_Floats: TypeAlias = NDArray[np.float64]
_BLOCK: Final = 1 << 22
"""Pairs of records that are looked at together."""
_FEWEST: Final = 5
"""Events from which on intervals use their variance: by it, those of 1 to 4 events hold the truth too seldom."""


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
    """The curve of records with these times (E. Kaplan, P. Meier, JASA 53, 1958).

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
    found: _Floats = hazard[np.searchsorted(steps, times.time, side="right")] - times.event
    return found


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
    few, loss = min(had.sum(), later.sum()) < _FEWEST, min(1.0, float(losses.mean()))
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
    return area(min(1.0, max(0.0, value)), variance if fewer >= _FEWEST else 0.0, fewer, more)
