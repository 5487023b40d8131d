"""Noise that silos add in shares: each a part of the discrete Gaussian that their sum needs, and what the sum costs.

Kairouz, Liu, Steinke, "The distributed discrete Gaussian mechanism for federated learning with secure aggregation",
ICML 2021 (arXiv:2102.06387); on votes: GNMax of Papernot et al., "Scalable private learning with PATE", ICLR 2018.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from dp_accounting import DpEvent, GaussianDpEvent
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.stats import chi2, norm

from fedct_flwr.config.privacy import NoisePlan
from fedct_flwr.privacy.accounting import SLOW_QUERIES, Epsilon, calibrate, epsilon_in_time
from fedct_flwr.privacy.budget import ALL_SILOS, NoiseOnVotes, PrivacyUnit, Spending, check_least
from fedct_flwr.privacy.events import DiscreteGaussianDpEvent
from fedct_flwr.privacy.mechanisms import largest, repeated
from fedct_flwr.privacy.randomness import Noise, SimulatedNoise
from fedct_flwr.types import ConfigError, HardLabels, VoteCounts
from fedct_flwr.wire.content import LARGEST_NOISE, LEAST_NOISE

_SET_ASIDE: Final = 2.0**-10
"""The part of delta that pays for what the noise of a sum is not exactly: a Gaussian."""
_LEAST_NOISE: Final = 1e-3
_MOST_NOISE: Final = 1e4
"""With it, noisy sums of labelers stay far within 64 bits."""
_LARGEST_EXPONENT: Final = 700.0
"""Largest exponent in floating point; no delta pays for so much."""
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
        """Standard deviation of the fewest honest silos' noise in one sum, on the grid."""
        return self.multiplier * math.sqrt(self.sums) * self.sensitivity

    @property
    def share_scale(self) -> float:
        """Scale of one silo's noise in one sum, on the grid; rounded up."""
        return math.nextafter(self.scale / math.sqrt(self.honest) * (1 + 2.0**-50), math.inf)

    def spread(self, silos: int) -> float:
        """Standard deviation of a number's noise, on the grid, where this many silos have added theirs."""
        return self.share_scale * math.sqrt(silos)

    def share(self, noise: Noise) -> NDArray[np.int64]:
        """One silo's noise for one sum, ``(numbers,)``."""
        return noise.discrete_gaussian(self.share_scale, (self.numbers,))

    def event(self) -> GaussianDpEvent:
        """Cost of each of the ``sums`` for a unit: a silo charges it before it sends its summand."""
        return GaussianDpEvent(self.multiplier * math.sqrt(self.sums))

    @property
    def distance(self) -> float:
        """Total variation between the noise of all sums and rounded continuous Gaussians, at most."""
        each = math.expm1(unlike_one(self.share_scale, self.honest)) + 1 / (4 * self.scale**2)
        return self.sums * self.numbers * each

    def slack(self, epsilon: float) -> float:
        """Part of delta that pays for ``distance``."""
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


def fitting(multiplier: float, epsilon: float, delta: float) -> int:
    """How many Gaussian sums of this noise multiplier ``epsilon`` and ``delta`` pay for, together.

    >>> fitting(least_multiplier(0.1, 1e-5), 0.1, 1e-5), fitting(least_multiplier(0.1, 1e-5), 1.0, 1e-5)
    (1, 67)
    """
    return math.floor((multiplier / least_multiplier(epsilon, delta)) ** 2 * (1 + 1e-6))


_SET_ASIDE_OF_VOTES: Final = 2.0**-20
"""The part of epsilon and delta that pays for what a sum of shares is not exactly: one discrete Gaussian."""
_LEAST_SHARE: Final = 4.0
"""Scale of one silo's share on the grid, at least: then a sum of shares is one discrete Gaussian to 1e-60."""
_LEAST_SEARCHED: Final = 0.05


