"""Report noisy max with Gumbel noise on vote counts, which is the exponential mechanism.

McSherry, Talwar, "Mechanism design via differential privacy", FOCS 2007; its composition: Dong, Durfee, Rogers,
"Optimal differential privacy composition for exponential mechanisms", ICML 2020.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from dp_accounting import DpEvent
from numpy.typing import NDArray

from fedct_flwr.privacy.events import BoundedRangeDpEvent
from fedct_flwr.privacy.mechanisms.base import CountNoise, repeated, vote_counts
from fedct_flwr.privacy.randomness import Noise, bernoulli, chance_of_exp, uniform_below
from fedct_flwr.types import LABEL_DTYPE, HardLabels


@dataclass(frozen=True)
class Gumbel(CountNoise):
    """Releases the class with the most votes after Gumbel noise: class c with probability ~ exp(count_c / scale).

    Takes vote counts ``(examples, classes)`` and releases hard labels ``(examples,)``; the counts stay. ``scale`` is in
    votes. ``votes_per_unit``: how many votes a unit casts on an example at most, for whatever classes.

    Sampled without Gumbel's logarithms, exactly: a class drawn from all is taken with probability
    exp(-(most - count) / scale), as one coin for each vote that it is behind, or else another is drawn.

    Formal guarantees:
        Pure: ``2 votes_per_unit / scale``-DP **per example of the public set** for the unit, as Laplace noise of that
        scale; it is of that *bounded range* too, so many releases cost far less: a range of eta is
        eta**2/8-zCDP (Cesar, Rogers, "Bounding, concentrating, and truncating", ALT 2021). The time it takes depends
        on the counts. Protects nobody from who sees the counts before the noise.
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
