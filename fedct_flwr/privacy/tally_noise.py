"""Noise on the tally at the coordinator: which mechanism, how much of it, and what it costs; and what silos' costs."""

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.random import Generator

from fedct_flwr.config.privacy import NoisePlan
from fedct_flwr.consensus.counting import Decide
from fedct_flwr.privacy.accounting import SLOW_QUERIES, Epsilon, calibrate, epsilon_in_time
from fedct_flwr.privacy.budget import ALL_SILOS, NoiseOnVotes, PrivacyUnit, Spending, check_epsilon
from fedct_flwr.privacy.mechanisms import ON_COUNTS, CountNoise, Gumbel, Mechanism
from fedct_flwr.privacy.mechanisms.base import noisy_max, repeated
from fedct_flwr.privacy.randomness import Noise, SecureNoise, SimulatedNoise
from fedct_flwr.types import ConfigError, HardLabels, VoteCounts


class FedktPrice(NamedTuple):
    """Epsilons **in total**, per unit of the mechanism."""

    paper: float | None
    """By the paper's moments accountant, which knows of the noise only that it is 2 gamma-DP; None if it is not."""
    tightest: Epsilon
    """Of the same release, by our accountants."""
    gumbel: Epsilon
    """With Gumbel noise that is as good for the labels in the place of the noise that there is."""


def price_of(mechanism: CountNoise, num_queries: int, *, times: int = 1, delta: float = 1e-5) -> FedktPrice:
    """What ``num_queries`` labels cost with this noise, each drawn ``times`` times: at L2 once for each partition.

    ``num_queries`` are those to the noisy votes: at L1 to the coordinator's, where a silo has the votes of its
    partitions' students; at L2 to the teachers' of each silo, of whom an example has one in each partition, and which
    cost it what they cost at its silo alone (parallel composition, Theorem 4). The paper's gamma is 1 / scale. Raises
    ConfigError for impossible numbers.

    FedKT-L2 on cod-rna, one percent of the queries (Table 9):

    >>> from fedct_flwr.privacy.mechanisms import Laplace
    >>> price = price_of(Laplace(1 / 0.04), 148)
    >>> [round(epsilon, 2) for epsilon in (price.paper, price.tightest.upper, price.gumbel.upper)]
    [5.14, 4.15, 2.1]
    """
    votes, paper = mechanism.votes_per_unit, None
    if mechanism.pure and delta > 0:
        paper = fedkt_epsilon(1 / mechanism.scale, num_queries * times, delta=delta, partitions=votes)
    tightest, gumbel = (
        epsilon_in_time(repeated(noise.event(num_queries), times), delta)
        for noise in (mechanism, Gumbel(mechanism.gumbel_scale, votes, mechanism.unit))
    )
    return FedktPrice(paper, tightest, gumbel)


def fedkt_epsilon(
    gamma: float, num_queries: int, *, delta: float = 1e-5, partitions: int = 1, orders: int = 8
) -> float:
    """Epsilon **in total** of ``num_queries`` examples by FedKT's own moments accountant, whatever the votes are.

    Li, He, Song, IJCAI 2021, Theorems 2 to 6 (after Papernot et al., PATE, ICLR 2017, Theorems 2 and 3), for comparison
    with its tables. It is valid and loose: orders 1 to 8 only, and Laplace noise as if only its epsilon were known.
    Left out: Theorem 8 (FedKT-L1 for single examples). It counts the students that one record could change on the data
    at hand, which is a local sensitivity, and so is no differential privacy.

    Laplace noise of scale 1 / ``gamma`` on the counts of votes, of which a unit has ``partitions`` (s): a party at
    FedKT-L1, with s = 1 an example at FedKT-L2. ``orders`` is how many moments are tried. Raises ConfigError.

    >>> round(fedkt_epsilon(0.04, 148), 3), round(fedkt_epsilon(0.04, 74), 3)
    (5.144, 3.539)
    """
    check_epsilon(gamma, "FedKT's gamma")
    if not 0 < delta < 1 or partitions < 1 or orders < 1:
        raise ConfigError(
            f"the moments accountant needs 0 < delta < 1, a partition and an order, not {delta}, {partitions}, {orders}"
        )
    order, strength = np.arange(1.0, orders + 1), gamma * partitions
    moments = num_queries * np.minimum(2 * strength**2 * order * (order + 1), 2 * strength * order)
    return float(((moments + math.log(1 / delta)) / order).min())


