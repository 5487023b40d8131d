"""Array aliases with their shapes, errors a user can act on, reasons to refuse, and random streams of a run's seed."""

import hashlib
from enum import Enum
from typing import Any, ClassVar, Final, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.random import Generator
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

UNITS: Final = 255
"""Units that an example's probabilities are rounded to on the wire: they sum to this."""

FEWEST_SILOS: Final = 3
"""Fewest silos whose secure sum is opened: of two, each could read the other's part."""

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


class Refusal(Numbered):
    """Reasons to refuse a message or an instruction; only the number in ``labels.proto`` travels, never a text."""

    MALFORMED = 1, "the message is not one of this protocol's"
    VERSION = 2, "the message is of another version of the protocol: update the older side"
    STUDY = 3, "the message belongs to another study"
    FINGERPRINT = 4, "the public set is not the same on both sides (fingerprints differ)"
    CLASSES = 5, "the label space is not the same on both sides"
    ROUND = 6, "the message is of another round, or asks again with other labels"
    QUERY = 7, "the query asks for more than the public set has, for nothing, or for too many votes"
    LENGTH = 8, "the number of labels is not the number asked for"
    UNKNOWN_CLASS = 9, "a label lies outside the label space"
    SILO = 10, "the silo is not on the roster, or two nodes claim its name"
    NO_DATA = 11, "the silo's data cannot be used; see the log at the silo"
    TRAINING_FAILED = 12, "training failed; see the log at the silo"
    CONFIG = 13, "the silo's settings are wrong; see the log at the silo"
    INTERNAL = 14, "an unexpected error at the silo; see the log at the silo"
    WEIGHTS = 15, "the silo shares labels only, and was asked for weights"
    NOT_APPROVED = 16, "the silo has not approved this study as it is now"
    LIMIT = 17, "the silo has reached a limit of its policy, or is asked for more than it allows"
    NOT_LOGGED = 18, "the silo cannot write its egress log, and releases nothing unlogged"
    STOPPING = 19, "the silo's agent was stopped while it was at work"
    POLICY = 20, "the silo's policy does not let this kind of message out"
    NOT_AWAITED = 21, "the answer is no longer awaited"
    PRIVACY_BUDGET = 22, "the silo's privacy budget does not cover another answer"
    LEDGER = 23, "the silo's privacy ledger cannot be used; see the log at the silo"
    PROBABILITIES = 24, "probabilities are negative, not finite, or do not sum to 1"
    VALUES = 25, "values are not finite numbers, or far too large"

    @classmethod
    def from_number(cls, number: int) -> Self:
        """The reason with this number on the wire. Raises Refused if there is none."""
        if (found := cls.find(number)) is None:
            raise Refused(Refusal.MALFORMED)
        return found


class Refused(FedctError):
    """A message was refused; ``reason`` says why."""

    def __init__(self, reason: Refusal) -> None:
        super().__init__(reason.sentence)
        self.reason = reason


def seed_words(seed: int, *scope: str | int) -> list[int]:
    """Eight 32-bit words, different for every ``(seed, *scope)``, the same on every platform."""
    # A NumPy integer must give the stream of the Python integer that it equals.
    parts = (int(seed), *(part if isinstance(part, str) else int(part) for part in scope))
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return [int(word) for word in np.frombuffer(digest, dtype="<u4")]


def generator(seed: int, *scope: str | int) -> Generator:
    """A generator of its own for a scope such as ``("split", silo)`` or ``("ties", round)``.

    >>> generator(0, "ties", 1).integers(100) == generator(0, "ties", 1).integers(100)
    np.True_
    >>> generator(0, "ties", 1).random() == generator(0, "ties", 2).random()
    False
    """
    return np.random.default_rng(seed_words(seed, *scope))


def random_state(seed: int, *scope: str | int) -> int:
    """A scikit-learn ``random_state``, in ``0..2**31-1``."""
    return seed_words(seed, *scope)[0] >> 1