@dataclass(frozen=True)
class VoteShares:
    """The noise of one sum of silos' votes ``(queries, classes)``, to which each of ``honest`` silos or more adds.

    ``scale``: the noise of the honest silos together, in votes of one silo, of which each has one for each example.
    ``honest``: see ``surely_honest``. Raises ConfigError for impossible numbers.

    Formal guarantees:
        Unit: one silo as a whole, its votes replaced by any others. From whom: everybody who sees the sum, also the
        coordinator together with the silos counted as ``may-collude``, who know their own votes and noise, if at least
        ``honest`` silos that do not collude, the silo itself among them, added their share. Summands stay secret: that
        is what a secure sum promises, and a plain one does not.

        All is counted in units of 1 / ``grid`` vote. The silo takes its vote for an example from one class and gives it
        to another, at most: 2 ``queries`` numbers of the sum, each changed by ``grid``. With one discrete Gaussian of
        scale s = ``grid * scale`` on each number, the sum would cost ``event()``. The sum of h = ``honest`` shares of
        scale s / sqrt(h) has, for every value, a probability within a factor exp(+-tau) of that (Theorem 1 of the
        paper, ``unlike_one``). So on all N = ``queries * classes`` numbers both inputs' probabilities are
        within exp(+-N tau), and an (epsilon, delta) of ``event()`` is an (epsilon + 2 N tau, exp(N tau) delta) of the
        sum; ``price`` and ``shares_for`` count that. Shares beyond h of them, and reducing modulo 2^k, are
        post-processing, as are the labels.

        Holds with ``SecureNoise`` only. Not covered: silos that say they add noise and do not (count them in
        ``may-collude``), which silos are in the sum, and what is released next to it.
    """

    scale: float
    queries: int
    classes: int
    honest: int

    def __post_init__(self) -> None:
        found = ("examples", self.queries, 1), ("classes", self.classes, 2), ("honest silos", self.honest, 1)
        check_least("noise in shares", *found)
        if not LEAST_NOISE <= self.scale <= LARGEST_NOISE:
            raise ConfigError(
                f"noise in shares has a scale of {self.scale:g} votes of a silo; set gamma so that it lies between "
                f"{LEAST_NOISE:g} and {LARGEST_NOISE:g}"
            )

    @property
    def grid(self) -> int:
        """Units of a vote: the least power of two with which a share is no coarse one."""
        return 1 << max(0, math.ceil(math.log2(_LEAST_SHARE * math.sqrt(self.honest) / self.scale)))

    @property
    def share_scale(self) -> float:
        """Scale of one silo's noise, on the grid; rounded up."""
        return math.nextafter(self.grid * self.scale / math.sqrt(self.honest) * (1 + 2.0**-50), math.inf)

    def share(self, noise: Noise) -> NDArray[np.int64]:
        """One silo's noise ``(queries, classes)``."""
        return noise.discrete_gaussian(self.share_scale, (self.queries, self.classes))

    def could_be(self, opened: NDArray[np.int64], silos: int) -> bool:
        """Whether votes and noise of ``silos`` silos can add up to these numbers ``(queries, classes)``.

        Each number, and each example's sum, is a count of 0 to ``silos`` votes and noise. Of honest silos it is refused
        with a probability of at most ``UNLIKELY``.
        """
        most, scale = self.grid * silos, self.share_scale * math.sqrt(silos)
        parts = (opened, scale), (opened.sum(axis=1), scale * math.sqrt(self.classes))
        return all(may_be_noise(np.maximum(np.maximum(one - most, -one), 0) / 1.0, noise) for one, noise in parts)

    def event(self) -> DpEvent:
        """Cost of the sum for a silo, which charges it before it sends its summand."""
        return repeated(DiscreteGaussianDpEvent(self.grid * self.scale, self.grid), 2 * self.queries)

    @property
    def unlikeness(self) -> float:
        """N tau: by how much the logarithm of any sum's probability is not that of one discrete Gaussian, at most."""
        return self.queries * self.classes * unlike_one(self.share_scale, self.honest)

    def price(self, delta: float) -> Epsilon:
        """Epsilon of the sum at ``delta``, all of ``unlikeness`` included."""
        found = epsilon_in_time(self.event(), delta * (1 - _SET_ASIDE_OF_VOTES))
        return found._replace(upper=found.upper + 2 * self.unlikeness)


def shares_for(plan: NoisePlan, votes: int, num_queries: int, num_classes: int, honest: int) -> VoteShares:
    """The least noise in shares that keeps the plan's epsilon and delta; with a ``gamma`` 1 / gamma, whatever it costs.

    ``votes``: how many each silo has for an example, all for one class. Gamma is in those, and the scale in silos.
    Raises ConfigError where no noise keeps the budget.
    """

    def of(scale: float) -> VoteShares:
        return VoteShares(scale, num_queries, num_classes, honest)

    if plan.gamma:
        return of(1 / plan.gamma / votes)
    highest = _enough(plan, num_queries)
    scale = calibrate(
        lambda scale: of(scale).event(),
        plan.epsilon * (1 - _SET_ASIDE_OF_VOTES),
        plan.delta * (1 - _SET_ASIDE_OF_VOTES),
        _LEAST_SEARCHED,
        highest,
        quick=num_queries > SLOW_QUERIES or highest == LARGEST_NOISE,
    )
    found = of(scale)
    if 2 * found.unlikeness > plan.epsilon * _SET_ASIDE_OF_VOTES or math.expm1(found.unlikeness) > _SET_ASIDE_OF_VOTES:
        raise ConfigError(f"noise in shares is too coarse for epsilon {plan.epsilon:g}: raise epsilon")
    return found


def _enough(plan: NoisePlan, num_queries: int) -> float:
    """Twice a scale that keeps the plan's budget, if any that may be asked for does."""
    if not plan.delta:
        return LARGEST_NOISE
    # zCDP of rho = queries / scale**2 costs at most rho + 2 sqrt(rho ln(1/delta)), here within epsilon.
    log = math.log(1 / plan.delta)
    rho = (math.sqrt(log + plan.epsilon) - math.sqrt(log)) ** 2
    return min(max(2 * math.sqrt(num_queries / max(rho, 1e-300)), _LEAST_SEARCHED), LARGEST_NOISE)


def spent_on_sum(shares: VoteShares, votes: int, delta: float, may_collude: int) -> Spending:
    """Cost of a sum's labels for each silo, for all possible votes. ``votes``: as in ``shares_for``."""
    price = shares.price(delta)
    return Spending(
        whom=ALL_SILOS,
        unit=PrivacyUnit.SILO,
        epsilon=price.upper,
        delta=delta,
        accountant=price.accountant,
        noise=NoiseOnVotes("gaussian", shares.queries, shares.scale * votes, votes, shares.honest, may_collude),
    )


def noisiest(counts: VoteCounts, incumbent: HardLabels, rng: Generator) -> HardLabels:
    """Decide on counts that have their noise already: the class with most votes, and lots where several have.

    Adds none: what silos put into the sum is all there is. Every row has a label.
    """
    return largest(counts, SimulatedNoise(rng))
