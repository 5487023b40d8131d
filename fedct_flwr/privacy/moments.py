"""FedKT's moments accountant, to compare with its tables: our own epsilons come from ``accounting``.

Li, He, Song, "Practical one-shot federated learning for cross-silo setting" (FedKT), IJCAI 2021, Theorems 2 to 6,
after Papernot et al. (PATE), ICLR 2017, Theorems 2 and 3. What it gives whatever the votes are is valid and loose:
orders 1 to 8 only, and Laplace noise as if only its epsilon were known.
"""

import math

import numpy as np

from fedct_flwr.privacy.budget import check_epsilon
from fedct_flwr.types import ConfigError


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
