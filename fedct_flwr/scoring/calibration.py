"""Calibration intercept and slope of stated chances, each with its interval.

The intercept is that of a logistic regression of what happened whose slope on the chances' logit is 1 (0: as many as
stated), the slope that of one with an intercept (below 1: chances range too widely). E. Steyerberg, "Clinical
prediction models", 2009, §15.2.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.scoring.intervals import UNKNOWN, Estimate, Z

_SURE: Final = 1e-3
"""Chances nearer to 0 or 1 than this count as this far away."""
_FAR: Final = 30.0
"""A coefficient beyond which there is no maximum: chances separate the classes."""
_STEPS: Final = 50
_SMALL: Final = 1e-8


def intercept_and_slope(happened: NDArray[np.bool_], stated: NDArray[np.float64]) -> tuple[Estimate, Estimate]:
    """Of chances ``(n,)``, with Wald's intervals; unknown for one class alone, a slope also for separated classes."""
    if not 0 < happened.sum() < len(happened) or not np.isfinite(stated).all():
        return UNKNOWN, UNKNOWN
    p = np.clip(stated, _SURE, 1 - _SURE)
    logit, ones = np.log(p / (1 - p)), np.ones((len(p), 1))
    intercept = _last_coefficient(ones, logit, happened)
    both = np.hstack([ones, logit[:, np.newaxis]])
    return intercept, _last_coefficient(both, np.zeros(len(p)), happened) if np.ptp(p) > 0 else UNKNOWN


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
        try:
            inverse = np.linalg.inv((X.T * (q * (1 - q))) @ X)
        except np.linalg.LinAlgError:
            break
        step = inverse @ (X.T @ (q - happened))
        at -= step
        if np.abs(step).max() <= _SMALL:
            value, half = float(at[-1]), Z * float(np.sqrt(inverse[-1, -1]))
            return Estimate(value, value - half, value + half)
        if np.abs(at).max() > _FAR and least < _SMALL * len(z):
            break
    return UNKNOWN
