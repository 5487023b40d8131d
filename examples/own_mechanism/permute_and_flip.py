"""A mechanism of your own, and a check of its draws."""

import math
from dataclasses import dataclass

import numpy as np

from fedct_flwr.privacy.accounting import epsilon
from fedct_flwr.privacy.events import pure
from fedct_flwr.privacy.mechanisms import CountNoise, repeated, vote_counts
from fedct_flwr.privacy.randomness import SecureNoise, bernoulli, chance_of_exp, uniform_below
from fedct_flwr.types import LABEL_DTYPE


@dataclass(frozen=True)
class PermuteAndFlip(CountNoise):
    """Releases a class ``(examples,)`` with many of the votes ``(examples, classes)``; ``scale`` is in votes.

    ``votes_per_unit``: how many votes a unit casts on an example at most.

    Formal guarantees:
        Pure: ``2 votes_per_unit / scale``-DP **per example of the public set** for the unit (Theorem 1 of the paper,
        with counts that the unit changes by votes_per_unit each). It does not protect from a reader of the counts.
    """

    name = "permute-and-flip"

    def __call__(self, votes, noise):
        """Labels. Raises ConfigError for soft labels."""
        counts = vote_counts(votes, self.name)
        behind = counts.max(axis=1, keepdims=True) - counts
        order = shuffled(counts.shape, noise)
        labels = np.empty(len(counts), dtype=LABEL_DTYPE)
        open_rows = np.arange(len(counts))
        for place in range(counts.shape[1]):
            candidate = order[open_rows, place]
            labels[open_rows] = candidate  # whatever is not taken gives way to the next
            open_rows = open_rows[~self.heads(behind[open_rows, candidate], noise)]
        return labels

    def event(self, num_queries):
        """A pure mechanism per example."""
        return repeated(pure(2 * self.votes_per_unit / self.scale), num_queries)

    def heads(self, behind, noise):
        """True with probability exp(-behind / scale): a coin for each vote, and all of them must show heads."""
        shows = np.zeros(len(behind), dtype=bool)
        rows, flipped = np.arange(len(behind)), 0
        while len(rows):
            done = behind[rows] == flipped
            shows[rows[done]] = True
            rows = rows[~done]
            rows = rows[bernoulli(noise, chance_of_exp(-1 / self.scale), len(rows))]
            flipped += 1
        return shows


def shuffled(shape, noise):
    """The classes in a random order, for each example (Fisher, Yates)."""
    order = np.tile(np.arange(shape[1]), (shape[0], 1))
    rows = np.arange(shape[0])
    for last in range(shape[1] - 1, 0, -1):
        other = uniform_below(noise, last + 1, shape[0])
        order[rows, last], order[rows, other] = order[rows, other], order[rows, last].copy()
    return order


mechanism = PermuteAndFlip(scale=2.0)
drawn = mechanism(np.tile(np.int32([3, 1]), (50_000, 1)), SecureNoise())
behind = math.exp(-1.0)  # the chance of heads for a class that is two votes behind
if abs((drawn == 1).mean() - behind / 2) > 0.015:
    raise SystemExit("the draws are not those of the mechanism")
print(f"claimed epsilon {epsilon(mechanism.event(1), delta=0.0).upper:.3f}")
