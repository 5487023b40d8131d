"""Discrete Laplace noise on vote counts.

Ghosh, Roughgarden, Sundararajan, "Universally utility-maximizing privacy mechanisms", STOC 2009; on votes: Papernot et
al., "Semi-supervised knowledge transfer for deep learning from private training data" (PATE), ICLR 2017, §2.1; FedKT
(Li, He, Song, IJCAI 2021), Algorithm 1, with gamma = 1 / scale.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from dp_accounting import DpEvent
from dp_accounting.dp_event import DiscreteLaplaceDpEvent
from numpy.typing import NDArray

from fedct_flwr.privacy.budget import PrivacyUnit
from fedct_flwr.privacy.mechanisms.base import check_scale, repeated, vote_counts
from fedct_flwr.privacy.randomness import Noise


@dataclass(frozen=True)
class Laplace:
    """Adds to each count an integer x with probability proportional to exp(-|x| / scale), ``scale`` in votes.

    Takes vote counts ``(examples, classes)`` and releases counts, which may be negative. ``votes_per_unit``: how many
    votes a unit casts on an example at most. A record is in one of a partition's teachers: one. A party of FedKT-L1
    has the s of its students; at FedKT-L2 each of the s partitions is a release of its own.

    Formal guarantees:
        Pure: ``2 votes_per_unit / scale``-DP **per example of the public set** (and with the label that it decides)
        for the unit, which at most moves its votes from one class to another: an L1 distance of 2 votes_per_unit.
        A release of n examples is n times as much. Protects nobody from who sees the counts before the noise: at the
        server, it does not protect a silo from the server.
    """

    scale: float
    votes_per_unit: int = 1
    unit: PrivacyUnit = PrivacyUnit.EXAMPLE

    def __post_init__(self) -> None:
        check_scale(self.scale, self.votes_per_unit, "laplace")

    def __call__(self, votes: NDArray[Any], noise: Noise) -> NDArray[np.int64]:
        """Counts ``(examples, classes)``. Raises ConfigError for soft labels, and without OpenDP."""
        counts = vote_counts(votes, "laplace")
        return counts + noise.discrete_laplace(self.scale, counts.shape)

    def event(self, num_queries: int) -> DpEvent:
        """Discrete Laplace noise on a count that the unit changes by 2 votes_per_unit, per example."""
        return repeated(DiscreteLaplaceDpEvent(1 / self.scale, 2 * self.votes_per_unit), num_queries)
