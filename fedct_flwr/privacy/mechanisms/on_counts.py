"""Noise on vote counts: discrete Laplace, discrete Gaussian, and Gumbel noise, which is the exponential mechanism.

On votes: Papernot et al., "Semi-supervised knowledge transfer for deep learning from private training data" (PATE),
ICLR 2017, §2.1, and GNMax of "Scalable private learning with PATE", ICLR 2018, §4.1; FedKT (Li, He, Song, IJCAI 2021),
Algorithm 1, with gamma = 1 / scale. Noise: Ghosh, Roughgarden, Sundararajan, "Universally utility-maximizing privacy
mechanisms", STOC 2009; Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020;
McSherry, Talwar, "Mechanism design via differential privacy", FOCS 2007, whose composition is that of Dong, Durfee,
Rogers, "Optimal differential privacy composition for exponential mechanisms", ICML 2020.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from dp_accounting import DpEvent
from dp_accounting.dp_event import DiscreteLaplaceDpEvent
from numpy.typing import NDArray

from fedct_flwr.privacy.events import BoundedRangeDpEvent, DiscreteGaussianDpEvent
from fedct_flwr.privacy.mechanisms.base import CountNoise, repeated, vote_counts
from fedct_flwr.privacy.randomness import Noise, bernoulli, chance_of_exp, uniform_below
from fedct_flwr.types import LABEL_DTYPE, HardLabels


@dataclass(frozen=True)
class Laplace(CountNoise):
    """Adds to each count an integer x with probability proportional to exp(-|x| / scale), ``scale`` in votes.

    Takes vote counts ``(examples, classes)`` and releases counts, which may be negative. ``votes_per_unit``: how many
    votes a unit casts on an example at most. A record is in one of a partition's teachers: one. A party of FedKT-L1
    has the s of its students; at FedKT-L2 each of the s partitions is a release of its own.

    Formal guarantees:
        Pure: ``2 votes_per_unit / scale``-DP **per example of the public set** (and with the label that it decides)
        for the unit, which at most moves its votes from one class to another: an L1 distance of 2 votes_per_unit.
        A release of n examples is n times as much. It does not protect from a reader of the counts before the noise:
        at the server, it does not protect a silo from the server.

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


@dataclass(frozen=True)
class Gaussian(CountNoise):
    """Adds to each count an integer x with probability proportional to exp(-x**2 / (2 scale**2)), ``scale`` in votes.

    Takes vote counts ``(examples, classes)`` and releases counts, which may be negative. ``votes_per_unit``: how many
    votes a unit casts on an example at most, **all for one class** (a teacher's one vote; FedKT's consistent voting).

    Formal guarantees:
        ``(votes_per_unit / scale)**2``-zCDP **per example of the public set** for the unit, which at most takes its
        votes from one class and gives them to another: two counts, each changed by votes_per_unit (Theorem 4 of
        Canonne et al.; there are an epsilon and a delta for every delta > 0, none for delta = 0). A release of n
        examples is n times as much zCDP. It does not protect from a reader of the counts before the noise.
    """

    name: ClassVar[str] = "gaussian"

    def __call__(self, votes: NDArray[Any], noise: Noise) -> NDArray[np.int64]:
        """Counts ``(examples, classes)``. Raises ConfigError for soft labels, and without OpenDP."""
        counts = vote_counts(votes, self.name)
        return counts + noise.discrete_gaussian(self.scale, counts.shape)

    def event(self, num_queries: int) -> DpEvent:
        """Discrete Gaussian noise on two counts that the unit changes by votes_per_unit each, per example."""
        return repeated(DiscreteGaussianDpEvent(self.scale, self.votes_per_unit), 2 * num_queries)


@dataclass(frozen=True)
class Gumbel(CountNoise):
    """Releases the class with the most votes after Gumbel noise: class c with probability ~ exp(count_c / scale).

    Takes vote counts ``(examples, classes)`` and releases hard labels ``(examples,)``; the counts stay. ``scale`` is in
    votes. ``votes_per_unit``: how many votes a unit casts on an example at most, for whatever classes.

    Sampled without Gumbel's logarithms, exactly: a class drawn from all is taken with probability
    exp(-(most - count) / scale), as one coin for each vote that it is behind, or else another is drawn.

    Formal guarantees:
        Pure: ``2 votes_per_unit / scale``-DP **per example of the public set** for the unit, as Laplace noise of that
        scale; it is of that *bounded range* too, so a series of releases costs far less: a range of eta is
        eta**2/8-zCDP (Cesar, Rogers, "Bounding, concentrating, and truncating", ALT 2021). The time it takes depends
        on the counts. It does not protect from a reader of the counts before the noise.
    """

    name: ClassVar[str] = "gumbel"

    def __call__(self, votes: NDArray[Any], noise: Noise) -> HardLabels:
        """Labels ``(examples,)``. Raises ConfigError for soft labels."""
        counts = vote_counts(votes, self.name)
        behind = counts.max(axis=1, keepdims=True) - counts
        labels = np.empty(len(counts), dtype=LABEL_DTYPE)
        open_rows = np.arange(len(counts))
        while len(open_rows):
            drawn = uniform_below(noise, counts.shape[1], len(open_rows))
            labels[open_rows] = drawn  # whatever is not taken is drawn again
            open_rows = open_rows[~self._taken(behind[open_rows, drawn], noise)]
        return labels

    def event(self, num_queries: int) -> DpEvent:
        """A choice of bounded range per example."""
        return repeated(BoundedRangeDpEvent(2 * self.votes_per_unit / self.scale), num_queries)

    def _taken(self, behind: NDArray[Any], noise: Noise) -> NDArray[np.bool_]:
        """True with probability exactly ``chance ** behind``: so the odds of two classes are right whatever leads."""
        lasts = np.arange(len(behind))
        taken: NDArray[np.bool_] = behind == 0
        lasts = lasts[~taken]
        vote = 0
        while len(lasts):
            lasts = lasts[bernoulli(noise, self._chance, len(lasts))]
            vote += 1
            done = behind[lasts] == vote
            taken[lasts[done]] = True
            lasts = lasts[~done]
        return taken

    @cached_property
    def _chance(self) -> int:
        return chance_of_exp(-1 / self.scale)
