"""Permute-and-flip: the classes in random order, and the first whose coin shows heads.

McKenna, Sheldon, "Permute-and-flip: a new mechanism for differentially private selection", NeurIPS 2020.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from dp_accounting import DpEvent
from numpy.typing import NDArray

from fedct_flwr.privacy.events import pure
from fedct_flwr.privacy.mechanisms.base import CountNoise, repeated, vote_counts
from fedct_flwr.privacy.randomness import Noise, bernoulli, chance_of_exp, uniform_below
from fedct_flwr.types import LABEL_DTYPE, HardLabels


@dataclass(frozen=True)
class PermuteAndFlip(CountNoise):
    """Releases a class with many votes: the first in random order whose coin shows heads, and the leader's always does.

    Takes vote counts ``(examples, classes)`` and releases hard labels ``(examples,)``. A class that is n votes behind
    shows heads with probability exp(-n / scale), as one coin for each vote. ``scale`` is in votes. ``votes_per_unit``:
    how many votes a unit casts on an example at most, for whatever classes. It is wrong no more often than ``Gumbel``
    of the same scale (Theorem 2 of the paper).

    Formal guarantees:
        Pure: ``2 votes_per_unit / scale``-DP **per example of the public set** for the unit (Theorem 1 of the paper,
        with counts that the unit changes by votes_per_unit each). It is not of that bounded range, so many releases
        compose as any pure mechanism does. The time it takes depends on the counts. Protects nobody from who sees the
        counts.
    """

    name: ClassVar[str] = "permute-and-flip"

    @property
    def gumbel_scale(self) -> float:
        """Half of it: for a gap of x scales between two classes, 1 / (1 + e^2x) is at most e^-x / 2."""
        return self.scale / 2

    def __call__(self, votes: NDArray[Any], noise: Noise) -> HardLabels:
        """Labels ``(examples,)``. Raises ConfigError for soft labels."""
        counts = vote_counts(votes, self.name)
        behind = counts.max(axis=1, keepdims=True) - counts
        order = _shuffled(counts.shape, noise)
        labels = np.empty(len(counts), dtype=LABEL_DTYPE)
        open_rows = np.arange(len(counts))
        for place in range(counts.shape[1]):
            candidate = order[open_rows, place]
            labels[open_rows] = candidate  # one whose coin shows tails gives way to the next
            open_rows = open_rows[~self._heads(behind[open_rows, candidate], noise)]
        return labels

    def event(self, num_queries: int) -> DpEvent:
        """A pure mechanism per example."""
        return repeated(pure(2 * self.votes_per_unit / self.scale), num_queries)

    def _heads(self, behind: NDArray[np.integer[Any]], noise: Noise) -> NDArray[np.bool_]:
        """True with probability exp(-behind / scale): a coin for each vote, and all of them must show heads."""
        shows = np.zeros(len(behind), dtype=np.bool_)
        rows, flipped = np.arange(len(behind)), 0
        while len(rows):
            done = behind[rows] == flipped
            shows[rows[done]] = True
            rows = rows[~done]
            rows = rows[bernoulli(noise, self._chance, len(rows))]
            flipped += 1
        return shows

    @cached_property
    def _chance(self) -> int:
        return chance_of_exp(-1 / self.scale)


def _shuffled(shape: tuple[int, ...], noise: Noise) -> NDArray[np.intp]:
    """The classes in a random order, for each example (Fisher, Yates)."""
    order = np.tile(np.arange(shape[1]), (shape[0], 1))
    rows = np.arange(shape[0])
    for last in range(shape[1] - 1, 0, -1):
        other = uniform_below(noise, last + 1, shape[0])
        order[rows, last], order[rows, other] = order[rows, other], order[rows, last].copy()
    return order
