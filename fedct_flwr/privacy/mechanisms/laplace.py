"""Discrete Laplace noise on vote counts.

Ghosh, Roughgarden, Sundararajan, "Universally utility-maximizing privacy mechanisms", STOC 2009; on votes: Papernot et
al., "Semi-supervised knowledge transfer for deep learning from private training data" (PATE), ICLR 2017, §2.1; FedKT
(Li, He, Song, IJCAI 2021), Algorithm 1, with gamma = 1 / scale.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from dp_accounting import DpEvent
from dp_accounting.dp_event import DiscreteLaplaceDpEvent
from numpy.typing import NDArray

from fedct_flwr.privacy.mechanisms.base import CountNoise, repeated, vote_counts
from fedct_flwr.privacy.randomness import Noise


@dataclass(frozen=True)
class Laplace(CountNoise):
    """Adds to each count an integer x with probability proportional to exp(-|x| / scale), ``scale`` in votes.

    Takes vote counts ``(examples, classes)`` and releases counts, which may be negative. ``votes_per_unit``: how many
    votes a unit casts on an example at most. A record is in one of a partition's teachers: one. A party of FedKT-L1
    has the s of its students; at FedKT-L2 each of the s partitions is a release of its own.

    Formal guarantees:
        Pure: ``2 votes_per_unit / scale``-DP **per example of the public set** (and with the label that it decides)
        for the unit, which at most moves its votes from one class to another: an L1 distance of 2 votes_per_unit.
        A release of n examples is n times as much. Protects nobody from who sees the counts before the noise: at the
        server, it does not protect a silo from the server.

    Gumbel noise of the same scale is as good: for a gap of x scales between two classes, ``1 / (1 + e^x)`` against
    ``(2 + x) / (4 e^x)``.
    """

    name: ClassVar[str] = "laplace"

    def __call__(self, votes: NDArray[Any], noise: Noise) -> NDArray[np.int64]:
        """Counts ``(examples, classes)``. Raises ConfigError for soft labels, and without OpenDP."""
        counts = vote_counts(votes, self.name)
        return counts + noise.discrete_laplace(self.scale, counts.shape)

    def event(self, num_queries: int) -> DpEvent:
        """Discrete Laplace noise on a count that the unit changes by 2 votes_per_unit, per example."""
        return repeated(DiscreteLaplaceDpEvent(1 / self.scale, 2 * self.votes_per_unit), num_queries)