def dear_partitions(level: str, partitions: int, gamma: float = 0.0) -> str | None:
    """What is wrong with several partitions at L1, or None: a silo has a vote for each of them to hide.

    ``gamma`` is 0 where it is not known yet.
    """
    if level != "L1" or partitions < 2:
        return None
    known = f" = {2 * partitions * gamma:g}" if gamma else ""
    return (
        f"with {partitions} partitions at FedKT-L1 each query costs 2 * {partitions} * gamma{known}, "
        f"{partitions} times what it costs with one: set partitions to 1"
    )


_LEAST_SCALE: Final = 0.05


def tally_mechanism(plan: NoisePlan, votes: int, num_queries: int) -> CountNoise:
    """The mechanism of this plan, for silos with ``votes`` votes each, that keeps the plan's epsilon and delta.

    With a ``gamma`` its scale is 1 / gamma, whatever that costs. Raises ConfigError where no noise keeps the budget.
    """

    def of(scale: float) -> CountNoise:
        return ON_COUNTS[plan.mechanism](scale, votes_per_unit=votes, unit=PrivacyUnit.SILO)

    if plan.gamma:
        return of(1 / plan.gamma)
    highest = 100 * votes * num_queries / plan.epsilon
    scale = calibrate(
        lambda scale: of(scale).event(num_queries),
        plan.epsilon,
        plan.delta,
        min(_LEAST_SCALE, highest),
        highest,
        quick=num_queries > SLOW_QUERIES,
    )
    return of(scale)


def noisy(mechanism: Mechanism, make_noise: Callable[[Generator], Noise]) -> Decide:
    """Decide on counts after noise: the class that then has most votes.

    Every row goes through the mechanism, also one without any vote: to abstain there would tell, without noise, that
    there was none. So nothing is ABSTAIN.

    Formal guarantees:
        For each silo as a whole, all its votes replaced by whatever else: the labels together cost what the mechanism's
        event says of all examples asked about, if the silo has at most ``votes_per_unit`` votes on each, all for one
        class (consistent voting counts no others). Which silos answered is public. It protects from who sees the
        labels, **not from the coordinator**, who sees the votes; and the coordinator's own round log (how far silos
        agree with the labels) is not covered, so it must stay there. Holds with ``SecureNoise`` only.
    """

    def decide(counts: VoteCounts, incumbent: HardLabels, rng: Generator) -> HardLabels:
        return noisy_max(mechanism, counts, make_noise(rng))

    return decide


def noise_for(*, real: bool) -> Callable[[Generator], Noise]:
    """Noise that protects real silos, or for simulated ones noise of the run's seed, which protects no one."""
    return (lambda rng: SecureNoise()) if real else SimulatedNoise


def spent_by(mechanism: CountNoise, num_queries: int, delta: float, *, partitions: int = 1) -> Spending:
    """What the labels of ``num_queries`` examples cost a unit.

    ``partitions``: how many times a silo goes through the mechanism for each example, at L2. Epsilon is the least that
    our accountants can promise for this mechanism whatever the votes are.
    """
    price = price_of(mechanism, num_queries, times=partitions, delta=delta)
    return Spending(
        whom=ALL_SILOS,
        unit=mechanism.unit,
        epsilon=price.tightest.upper,
        delta=delta,
        accountant=price.tightest.accountant,
        noise=NoiseOnVotes(mechanism.name, num_queries, mechanism.scale, price.gumbel.upper, price.paper),
    )
