"""The area under the ROC curve (AUC): how often a model ranks an ill patient above a healthy one.

E. DeLong, D. DeLong, D. Clarke-Pearson, "Comparing the areas under two or more correlated receiver operating
characteristic curves", Biometrics 44, 1988; by ranks as in X. Sun, W. Xu, "Fast implementation of DeLong's algorithm",
IEEE Signal Processing Letters 21, 2014.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from fedct_flwr.scoring.intervals import UNKNOWN, Estimate, area
from fedct_flwr.types import HardLabels

_Floats: TypeAlias = NDArray[np.float64]


def auc(y: HardLabels, probabilities: _Floats, positive: int | None = None) -> Estimate:
    """AUC of probabilities ``(n, classes)`` for labels ``(n,)``, with DeLong's interval.

    Of the class ``positive``, or else the unweighted mean over all classes in ``y``, each against the rest (macro
    one-vs-rest), whose variance takes into account that the same examples are in all of them. NaN for fewer than two
    classes in ``y``, or probabilities that are not finite.
    """
    there = np.flatnonzero(np.bincount(y)) if len(y) else np.zeros(0, dtype=np.intp)
    if len(there) < 2 or not np.isfinite(probabilities).all():
        return UNKNOWN
    one_vs_rest = [delong(y == c, probabilities[:, c]) for c in (there if positive is None else [positive])]
    value = float(np.mean([found for found, _ in one_vs_rest]))
    variance = float(np.sum(np.mean([parts for _, parts in one_vs_rest], axis=0) ** 2))
    sizes = np.bincount(y)[there]
    fewer = int(sizes.min())
    return area(min(1.0, max(0.0, value)), variance, fewer, len(y) - fewer)


def delong(positive: NDArray[np.bool_], score: _Floats) -> tuple[float, _Floats]:
    """The area, and what each example ``(n,)`` adds to its standard error: the sum of squares is DeLong's variance."""
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
