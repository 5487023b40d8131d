"""What a mechanism is, and which votes it takes."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from dp_accounting import DpEvent, NoOpDpEvent, SelfComposedDpEvent
from numpy.typing import NDArray

from fedct_flwr.privacy.budget import PrivacyUnit
from fedct_flwr.privacy.randomness import Noise, uniform_below
from fedct_flwr.types import LABEL_DTYPE, ConfigError, HardLabels, VoteCounts


class Mechanism(Protocol):
    """Perturbs votes before they leave. Implementations are frozen dataclasses.

    Fields are public; votes are sensitive, and arguments.
    """

    @property
    def unit(self) -> PrivacyUnit:
        """Whom it protects."""

    @abstractmethod
    def __call__(self, votes: NDArray[Any], noise: Noise) -> NDArray[Any]:
        """The votes as they may be released. Raises ConfigError for votes that it does not cover."""

    @abstractmethod
    def event(self, num_queries: int) -> DpEvent:
        """What the release of ``num_queries`` examples spends, per unit."""


@dataclass(frozen=True)
class CountNoise(Mechanism):
    """Noise on vote counts ``(examples, classes)``, of a ``scale`` in votes: noisy counts, or the labels they decide.

    ``votes_per_unit``: how many votes a unit casts on an example at most.
    """

    name: ClassVar[str]
    """As settings call it."""

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
