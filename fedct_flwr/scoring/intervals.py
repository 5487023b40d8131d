"""95% intervals: of proportions, of means of proportions and of losses, of areas under the curve, of calibration.

All closed forms, so that a thousand silos cost nothing. A perfect score on few records has an interval of some width:
resampling such records would give none. A verdict says which of two models is better on the same test records.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import binom, norm, t

from fedct_flwr.types import HardLabels

LEVEL: Final = 0.95
Z: Final = float(norm.ppf((1 + LEVEL) / 2))
CHANCE: Final = 0.05
"""A difference that chance alone makes more seldom than this is one."""
_MOST: Final = 1_000_000
"""Outcomes that are gone through one by one; beyond, the normal distribution will do."""
_EQUAL: Final = 1e-9
_EDGE: Final = 1e-12
_Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A number and its 95% interval; NaN where there is none."""

    value: float
    low: float
    high: float


UNKNOWN: Final = Estimate(float("nan"), float("nan"), float("nan"))


def wilson(successes: _Floats, trials: _Floats) -> tuple[_Floats, _Floats]:
    """Limits of proportions, elementwise; NaN without a trial.

    E. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22, 1927.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        share, weight = successes / trials, Z**2 / trials
        middle = (share + weight / 2) / (1 + weight)
        half = np.sqrt(weight * (share * (1 - share) + weight / 4)) / (1 + weight)
    # Rounding must not put 0 or 1 out of its own interval.
    return np.minimum(np.maximum(middle - half, 0), share), np.maximum(np.minimum(middle + half, 1), share)


def proportion(successes: float, trials: float) -> Estimate:
    """A proportion with Wilson's interval."""
    if not trials:
        return UNKNOWN
    (low,), (high,) = wilson(np.array([float(successes)]), np.array([float(trials)]))
    return Estimate(successes / trials, float(low), float(high))


def mean_of_proportions(successes: _Floats, trials: _Floats) -> Estimate:
    """The unweighted mean of independent proportions ``(k,)``, such as balanced accuracy, from their Wilson intervals.

    G. Zou, A. Donner, "Construction of confidence limits about effect measures: a general approach", Statistics in
    Medicine 27, 2008 (MOVER).
    """
    shares, (low, high) = successes / trials, wilson(successes, trials)
    value = float(shares.mean())
    below, above = (float(np.sqrt(np.sum((shares - end) ** 2))) / len(shares) for end in (low, high))
    return Estimate(value, max(0.0, value - below), min(1.0, value + above))


def difference(first: Estimate, second: Estimate) -> Estimate:
    """The first minus the second, of independent records: by MOVER, as above; NaN where one is unknown."""
    value = first.value - second.value
    below = float(np.hypot(first.value - first.low, second.high - second.value))
    above = float(np.hypot(first.high - first.value, second.value - second.low))
    return Estimate(value, value - below, value + above)


def mean_of_losses(losses: _Floats, most: float = float("inf")) -> Estimate:
    """The mean of losses ``(n,)`` in ``0..most``, with Student's interval.

    Where all losses are equal, or there is one, the interval is Wilson's for a proportion of the same mean, which
    varies as much as any loss in these bounds can; NaN without bounds.
    """
    if not len(losses):
        return UNKNOWN
    value = float(losses.mean())
    spread = float(losses.std(ddof=1)) if len(losses) > 1 else 0.0
    if spread > 0:
        half = float(t.ppf((1 + LEVEL) / 2, len(losses) - 1) * spread / np.sqrt(len(losses)))
        return Estimate(value, max(0.0, value - half), min(most, value + half))
    if not np.isfinite(most):
        return Estimate(value, float("nan"), float("nan"))
    bounded = proportion(value / most * len(losses), len(losses))
    return Estimate(value, bounded.low * most, bounded.high * most)


def area(value: float, variance: float, fewer: int, more: int) -> Estimate:
    """An area under the ROC curve of ``fewer`` against ``more`` examples, its variance given.

    On the logit scale, which keeps the interval in 0..1 (M. Pepe, "The statistical evaluation of medical tests", 2003,
    §5.2.4). Perfect separation, or one example of a class, leaves no variance to estimate: R. Newcombe, "Confidence
    intervals for an effect size measure based on the Mann-Whitney statistic, part 2", Statistics in Medicine 25, 2006,
    method 5, has one from the sizes alone.
    """
    if fewer < 2 or variance <= 0 or not _EDGE < value < 1 - _EDGE:
        return _newcombe(value, fewer, more)
    half = Z * np.sqrt(variance) / (value * (1 - value))
    middle = np.log(value / (1 - value))
    low, high = (float(1 / (1 + np.exp(-end))) for end in (middle - half, middle + half))
    return Estimate(value, low, high)


def _newcombe(value: float, m: int, n: int) -> Estimate:
    def beyond(theta: float) -> float:
        others = (m + n) / 2 - 1
        variance = theta * (1 - theta) * (1 + others * ((1 - theta) / (2 - theta) + theta / (1 + theta))) / (m * n)
        return float((value - theta) ** 2 - Z**2 * variance)

    low = 0.0 if value < _EDGE else float(brentq(beyond, 0, min(value, 1 - _EDGE)))
    high = 1.0 if value > 1 - _EDGE else float(brentq(beyond, max(value, _EDGE), 1))
    return Estimate(value, low, high)


