"""Noise that silos add in shares: each a part of the discrete Gaussian that their sum needs, and what the sum costs.

Kairouz, Liu, Steinke, "The distributed discrete Gaussian mechanism for federated learning with secure aggregation",
ICML 2021 (arXiv:2102.06387).
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from dp_accounting import GaussianDpEvent
from numpy.typing import NDArray
from scipy.stats import chi2, norm

from fedct_flwr.privacy.budget import check_least
from fedct_flwr.privacy.calibration import calibrate
from fedct_flwr.privacy.randomness import Noise
from fedct_flwr.types import ConfigError

_SET_ASIDE: Final = 2.0**-10
"""The part of delta that pays for what the noise of a sum is not exactly: a Gaussian."""
_LEAST_NOISE: Final = 1e-3
_MOST_NOISE: Final = 1e4
"""With it, noisy sums of labelers stay far within 64 bits."""
_LARGEST_EXPONENT: Final = 700.0
"""Of what floating point holds; no delta pays for so much."""
UNLIKELY: Final = 1e-6
"""Probability that a sum of honest silos is refused, at most."""


def surely_honest(min_summands: int, may_collude: int) -> int:
    """How many silos' noise is counted: of the fewest that a sum is opened of, those that cannot collude.

    Raises ConfigError where none is left.
    """
    if may_collude < 0:
        raise ConfigError(f"may-collude is {may_collude}; set it to 0 or more")
    if min_summands - may_collude < 1:
        raise ConfigError(
            f"may-collude is {may_collude} of the {min_summands} silos of min-summands: no honest silo's noise would "
            "protect a sum; raise min-summands or lower may-collude"
        )
    return min_summands - may_collude


@dataclass(frozen=True)
class NoiseShares:
    """The noise of ``sums`` vectors of ``numbers`` integers each, which ``honest`` silos or more add to in shares.

    ``sensitivity``: the Euclidean length by which one unit changes one of the sums, at most, on the grid of integers.
    ``multiplier``: the noise multiplier of all sums together, as one Gaussian mechanism. ``honest``: see
    ``surely_honest``. Raises ConfigError for impossible numbers.

    Formal guarantees:
        Take units added or removed, and let what a silo sends for a sum be an integer vector, which depends on the
        unit by at most ``sensitivity`` whatever the earlier sums were, plus one fresh ``share``. Against all who see
        the sums modulo 2^k (and the vectors and noise of silos that collude), if at least ``honest`` silos that do not
        collude added their share to each sum: the sums together cost what ``event()``, ``sums`` times, costs, with a
        delta that is larger by ``slack(epsilon)``. In steps:

        The honest shares are independent discrete Gaussians of scale t = ``share_scale``. By Theorem 1 of the paper
        each number of the sum of h of them has, for every value, a probability within a factor exp(+-tau) of that of
        one discrete Gaussian of scale s = sqrt(h) t, with tau = 10 (exp(-2 pi^2 t^2 1/2) + ... + exp(-2 pi^2 t^2
        (h-1)/h)); so their total variation is at most exp(tau) - 1. One discrete Gaussian is within 1 / (4 s^2) of a
        rounded continuous one, for s >= 1 (``tests`` compute it). Hence all ``sums * numbers`` draws are, in total
        variation, within ``distance`` of rounded continuous Gaussians, with which the sums are rounded continuous
        mechanisms: post-processing. Replacing the noise costs distance (1 + exp(epsilon)) of delta, for both inputs.
        Shares beyond h of them, and reducing modulo 2^k, are post-processing, as are steps that follow from sums.

        Holds with ``SecureNoise`` only. Not covered: silos that say they add noise and do not (count them in
        ``may-collude``), and what is released next to the sums.
    """

    multiplier: float
    sensitivity: float
    sums: int
    numbers: int
    honest: int

    def __post_init__(self) -> None:
        found = ("sums", self.sums, 1), ("numbers", self.numbers, 1), ("honest silos", self.honest, 1)
        check_least("noise in shares", *found)
        if not (0 < self.multiplier <= _MOST_NOISE and 0 < self.sensitivity < 2.0**48):
            raise ConfigError(
                f"noise in shares has multiplier {self.multiplier:g} and sensitivity {self.sensitivity:g}; set both "
                f"above 0, at most {_MOST_NOISE:g} and 2^48"
            )
        if self.share_scale < 2:
            raise ConfigError(
                f"a share of the noise has scale {self.share_scale:g} of the grid, below 2: use a finer grid"
            )

    @property
    def scale(self) -> float:
        """Of the noise of the least honest silos together in one sum, on the grid."""
        return self.multiplier * math.sqrt(self.sums) * self.sensitivity

    @property
    def share_scale(self) -> float:
        """Of one silo's noise in one sum, on the grid; rounded up."""
        return math.nextafter(self.scale / math.sqrt(self.honest) * (1 + 2.0**-50), math.inf)

    def share(self, noise: Noise) -> NDArray[np.int64]:
        """One silo's noise for one sum, ``(numbers,)``."""
        return noise.discrete_gaussian(self.share_scale, (self.numbers,))

    def event(self) -> GaussianDpEvent:
        """What each of the ``sums`` costs a unit: a silo charges it before it sends its summand."""
        return GaussianDpEvent(self.multiplier * math.sqrt(self.sums))

    @property
    def distance(self) -> float:
        """Total variation between the noise of all sums and rounded continuous Gaussians, at most."""
        each = math.expm1(unlike_one(self.share_scale, self.honest)) + 1 / (4 * self.scale**2)
        return self.sums * self.numbers * each

    def slack(self, epsilon: float) -> float:
        """What of delta pays for ``distance``."""
        return self.distance * (1 + math.exp(min(epsilon, _LARGEST_EXPONENT)))


