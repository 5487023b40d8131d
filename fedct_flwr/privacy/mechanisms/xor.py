"""The XOR mechanism on one-hot labels, in the independent case.

Ji, Li, Yilmaz, Ayday, Ye, Sun, "Differentially private binary- and matrix-valued data query: an XOR mechanism", VLDB
2021, with diagonal Theta and all Lambda = 0; used by Abourayya et al., arXiv:2310.05696, §4, Corollary 1.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from dp_accounting import DpEvent, RandomizedResponseDpEvent
from numpy.typing import NDArray

from fedct_flwr.privacy.budget import PrivacyUnit, check_epsilon
from fedct_flwr.privacy.mechanisms.base import check_classes, hard_labels, repeated
from fedct_flwr.privacy.randomness import ONE, Noise, bernoulli, chance_of_noise
from fedct_flwr.privacy.sensitivity import Sensitivity
from fedct_flwr.types import ABSTAIN, VoteCounts


@dataclass(frozen=True)
class Xor:
    """Flips each bit of the one-hot labels independently, with probability 1 / (1 + exp(theta)).

    ``theta`` is the epsilon **per bit**. Takes hard labels ``(examples,)``, where ABSTAIN is a row without a bit, and
    releases bits ``(examples, classes)``, 0 or 1, often none or several in a row. They are counted as they are
    (``tally_bits``): the first bit of a row says nothing.

    Formal guarantees:
        Pure: a release of n examples is ``2 n theta``-DP for its unit, whatever it changes in the labels, since one
        changed label is two bits. A smaller sensitivity would have to be proven, and the paper's is not
        (``fedct_flwr.privacy.sensitivity``), so ``event`` never uses one. Releases compose: 400 releases cost up to
        400 times as much. As nothing is assumed of the labels, the guarantee holds for a whole silo as well. Bits that
        are flipped in correlation (the paper's Theta that is not diagonal) are left out: Corollary 1 fails for them.
    """

    num_classes: int
    theta: float
    unit: PrivacyUnit = PrivacyUnit.EXAMPLE

    def __post_init__(self) -> None:
        check_classes(self.num_classes)
        check_epsilon(self.theta, "the XOR mechanism's theta (epsilon per bit)")

    @classmethod
    def for_release(cls, num_classes: int, epsilon: float, sensitivity: Sensitivity) -> Self:
        """Noise for ``epsilon`` per release, if no more bits change than ``sensitivity`` says.

        This is the paper's setting: theta = epsilon / s. Only if the sensitivity is formal is ``epsilon`` what a
        release costs; ``statement`` says which.
        """
        check_epsilon(epsilon, "the XOR mechanism's epsilon (per release)")
        return cls(num_classes, epsilon / max(1, sensitivity.bits))

    def __call__(self, votes: NDArray[Any], noise: Noise) -> NDArray[np.uint8]:
        """Bits ``(examples, classes)``. Raises ConfigError for soft labels."""
        labels = hard_labels(votes, self.num_classes, "xor")
        size = len(labels) * self.num_classes
        bits = bernoulli(noise, self._flip, size).view(np.uint8)
        voted = labels != ABSTAIN
        starts = np.arange(0, size, self.num_classes)
        bits[(starts + labels)[voted]] ^= np.uint8(1)
        return bits.reshape(-1, self.num_classes)

    def event(self, num_queries: int) -> DpEvent:
        """Two randomized bits per example: the worst case, whatever sensitivity theta was chosen for."""
        return repeated(RandomizedResponseDpEvent(2 * self._flip / ONE, 2), 2 * num_queries)

    def statement(self, num_queries: int, sensitivity: Sensitivity) -> str:
        """One sentence on what a release of ``num_queries`` examples costs, and what of it is not guaranteed."""
        price = f"a release of {num_queries} labels costs epsilon {2 * num_queries * self.theta:.4g} per {self.unit}"
        if sensitivity.formal:
            return price
        return f"{price}; epsilon {sensitivity.bits * self.theta:.4g} has {sensitivity.reservation}"

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
