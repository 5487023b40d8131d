"""Array aliases with their shapes, the abstention label, and the errors a user can act on."""

from enum import Enum
from typing import Any, ClassVar, Final, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

ABSTAIN: Final = -1
"""The label of an example that no silo, or no qualified majority, has labeled."""

SiloName: TypeAlias = str

Features: TypeAlias = NDArray[Any]
"""Numeric, first axis examples: ``(examples, columns)`` for tables, ``(examples, ...)`` for images."""

HardLabels: TypeAlias = NDArray[np.int16]
"""``(examples,)``, a class in ``0..C-1`` or ABSTAIN."""

Values: TypeAlias = NDArray[np.floating[Any]]
"""``(examples,)``, a number for each, where what is predicted is a quantity; NaN where no silo has given one."""

Answers: TypeAlias = NDArray[Any]
"""HardLabels, or Values where what is predicted is a quantity."""

VoteCounts: TypeAlias = NDArray[np.int32]
"""``(examples, classes)``, how many silos, or models of one silo, voted for each class."""

Votes: TypeAlias = NDArray[Any]
"""A silo's HardLabels ``(examples,)``, or ``(examples, classes)`` VoteCounts (whole numbers) or SoftVotes (floats)."""

SoftVotes: TypeAlias = NDArray[np.float32]
"""``(silos, examples, classes)``, of one silo ``(examples, classes)``: the probability of each class, rows sum to 1.

Of a quantity, ``(silos, examples, 1)`` and ``(examples, 1)``: its value.
"""

Groups: TypeAlias = NDArray[np.int64]
"""``(examples,)``, a number for what each record belongs to, such as a patient; equal numbers belong together."""

LABEL_DTYPE: Final = np.int16
MAX_CLASSES: Final = int(np.iinfo(LABEL_DTYPE).max)


class Examples(NamedTuple):
    """Labeled examples: features ``(n, ...)``, and for each a class in ``0..C-1``, or a quantity's value, ``(n,)``."""

    X: Features
    y: Answers

    @property
    def size(self) -> int:
        """Number of examples."""
        return len(self.y)


class FedctError(Exception):
    """An error whose message a user can act on: what is wrong, where, and what to do.

    ``exit_code`` is what the command line exits with.
    """

    exit_code: ClassVar[int] = 1


class Numbered(Enum):
    """Reasons with one sentence each, of which only the number travels."""

    def __init__(self, number: int, sentence: str) -> None:
        self.number = number
        self.sentence = sentence

    @classmethod
    def find(cls, number: int) -> Self | None:
        """The reason with this number on the wire; None if there is none."""
        return next((reason for reason in cls if reason.number == number), None)


class ConfigError(FedctError):
    """A setting is missing, misspelled or out of range."""

    exit_code = 2


class LearnerError(ConfigError):
    """A learner is unknown, cannot be made, or is none for what the study predicts."""


class DataError(FedctError):
    """A data set or a file cannot be used as it is."""

    exit_code = 3


class DataWarning(UserWarning):
    """Something about the data that may not be meant: the message is for the data's owner."""


class RunError(FedctError):
    """A run could not go on: no quorum of silos, no disk space, a checkpoint that does not fit."""

    exit_code = 4


class TrainingError(FedctError):
    """A learner failed on this silo's data. Local only: its message may quote data."""

    exit_code = 5
