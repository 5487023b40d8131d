"""Whose labels or votes leave a silo in place of its own models': a labeler, which says what each answer spends."""

from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from dp_accounting import DpEvent
from numpy.typing import NDArray

from fedct_flwr.privacy.randomness import Noise
from fedct_flwr.types import Examples, Features, HardLabels, Votes


class Asked(NamedTuple):
    """What one round asks of a labeler, and what it may look at."""

    private: Examples
    public: Features
    """All public examples, ``(num_public, ...)``."""
    targets: HardLabels
    """Consensus labels ``(num_public,)`` or ABSTAIN. They were released before: free to train on."""
    votes: HardLabels
    """Labels of the personal model ``(positions,)``, or ABSTAIN where it could not be trained; ``(0,)`` for a labeler
    that does not read them. Private: their use is paid for."""
    positions: NDArray[np.intp]
    """The public examples that are asked about."""


class Labeler(Protocol):
    """Labels public examples for a silo under differential privacy, over all rounds of a study.

    Formal guarantees, of every implementation: all labels that ``answer`` ever returned together, and all that
    ``dump`` says, depend on the private records only through mechanisms whose events ``event`` has returned before.
    So does whether ``answer`` raises: no record may make it fail.
    """

    reads_votes: ClassVar[bool]
    """Whether the labels are made of ``Asked.votes``, for which the personal model has to be trained first."""

    def event(self, asked: Asked) -> DpEvent:
        """What ``answer`` will spend on this question, per record; a NoOpDpEvent if nothing. Changes nothing.

        Depends on ``asked`` in numbers and in public things alone, and on how far the labeler has come. Raises
        TrainingError for what could not be answered anyway, as far as such things tell: then nothing is charged.
        """
        ...

    def answer(self, asked: Asked, noise: Noise) -> Votes:
        """The class of each example asked about, ``(positions,)``, never ABSTAIN; or counts ``(positions, classes)``.

        Raises TrainingError.
        """
        ...

    def dump(self) -> bytes:
        """How far the labeler has come, for ``restore``."""
        ...

    def restore(self, state: bytes) -> None:
        """Go on from a dump. Must not execute anything that is in it. Raises TrainingError."""
        ...

    def reset(self) -> None:
        """Go back to the beginning of the study."""
        ...
