"""Whether probabilities mean what they say: of patients with a stated 30%, about 30 in 100 should be ill."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.scoring.intervals import wilson
from fedct_flwr.types import HardLabels

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
    size = np.bincount(at, minlength=BINS)
    total, right = (np.bincount(at, weights=values, minlength=BINS) for values in (stated, happened))
    low, high = wilson(right.astype(np.float64), size.astype(np.float64))
    return [
        Bin(
            b / BINS,
            (b + 1) / BINS,
            int(size[b]),
            float(total[b] / size[b]),
            float(right[b] / size[b]),
            float(low[b]),
            float(high[b]),
        )
        for b in np.flatnonzero(size).tolist()
    ]
