"""Mechanisms: each perturbs votes before they leave, and says what it protects and what it spends.

On vote counts: discrete Laplace, discrete Gaussian, and Gumbel noise, which is the exponential mechanism.
On votes: Papernot et al., "Semi-supervised knowledge transfer for deep learning from private training data" (PATE),
ICLR 2017, §2.1, and GNMax of "Scalable private learning with PATE", ICLR 2018, §4.1; FedKT (Li, He, Song, IJCAI 2021),
Algorithm 1, with gamma = 1 / scale. Noise: Ghosh, Roughgarden, Sundararajan, "Universally utility-maximizing privacy
mechanisms", STOC 2009; Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020;
McSherry, Talwar, "Mechanism design via differential privacy", FOCS 2007, whose composition is that of Dong, Durfee,
Rogers, "Optimal differential privacy composition for exponential mechanisms", ICML 2020.

On hard labels: the XOR mechanism on one-hot bits, and k-ary randomized response, which is better at its price.
Ji, Li, Yilmaz, Ayday, Ye, Sun, "Differentially private binary- and matrix-valued data query: an XOR mechanism", VLDB
2021, with diagonal Theta and all Lambda = 0; used by Abourayya et al., arXiv:2310.05696, §4, Corollary 1. Warner,
"Randomized response", JASA 1965; Kairouz, Oh, Viswanath, "Extremal mechanisms for local differential privacy", JMLR
2016, who show it optimal for large epsilon.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final, Protocol

import numpy as np
from dp_accounting import DpEvent, NoOpDpEvent, RandomizedResponseDpEvent, SelfComposedDpEvent
from dp_accounting.dp_event import DiscreteLaplaceDpEvent
from numpy.typing import NDArray

from fedct_flwr.privacy.budget import PrivacyUnit, check_epsilon
from fedct_flwr.privacy.events import BoundedRangeDpEvent, DiscreteGaussianDpEvent
from fedct_flwr.privacy.randomness import ONE, Noise, bernoulli, chance_of_exp, chance_of_noise, uniform_below
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, ConfigError, HardLabels, VoteCounts


class Mechanism(Protocol):
    """Perturbs votes before they leave. Implementations are frozen dataclasses.

    Fields are public; votes are sensitive, and arguments.
    """

    @property
    def unit(self) -> PrivacyUnit:
        """Whom it protects."""

    @abstractmethod
    def __call__(self, votes: NDArray[Any], noise: Noise) -> NDArray[Any]:
        """Add the noise: votes that may be released. Raises ConfigError for votes that it cannot protect."""

    @abstractmethod
    def event(self, num_queries: int) -> DpEvent:
        """Cost of releasing ``num_queries`` examples, per unit."""


@dataclass(frozen=True)
class CountNoise(Mechanism):
    """Noise on vote counts ``(examples, classes)``, of a ``scale`` in votes: noisy counts, or the labels they decide.

    ``votes_per_unit``: how many votes a unit casts on an example at most.
    """

    name: ClassVar[str]
    """Name in the settings."""

    scale: float
    votes_per_unit: int = 1
    unit: PrivacyUnit = PrivacyUnit.EXAMPLE

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise ConfigError(
                f"the scale of the mechanism {self.name} is {self.scale}; set it to a number of votes above 0"
            )
        if self.votes_per_unit < 1:
            raise ConfigError(
                f"votes-per-unit of the mechanism {self.name} is {self.votes_per_unit}; set it to 1 or more"
            )


def repeated(event: DpEvent, count: int) -> DpEvent:
    """The event ``count`` times; nothing for none. Raises ValueError for fewer."""
    if count < 0:
        raise ValueError(f"a release of {count} queries")
    return SelfComposedDpEvent(event, count) if count else NoOpDpEvent()


def largest(released: NDArray[Any], noise: Noise) -> HardLabels:
    """The class with the largest of the counts ``(examples, classes)``.

    A tie goes to any of its classes, not to the first: that would favor it.
    """
    lots = uniform_below(noise, 1 << 15, released.size).reshape(released.shape)
    best = np.where(released == released.max(axis=1, keepdims=True), lots, -1)
    return np.asarray(best.argmax(axis=1), dtype=LABEL_DTYPE)


def noisy_max(mechanism: Mechanism, counts: VoteCounts, noise: Noise) -> HardLabels:
    """The class of each example, ``(examples,)``: where no one voted, noise decides.

    ``counts`` ``(examples, classes)``; ``mechanism`` is one on vote counts, which releases counts or already labels.

    Formal guarantees:
        Whatever ``mechanism.event(examples)`` promises: the labels depend on the counts only through what it released,
        and on lots from the same source of noise. A tie goes to any of its classes, not to the first: that would
        favor it.
    """
    released = mechanism(counts, noise)
    if released.ndim == 1:
        return released.astype(LABEL_DTYPE)
    return largest(released, noise)


def vote_counts(votes: NDArray[Any], name: str) -> VoteCounts:
    """The votes, where they are counts ``(examples, classes)``. Raises ConfigError, or ValueError for others."""
    votes = np.asarray(votes)
    refuse_soft(votes, f"the mechanism {name} covers vote counts")
    if votes.ndim != 2 or votes.shape[1] < 2:
        raise ValueError(f"vote counts are (examples, classes), not {votes.shape}")
    if votes.size and votes.min() < 0:
        raise ValueError("a negative vote count")
    return votes


def refuse_soft(votes: NDArray[Any], what: str) -> None:
    """Raise ConfigError for votes that are no integers."""
    if not np.issubdtype(votes.dtype, np.integer):
        raise ConfigError(f"{what} and not probabilities; share hard labels, or choose no mechanism")


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


ON_COUNTS: Final[Mapping[str, type[CountNoise]]] = {kind.name: kind for kind in (Laplace, Gaussian, Gumbel)}
"""Noise on vote counts for the class that has most of them to be told (``noisy_max``)."""


@dataclass(frozen=True)
class Xor:
    """Flips each bit of the one-hot labels independently, with probability 1 / (1 + exp(theta)).

    ``theta`` is the epsilon **per bit**. Takes hard labels ``(examples,)``, where ABSTAIN is a row without a bit, and
    releases bits ``(examples, classes)``, 0 or 1, often none or several in a row. They are counted as they are: the
    first bit of a row says nothing.

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
        """Randomized labels ``(examples,)`` of hard labels ``votes`` ``(examples,)``; ABSTAIN becomes any class.

        Raises ConfigError for ``votes`` that are no integers, ValueError for another shape or for labels out of range.
        """
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


MECHANISMS: Final[Mapping[str, type[Mechanism]]] = {
    "xor": Xor,
    "randomized-response": RandomizedResponse,
    **ON_COUNTS,
}
