"""k-ary randomized response: the label, or one of the others at random.

Warner, "Randomized response", JASA 1965; Kairouz, Oh, Viswanath, "Extremal mechanisms for local differential privacy",
JMLR 2016, who show it optimal for large epsilon.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from dp_accounting import DpEvent, RandomizedResponseDpEvent
from numpy.typing import NDArray

from fedct_flwr.privacy.budget import PrivacyUnit, check_epsilon
from fedct_flwr.privacy.mechanisms.base import refuse_soft, repeated
from fedct_flwr.privacy.randomness import ONE, Noise, bernoulli, chance_of_noise, uniform_below
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, ConfigError, HardLabels


@dataclass(frozen=True)
class RandomizedResponse:
    """Keeps each label with probability exp(epsilon) / (exp(epsilon) + C - 1); else one of the other C - 1 classes.

    ``epsilon`` is **per label**. Takes and releases hard labels ``(examples,)``. An abstention is released as a class
    drawn from all, or the fact that the silo abstained would leave unprotected.

    Formal guarantees:
        Pure: a release of n examples is ``n epsilon``-DP for its unit, whatever it changes in the labels, and so for a
        whole silo too. At the price of the XOR mechanism (epsilon = 2 theta per label) the labels are better.
    """

    num_classes: int
    epsilon: float
    unit: PrivacyUnit = PrivacyUnit.EXAMPLE

    def __post_init__(self) -> None:
        if self.num_classes < 2:
            raise ConfigError(f"num-classes of a mechanism is {self.num_classes}; set it to 2 or more")
        check_epsilon(self.epsilon, "randomized response's epsilon (per label)")

    def __call__(self, votes: NDArray[Any], noise: Noise) -> HardLabels:
        """Labels ``(examples,)``, without abstentions. Raises ConfigError for soft labels, ValueError for others."""
        votes = np.asarray(votes)
        refuse_soft(votes, "the mechanism randomized-response covers hard labels")
        if votes.ndim != 1 or (len(votes) and not (votes.min() >= ABSTAIN and votes.max() < self.num_classes)):
            raise ValueError(f"not one label of {ABSTAIN}..{self.num_classes - 1} for each example")
        labels = votes.astype(LABEL_DTYPE)
        abstains = np.flatnonzero(labels == ABSTAIN)
        labels[abstains] = uniform_below(noise, self.num_classes, len(abstains))
        changed = bernoulli(noise, self._change, len(labels))
        changed[abstains] = False
        where = np.flatnonzero(changed)
        step = 1 + uniform_below(noise, self.num_classes - 1, len(where))
        labels[where] = (labels[where] + step) % self.num_classes
        return labels

    def event(self, num_queries: int) -> DpEvent:
        """One randomized response per example."""
        # dp_accounting's parameter is the probability of a draw from all classes, the label among them.
        blind = self._change / ONE * self.num_classes / (self.num_classes - 1)
        return repeated(RandomizedResponseDpEvent(blind, self.num_classes), num_queries)

    @cached_property
    def _change(self) -> int:
        return chance_of_noise(self.epsilon, self.num_classes - 1)
