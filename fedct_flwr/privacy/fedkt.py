"""What a FedKT run costs: the paper's epsilon, the tightest that we promise, and that of better noise, side by side.

Li, He, Song, "Practical one-shot federated learning for cross-silo setting" (FedKT), IJCAI 2021, §4. Whatever the votes
are: nothing here depends on data, so all of it may be published. (``moments.fedkt_epsilon_of_votes`` depends on them.)

Left out: the paper's epsilon of FedKT-L1 for single examples (Theorem 8). It counts the students that one record could
change on the data at hand, which is a local sensitivity, and so is no differential privacy.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from fedct_flwr.privacy.accounting import Epsilon
from fedct_flwr.privacy.budget import PrivacyUnit, check_epsilon
from fedct_flwr.privacy.calibration import epsilon_in_time
from fedct_flwr.privacy.mechanisms import Gaussian, Gumbel, Laplace
from fedct_flwr.privacy.mechanisms.base import repeated
from fedct_flwr.privacy.moments import fedkt_epsilon

Level: TypeAlias = Literal["L1", "L2"]
"""L1: noise at the coordinator, for silos and not against the coordinator. L2: noise at the silo, for its examples."""

NoiseKind: TypeAlias = Literal["laplace", "gumbel", "gaussian"]

_KINDS: Final[Mapping[NoiseKind, type[Laplace | Gumbel | Gaussian]]] = {
    "laplace": Laplace,
    "gumbel": Gumbel,
    "gaussian": Gaussian,
}


@dataclass(frozen=True)
class FedktPrice:
    """Epsilons **in total** at ``delta``, per ``unit``; see ``fedkt_price``."""

    unit: PrivacyUnit
    delta: float
    paper: float | None
    """By the paper's moments accountant, which knows of the noise only that it is 2 gamma-DP; None for Gaussian."""
    tightest: Epsilon
    """Of the same release, by our accountants."""
    gumbel: Epsilon
    """With Gumbel noise that is as good for the labels in the place of the noise that there is."""

    def __str__(self) -> str:
        """One sentence."""
        paper = "" if self.paper is None else f"{self.paper:.2f} by the paper's accountant, "
        return (
            f"epsilon is {paper}{self.tightest.upper:.2f} by ours, and would be {self.gumbel.upper:.2f} with Gumbel "
            f"noise that is as good (in total, per {self.unit}, at delta {self.delta:g})"
        )


def fedkt_mechanism(
    gamma: float, *, level: Level, partitions: int = 1, noise: NoiseKind = "laplace"
) -> Laplace | Gumbel | Gaussian:
    """The noise of scale 1 / ``gamma``, in votes, that makes one label. Raises ConfigError for impossible numbers.

    At L1 a silo has the votes of its ``partitions`` (s) students; at L2 an example has one in each partition.
    """
    check_epsilon(gamma, "FedKT's gamma")
    kind = _KINDS[noise]
    return kind(1 / gamma, partitions, PrivacyUnit.SILO) if level == "L1" else kind(1 / gamma)


def fedkt_price(
    gamma: float,
    num_queries: int,
    *,
    level: Level,
    partitions: int = 1,
    noise: NoiseKind = "laplace",
    delta: float = 1e-5,
) -> FedktPrice:
    """What ``num_queries`` labels cost, with noise of scale 1 / ``gamma``. Raises ConfigError for impossible numbers.

    ``num_queries`` are those to the noisy votes: at L1 to the coordinator's, at L2 to the teachers' of each silo, which
    cost a silo's example what they cost at that silo alone (parallel composition, Theorem 4).

    FedKT-L2 on cod-rna, one percent of the queries (Table 9):

    >>> price = fedkt_price(0.04, 148, level="L2")
    >>> [round(epsilon, 2) for epsilon in (price.paper, price.tightest.upper, price.gumbel.upper)]
    [5.14, 4.15, 2.1]
    """
    mechanism = fedkt_mechanism(gamma, level=level, partitions=partitions, noise=noise)
    return price_of(mechanism, num_queries, times=partitions if level == "L2" else 1, delta=delta)


def price_of(
    mechanism: Laplace | Gumbel | Gaussian, num_queries: int, *, times: int = 1, delta: float = 1e-5
) -> FedktPrice:
    """What ``num_queries`` labels cost with this noise, each drawn so many ``times``: at L2 once for each partition.

    Gumbel noise of the same scale as Laplace noise gives the wrong one of two classes no more often, whatever the gap:
    ``1 / (1 + e^x)`` against ``(2 + x) / (4 e^x)`` for a gap of x = gamma votes. For Gaussian noise it is that of the
    same standard deviation. Raises ConfigError for impossible numbers.
    """
    paper = None
    as_good = mechanism.scale
    if isinstance(mechanism, Gaussian):
        as_good *= math.sqrt(6) / math.pi
    elif delta > 0:
        votes, queries = mechanism.votes_per_unit, num_queries * times
        paper = fedkt_epsilon(1 / mechanism.scale, queries, delta=delta, partitions=votes)
    tightest, gumbel = (
        epsilon_in_time(repeated(noise.event(num_queries), times), delta)
        for noise in (mechanism, Gumbel(as_good, mechanism.votes_per_unit, mechanism.unit))
    )
    return FedktPrice(mechanism.unit, delta, paper, tightest, gumbel)


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