_SURE: Final = 1e-3
"""Chances nearer to 0 or 1 than this, or than a tenth of one record, count as this far away: they have a logarithm."""
_FAR: Final = 30.0
"""A coefficient beyond which there is no maximum: chances separate the classes."""
_STEPS: Final = 50
_SMALL: Final = 1e-8
_LARGEST_CONDITION: Final = 1e10
"""Logits of floats are below 40, so that of a curvature with a maximum is a thousandth of it."""


def intercept_and_slope(happened: NDArray[np.bool_], stated: NDArray[np.float64]) -> tuple[Estimate, Estimate]:
    """How far off chances ``(n,)`` are, with Wald's intervals; unknown for one class alone.

    The intercept is that of a logistic regression of what happened whose slope on the chances' logit is 1 (0: as many
    as stated). The slope is that of one with an intercept (below 1: chances range too widely), unknown for separated
    classes. E. Steyerberg, "Clinical prediction models", 2009, §15.2.
    """
    if not 0 < happened.sum() < len(happened) or not np.isfinite(stated).all():
        return UNKNOWN, UNKNOWN
    # All records together thus expect at most a tenth of an event more than stated.
    nearest = min(_SURE, 0.1 / len(stated))
    p = np.clip(stated, nearest, 1 - nearest)
    logit, ones = np.log(p / (1 - p)), np.ones((len(p), 1))
    intercept = _last_coefficient(ones, logit, happened)
    both = np.hstack([ones, logit[:, np.newaxis]])
    return intercept, _last_coefficient(both, np.zeros(len(p)), happened) if np.ptp(p) > 0 else UNKNOWN


@np.errstate(under="ignore")
def _last_coefficient(X: NDArray[np.float64], offset: NDArray[np.float64], happened: NDArray[np.bool_]) -> Estimate:
    """The last one of a logistic regression, by Newton's steps, halved where they do not pay."""
    at, step, least = np.zeros(X.shape[1]), np.zeros(X.shape[1]), np.inf
    for _ in range(_STEPS):
        z = X @ at + offset
        softplus = np.logaddexp(0.0, z)
        loss = float(softplus.sum() - z[happened].sum())
        if loss > least and np.abs(step).max() > _SMALL:
            step /= 2
            at += step
            continue
        least, q = loss, np.exp(z - softplus)
        curvature = (X.T * (q * (1 - q))) @ X
        # Where one chance's records all had the event, the maximum is at infinity.
        if not np.linalg.cond(curvature) < _LARGEST_CONDITION:
            break
        inverse = np.linalg.inv(curvature)
        step = inverse @ (X.T @ (q - happened))
        at -= step
        if np.abs(step).max() <= _SMALL:
            value, half = float(at[-1]), Z * float(np.sqrt(inverse[-1, -1]))
            return Estimate(value, value - half, value + half)
        if np.abs(at).max() > _FAR and least < _SMALL * len(z):
            break
    return UNKNOWN


@dataclass(frozen=True)
class Verdict:
    """A model against another one, on test records.

    ``gain`` is the difference of balanced accuracies. ``better`` and ``worse`` are the records that it alone gets
    right, and wrong. ``p``: how often chance alone makes a difference as large, in either direction.
    """

    gain: float
    better: int
    worse: int
    p: float

    @property
    def word(self) -> str:
        """``gained`` or ``lost``, empty where chance explains the difference."""
        if self.p > CHANCE:
            return ""
        return "gained" if self.gain > 0 else "lost"


def verdict(alone: HardLabels, together: HardLabels, y: HardLabels) -> Verdict | None:
    """Compare the predictions of two models ``(n,)`` for records of classes ``y``; None without records.

    McNemar's exact test, by class: were the models equally good, each record that one of them alone gets right could as
    well be the other's. The statistic is the difference of balanced accuracies, so a model that gains by calling
    everybody healthy does not win (McNemar, "Note on the sampling error of the difference between correlated
    proportions", Psychometrika 12(2), 1947).

    >>> verdict(np.int16([0, 0, 0, 0]), np.int16([0, 0, 1, 1]), np.int16([0, 0, 1, 1]))
    Verdict(gain=0.5, better=2, worse=0, p=0.5)
    """
    if not len(y):
        return None
    better, worse = (together == y) & (alone != y), (alone == y) & (together != y)
    classes = np.unique(y)
    weights = np.array([1 / len(classes) / (y == c).sum() for c in classes])
    plus, minus = (np.array([(side & (y == c)).sum() for c in classes]) for side in (better, worse))
    gain = float(weights @ (plus - minus))
    return Verdict(gain, int(better.sum()), int(worse.sum()), _p_value(abs(gain), weights, plus + minus))


def _p_value(gain: float, weights: NDArray[np.float64], differ: NDArray[np.intp]) -> float:
    """How often ``|sum of weights * (2 Binomial(differ, 1/2) - differ)|`` is at least ``gain``."""
    if gain < _EQUAL:
        return 1.0
    there = differ > 0
    weights, differ = weights[there], differ[there]
    if np.prod(differ + 1.0) > _MOST:
        spread = float(np.sqrt((weights**2 * differ).sum()))
        return float(2 * norm.sf(gain / spread))
    sums, chances = np.zeros(1), np.ones(1)
    for weight, count in zip(weights, differ.tolist(), strict=True):
        of_count = np.arange(count + 1)
        sums = (sums[:, None] + weight * (2 * of_count - count)).ravel()
        chances = (chances[:, None] * binom.pmf(of_count, count, 0.5)).ravel()
    return float(min(1.0, chances[np.abs(sums) >= gain - _EQUAL].sum()))
