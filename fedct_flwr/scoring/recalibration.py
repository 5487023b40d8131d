"""Chances from a model that only ranks: a slope, and an intercept for each class, learned from records it has not seen.

For two classes this is Platt's scaling (J. Platt, "Probabilistic outputs for support vector machines", Advances in
large margin classifiers, 1999). For more it is bias-corrected temperature scaling, which keeps the order of any two
classes' odds (A. Alexandari, A. Kundaje, A. Shrikumar, "Maximum likelihood with bias-corrected calibration is
hard-to-beat at label shift adaptation", ICML 2020). The slope's prior is normal, with mean 1 and standard deviation 1.

Calibration intercept and slope say how far off stated chances are. The intercept is that of a logistic regression of
what happened whose slope on the chances' logit is 1 (0: as many as stated). The slope is that of one with an intercept
(below 1: chances range too widely). E. Steyerberg, "Clinical prediction models", 2009, §15.2.
"""

from dataclasses import dataclass
from typing import Final, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.scoring.intervals import UNKNOWN, Estimate, Z
from fedct_flwr.types import HardLabels

FEWEST: Final = 3
"""Records of each class below which nothing is learned."""
FEW: Final = 10
"""Events below which the slope stays 1."""
RANKS: Final = "ranks, not chances"
"""A model's probabilities that nothing has calibrated."""
FLATTEST: Final = 0.01
"""Least slope: a model must not rank the other way round."""
_LARGEST: Final = 1e3
_Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Recalibration:
    """``softmax(slope * log(p) + intercepts)``, where ``records`` count as in Laplace's rule of succession.

    Probabilities ``p`` first become ``(records * p + 1) / (records + classes)``: no more is known by as few,
    and a forest's 0 has a logarithm. Raises ValueError for numbers out of range.
    """

    slope: float
    intercepts: tuple[float, ...]
    records: int

    def __post_init__(self) -> None:
        """Check the range."""
        if not (0 < self.slope <= _LARGEST and self.records > 0 and all(abs(b) <= _LARGEST for b in self.intercepts)):
            raise ValueError("a recalibration has a slope above 0 and up to 1000, intercepts up to 1000, and records")

    @classmethod
    def learned(cls, y: HardLabels, p: _Floats) -> Self | None:
        """From classes ``(n,)`` and probabilities ``(n, classes)``; None with fewer than three records of a class.

        >>> ranks = np.array([[0.6, 0.4], [0.5, 0.5], [0.4, 0.6]] * 4)
        >>> found = Recalibration.learned(np.int16([0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1]), ranks)
        >>> found.slope, round(float(found.apply(ranks)[:, 1].mean()), 2)
        (1.0, 0.27)
        """
        n, classes = p.shape
        counts = np.bincount(y, minlength=classes)
        if counts.min() < FEWEST or not np.isfinite(p).all():
            return None
        # Platt's targets: how sure as many records of a class can make anybody.
        targets = np.repeat(1 / (counts[y] + classes), classes).reshape(n, classes)
        targets[np.arange(n), y] *= counts[y] + 1
        slope, *intercepts = _likeliest(_logs(p, n), targets, fixed=events(y) < FEW)
        return cls(slope, (0.0, *intercepts), n)

    def apply(self, p: _Floats) -> _Floats:
        """Chances ``(n, classes)`` of a model's probabilities; rows sum to 1."""
        return _softmax(self.slope * _logs(p, self.records) + np.array(self.intercepts))

    @property
    def words(self) -> str:
        """The source of the chances, in a few words."""
        return f"recalibrated on {self.records} records"


def events(y: HardLabels) -> int:
    """Records ``(n,)`` without the most frequent class."""
    return len(y) - int(np.bincount(y).max()) if len(y) else 0


def _logs(p: _Floats, records: int) -> _Floats:
    found: _Floats = np.log((records * p + 1) / (records + p.shape[1]))
    return found


def _softmax(z: _Floats) -> _Floats:
    powers = np.exp(z - z.max(axis=1, keepdims=True))
    found: _Floats = powers / powers.sum(axis=1, keepdims=True)
    return found


def _likeliest(logs: _Floats, targets: _Floats, *, fixed: bool) -> list[float]:
    """The slope, 1 if it is ``fixed``, and all intercepts but the first, which is 0."""
    from scipy.optimize import minimize  # takes a while, and most who read settings learn nothing

    def loss(at: _Floats) -> tuple[float, _Floats]:
        z = at[0] * logs
        z[:, 1:] += at[1:]
        top = z.max(axis=1, keepdims=True)
        powers = np.exp(z - top)
        total = powers.sum(axis=1, keepdims=True)
        over = powers / total - targets
        gradient: _Floats = over.sum(axis=0)
        gradient[0] = np.vdot(over, logs) + at[0] - 1
        return float((top + np.log(total)).sum() - np.vdot(targets, z) + (at[0] - 1) ** 2 / 2), gradient

    free = [(-_LARGEST, _LARGEST)] * (logs.shape[1] - 1)
    begun = np.r_[1.0, np.zeros(len(free))]
    found = minimize(loss, begun, jac=True, bounds=[(1.0, 1.0) if fixed else (FLATTEST, _LARGEST), *free])
    return list(map(float, found.x))


_SURE: Final = 1e-3
"""Chances nearer to 0 or 1 than this, or than a tenth of one record, count as this far away: they have a logarithm."""
_FAR: Final = 30.0
"""A coefficient beyond which there is no maximum: chances separate the classes."""
_STEPS: Final = 50
_SMALL: Final = 1e-8
_LARGEST_CONDITION: Final = 1e10
"""Logits of floats are below 40, so that of a curvature with a maximum is a thousandth of it."""


def intercept_and_slope(happened: NDArray[np.bool_], stated: NDArray[np.float64]) -> tuple[Estimate, Estimate]:
    """Of chances ``(n,)``, with Wald's intervals; unknown for one class alone, a slope also for separated classes."""
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
