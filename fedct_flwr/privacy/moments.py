"""FedKT's moments accountant, to compare with its tables: our own epsilons come from ``accounting``.

Li, He, Song, "Practical one-shot federated learning for cross-silo setting" (FedKT), IJCAI 2021, Theorems 2 to 6,
after Papernot et al. (PATE), ICLR 2017, Theorems 2 and 3. What it gives whatever the votes are is valid and loose:
orders 1 to 8 only, and Laplace noise as if only its epsilon were known.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    order = _checked_orders(gamma, delta, partitions, orders)
    return _least(num_queries * _independent(gamma * partitions, order), order, delta)


def fedkt_epsilon_of_votes(
    gamma: float, votes: NDArray[Any], *, delta: float = 1e-5, partitions: int = 1, orders: int = 8
) -> float:
    """Epsilon **in total** for these counts ``(examples, classes)``: less where the votes agree.

    **No formal guarantee for who publishes it**: it depends on the votes and is as private as they are. Show it to the
    silo only. Raises ConfigError.
    """
    order = _checked_orders(gamma, delta, partitions, orders)
    strength = gamma * partitions
    counts = np.sort(np.asarray(votes, dtype=np.float64), axis=1)
    gaps = gamma * (counts[:, -1:] - counts[:, :-1])
    wrong = ((2 + gaps) / (4 * np.exp(gaps))).sum(axis=1, keepdims=True)  # P(another class wins), at most
    moments = np.broadcast_to(_independent(strength, order), (len(counts), len(order))).copy()
    likely = wrong[:, 0] < 1 / (math.exp(2 * strength) + 1)
    q = wrong[likely]
    right = (1 - q) * ((1 - q) / (1 - math.exp(2 * strength) * q)) ** order
    moments[likely] = np.minimum(moments[likely], np.log(right + q * np.exp(2 * strength * order)))
    return _least(moments.sum(axis=0), order, delta)


def _independent(strength: float, order: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.minimum(2 * strength**2 * order * (order + 1), 2 * strength * order)


def _least(moments: NDArray[np.float64], order: NDArray[np.float64], delta: float) -> float:
    return float(((moments + math.log(1 / delta)) / order).min())


def _checked_orders(gamma: float, delta: float, partitions: int, orders: int) -> NDArray[np.float64]:
    check_epsilon(gamma, "FedKT's gamma")
    if not 0 < delta < 1 or partitions < 1 or orders < 1:
        raise ConfigError(
            f"the moments accountant needs 0 < delta < 1, a partition and an order, not {delta}, {partitions}, {orders}"
        )
    return np.arange(1.0, orders + 1)
