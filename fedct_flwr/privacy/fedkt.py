"""What a FedKT run costs: the paper's epsilon, the tightest that we promise, and that of better noise, side by side.

Li, He, Song, "Practical one-shot federated learning for cross-silo setting" (FedKT), IJCAI 2021, §4. Whatever the votes
are: nothing here depends on data, so all of it may be published.

The paper's moments accountant (Theorems 2 to 6, after Papernot et al., PATE, ICLR 2017, Theorems 2 and 3) is there to
compare with its tables. What it gives is valid and loose: orders 1 to 8 only, and Laplace noise as if only its epsilon
were known. Left out: the paper's epsilon of FedKT-L1 for single examples (Theorem 8). It counts the students that one
record could change on the data at hand, which is a local sensitivity, and so is no differential privacy.
"""

import math
from typing import NamedTuple

import numpy as np

from fedct_flwr.privacy.accounting import Epsilon
from fedct_flwr.privacy.budget import check_epsilon
from fedct_flwr.privacy.calibration import epsilon_in_time
from fedct_flwr.privacy.mechanisms import CountNoise, Gumbel
from fedct_flwr.privacy.mechanisms.base import repeated
from fedct_flwr.types import ConfigError


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
    """Epsilon **in total** of ``num_queries`` examples, whatever the votes are.

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