def may_be_noise(rest: NDArray[np.float64], scale: float) -> bool:
    """Whether independent Gaussian noise of this scale can be as large as ``rest``, or larger in each number.

    By each number, and by all squares together. Noise itself fails with a probability of at most ``UNLIKELY / 2``.
    """
    farthest, energy = np.abs(rest).max() / scale, float(((rest / scale) ** 2).sum())
    return bool(farthest <= norm.isf(UNLIKELY / 8 / rest.size) and energy <= chi2.isf(UNLIKELY / 4, rest.size))


def unlike_one(scale: float, shares: int) -> float:
    """The tau of Theorem 1 for a sum of ``shares`` discrete Gaussians of this scale: its distance from a single one."""
    exponent = -2 * math.pi**2 * scale**2
    return 10 * math.fsum(math.exp(exponent * k / (k + 1)) for k in range(1, shares))


def calibrated(
    epsilon: float, delta: float, *, sensitivity: float, sums: int, numbers: int, honest: int
) -> NoiseShares:
    """The least noise with which all sums together are (``epsilon``, ``delta``)-DP, all of ``slack`` included.

    Raises ConfigError where no noise is enough, or the grid is too coarse for what is set aside of delta.
    """
    shares = NoiseShares(least_multiplier(epsilon, delta), sensitivity, sums, numbers, honest)
    if shares.slack(epsilon) > delta * _SET_ASIDE:
        raise ConfigError(
            f"the grid of the sums is too coarse for delta {delta:g} at epsilon {epsilon:g}: lower epsilon, or raise "
            "delta"
        )
    return shares


@lru_cache(maxsize=64)
def least_multiplier(epsilon: float, delta: float) -> float:
    """The least noise multiplier of a Gaussian mechanism for ``epsilon``, a little of ``delta`` set aside."""
    return calibrate(GaussianDpEvent, epsilon, delta * (1 - _SET_ASIDE), _LEAST_NOISE, _MOST_NOISE)
