"""Discrete Gaussian noise on vote counts.

Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020; on votes: GNMax of Papernot et
al., "Scalable private learning with PATE", ICLR 2018, §4.1.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from dp_accounting import DpEvent
from numpy.typing import NDArray

from fedct_flwr.privacy.events import DiscreteGaussianDpEvent
from fedct_flwr.privacy.mechanisms.base import CountNoise, repeated, vote_counts
from fedct_flwr.privacy.randomness import Noise


@dataclass(frozen=True)
class Gaussian(CountNoise):
    """Adds to each count an integer x with probability proportional to exp(-x**2 / (2 scale**2)), ``scale`` in votes.

    Takes vote counts ``(examples, classes)`` and releases counts, which may be negative. ``votes_per_unit``: how many
    votes a unit casts on an example at most, **all for one class** (a teacher's one vote; FedKT's consistent voting).

    Formal guarantees:
        ``(votes_per_unit / scale)**2``-zCDP **per example of the public set** for the unit, which at most takes its
        votes from one class and gives them to another: two counts, each changed by votes_per_unit (Theorem 4 of the
        paper; there are an epsilon and a delta for every delta > 0, none for delta = 0). A release of n examples is n
        times as much zCDP. Protects nobody from who sees the counts before the noise.
    """

    name: ClassVar[str] = "gaussian"
    pure: ClassVar[bool] = False

    @property
    def gumbel_scale(self) -> float:
        """That of the same standard deviation."""
        return self.scale * (math.sqrt(6) / math.pi)

    def __call__(self, votes: NDArray[Any], noise: Noise) -> NDArray[np.int64]:
        """Counts ``(examples, classes)``. Raises ConfigError for soft labels, and without OpenDP."""
        counts = vote_counts(votes, self.name)
        return counts + noise.discrete_gaussian(self.scale, counts.shape)

    def event(self, num_queries: int) -> DpEvent:
        """Discrete Gaussian noise on two counts that the unit changes by votes_per_unit each, per example."""
        return repeated(DiscreteGaussianDpEvent(self.scale, self.votes_per_unit), 2 * num_queries)
