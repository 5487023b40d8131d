"""Noise on hard labels: the XOR mechanism on one-hot bits, and k-ary randomized response, which is better at its price.

Ji, Li, Yilmaz, Ayday, Ye, Sun, "Differentially private binary- and matrix-valued data query: an XOR mechanism", VLDB
2021, with diagonal Theta and all Lambda = 0; used by Abourayya et al., arXiv:2310.05696, §4, Corollary 1. Warner,
"Randomized response", JASA 1965; Kairouz, Oh, Viswanath, "Extremal mechanisms for local differential privacy", JMLR
2016, who show it optimal for large epsilon.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from dp_accounting import DpEvent, RandomizedResponseDpEvent
from numpy.typing import NDArray

from fedct_flwr.privacy.budget import PrivacyUnit, check_epsilon
from fedct_flwr.privacy.mechanisms.base import refuse_soft, repeated
from fedct_flwr.privacy.randomness import ONE, Noise, bernoulli, chance_of_noise, uniform_below
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, ConfigError, HardLabels, VoteCounts


@dataclass(frozen=True)
class Xor:
    """Flips each bit of the one-hot labels independently, with probability 1 / (1 + exp(theta)).

    ``theta`` is the epsilon **per bit**. Takes hard labels ``(examples,)``, where ABSTAIN is a row without a bit, and
    releases bits ``(examples, classes)``, 0 or 1, often none or several in a row. They are counted as they are
    (``tally_bits``): the first bit of a row says nothing.

    Formal guarantees:
        Pure: a release of n examples is ``2 n theta``-DP for its unit, whatever it changes in the labels, since one
        changed label is two bits: 2|U|, not |U| as in a footnote of arXiv:2310.05696, §4. The paper's smaller
        sensitivity (Proposition 2) has no proof: stability on average bounds an expectation, and a sensitivity is a
        supremum. So ``event`` never uses one. Releases compose: 400 releases cost up to 400 times as much. As nothing
        is assumed of the labels, the guarantee holds for a whole silo as well. Bits that are flipped in correlation
        (the paper's Theta that is not diagonal) are left out: Corollary 1 fails for them.
    """

    num_classes: int
    theta: float
    unit: PrivacyUnit = PrivacyUnit.EXAMPLE

    def __post_init__(self) -> None:
        _check_classes(self.num_classes)
        check_epsilon(self.theta, "the XOR mechanism's theta (epsilon per bit)")

    def __call__(self, votes: NDArray[Any], noise: Noise) -> NDArray[np.uint8]:
        """Bits ``(examples, classes)``. Raises ConfigError for soft labels."""
        labels = _hard_labels(votes, self.num_classes, "xor")
        size = len(labels) * self.num_classes
        bits = bernoulli(noise, self._flip, size).view(np.uint8)
        voted = labels != ABSTAIN
        starts = np.arange(0, size, self.num_classes)
        bits[(starts + labels)[voted]] ^= np.uint8(1)
        return bits.reshape(-1, self.num_classes)

    def event(self, num_queries: int) -> DpEvent:
        """Two randomized bits per example: the worst case."""
        return repeated(RandomizedResponseDpEvent(2 * self._flip / ONE, 2), 2 * num_queries)

    @cached_property
    def _flip(self) -> int:
        return chance_of_noise(self.theta, 1)


def tally_bits(releases: Iterable[NDArray[np.uint8]]) -> VoteCounts:
    """Silos' released bits as vote counts ``(examples, classes)``: for each class, how many silos' bit is set.

    Raises ValueError for no release.

    >>> tally_bits([np.uint8([[1, 1], [0, 0]]), np.uint8([[0, 1], [0, 1]])])
    array([[1, 2],
           [0, 1]], dtype=int32)
    """
    counts: VoteCounts | None = None
    for bits in releases:
        counts = bits.astype(np.int32) if counts is None else counts + bits
    if counts is None:
        raise ValueError("no release to tally")
    return counts


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
        _check_classes(self.num_classes)
        check_epsilon(self.epsilon, "randomized response's epsilon (per label)")

    def __call__(self, votes: NDArray[Any], noise: Noise) -> HardLabels:
        """Labels ``(examples,)``, without abstentions. Raises ConfigError for soft labels, ValueError for others."""
        labels = _hard_labels(votes, self.num_classes, "randomized-response")
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


def _check_classes(num_classes: int) -> None:
    if num_classes < 2:
        raise ConfigError(f"num-classes of a mechanism is {num_classes}; set it to 2 or more")


def _hard_labels(votes: NDArray[Any], num_classes: int, name: str) -> HardLabels:
    """A copy of the votes, where they are a class or ABSTAIN for each example."""
    votes = np.asarray(votes)
    refuse_soft(votes, f"the mechanism {name} covers hard labels")
    if votes.ndim != 1 or (len(votes) and not (votes.min() >= ABSTAIN and votes.max() < num_classes)):
        raise ValueError(f"not one label of {ABSTAIN}..{num_classes - 1} for each example")
    return votes.astype(LABEL_DTYPE)
