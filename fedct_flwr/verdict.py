"""Who has gained and who has lost, beyond what chance explains: two models on the same test records."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, norm

from fedct_flwr.types import HardLabels

LEVEL: Final = 0.05
"""A difference that chance alone makes more seldom than this is one."""
_MOST: Final = 1_000_000
"""Outcomes that are gone through one by one; beyond, the normal distribution will do."""
_EQUAL: Final = 1e-9


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
        if self.p > LEVEL:
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
    p = _p_value(abs(gain), weights, plus + minus)
    return Verdict(gain, int(better.sum()), int(worse.sum()), p)


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
