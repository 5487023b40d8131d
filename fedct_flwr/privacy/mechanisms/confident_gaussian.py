"""Confident GNMax: answers only where many votes agree, told by a noisy threshold, and then by the noisy maximum.

Papernot, Song, Mironov, Raghunathan, Talwar, Erlingsson, "Scalable private learning with PATE", ICLR 2018, Algorithm 1;
with discrete Gaussian noise (Canonne, Kamath, Steinke, NeurIPS 2020) in place of the continuous one.
"""

import math
from dataclasses import dataclass
from typing import Any

from dp_accounting import DpEvent
from numpy.typing import NDArray

from fedct_flwr.privacy.budget import PrivacyUnit
from fedct_flwr.privacy.events import DiscreteGaussianDpEvent, composed
from fedct_flwr.privacy.mechanisms.base import check_scale, largest, repeated, vote_counts
from fedct_flwr.privacy.randomness import Noise
from fedct_flwr.types import ABSTAIN, ConfigError, HardLabels


@dataclass(frozen=True)
class ConfidentGaussian:
    """Releases the class with the most votes after noise, where the most votes with noise of their own are enough.

    Takes vote counts ``(examples, classes)`` and releases hard labels ``(examples,)``, ABSTAIN where the largest count
    with its noise is below ``threshold`` (in votes). That noise has ``check_ratio`` times the ``scale`` of the noise on
    the counts, as it need not be right as often; in the paper, with hundreds of teachers, 3.75 to 5 times.
    ``votes_per_unit``: how many votes a unit casts on an example at most, **all for one class**.

    Formal guarantees:
        ``(votes_per_unit / scale)**2 * (1 + 1 / (2 check_ratio**2))``-zCDP **per example of the public set** for the
        unit, answered or not: the check is one Gaussian mechanism on the largest count, which a unit changes by at most
        votes_per_unit, the answer one on two counts that it changes. The bound does not depend on the votes, so it
        charges for answers that are kept back: how many were given depends on the votes. Protects nobody from who sees
        the counts before the noise.
    """

    scale: float
    threshold: float = 0.0
    votes_per_unit: int = 1
    check_ratio: float = 2.0
    unit: PrivacyUnit = PrivacyUnit.EXAMPLE

    def __post_init__(self) -> None:
        check_scale(self.scale, self.votes_per_unit, "confident-gaussian")
        if not (math.isfinite(self.check_ratio) and self.check_ratio > 0):
            raise ConfigError(
                f"the check-ratio of the mechanism confident-gaussian is {self.check_ratio}; set it to a number above 0"
            )

    def __call__(self, votes: NDArray[Any], noise: Noise) -> HardLabels:
        """Labels ``(examples,)`` or ABSTAIN. Raises ConfigError for soft labels, and without OpenDP."""
        counts = vote_counts(votes, "confident-gaussian")
        checked = counts.max(axis=1) + noise.discrete_gaussian(self.check_ratio * self.scale, counts.shape[:1])
        labels = largest(counts + noise.discrete_gaussian(self.scale, counts.shape), noise)
        labels[checked < self.threshold] = ABSTAIN
        return labels

    def event(self, num_queries: int) -> DpEvent:
        """The check and the answer of every example: Gaussian noise on one count, and on two."""
        check = DiscreteGaussianDpEvent(self.check_ratio * self.scale, self.votes_per_unit)
        answer = DiscreteGaussianDpEvent(self.scale, self.votes_per_unit)
        return composed(repeated(check, num_queries), repeated(answer, 2 * num_queries))
