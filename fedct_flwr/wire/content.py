"""Contents of instructions and replies before encoding, and the terms that both sides have agreed upon."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.types import HardLabels, Refusal, Refused, SiloName, SoftVotes, Votes

LEAST_NOISE: Final = 2.0**-10
LARGEST_NOISE: Final = 2.0**20
"""Standard deviations of noise that silos add in shares, in votes of one silo. With them no sum leaves 32 bits."""
LONGEST_CONDITION: Final = 500
"""Bytes of a condition, or of a column's name, in a question for counts."""
MAX_VALUE: Final = 1e30
"""Larger values are refused, so that no mean is too large for single precision."""
MOST_STEPS: Final = 1 << 16
"""Values that a grid may have: each is two bytes."""


class Grid(NamedTuple):
    """The values that a quantity may have: from ``low`` to ``high``, each a ``step`` after the one before."""

    low: float
    high: float
    step: float

    @property
    def last(self) -> int:
        """The number of the highest value; the lowest is number 0."""
        return round((self.high - self.low) / self.step)

    @property
    def words(self) -> str:
        """The grid in words."""
        return f"from {self.low:g} to {self.high:g} in steps of {self.step:g}"

    def codes(self, values: SoftVotes) -> NDArray[np.uint16]:
        """Numbers of the nearest values of the grid; the ends stand for what lies beyond. Raises Refused for NaN."""
        check_values(values)
        exact = (np.clip(values.astype(np.float64), self.low, self.high) - self.low) / self.step
        codes: NDArray[np.uint16] = np.rint(exact).astype("<u2")
        return codes

    def values(self, codes: NDArray[np.integer]) -> SoftVotes:
        """The values of these numbers. Raises Refused (VALUES) for a number above ``last``."""
        if codes.max(initial=0) > self.last:
            raise Refused(Refusal.VALUES)
        return (self.low + codes.astype(np.float64) * self.step).astype(np.float32)


def check_values(values: SoftVotes) -> None:
    """Raise Refused (VALUES) for what is no number in -1e30..1e30."""
    # A test for valid values, not for invalid ones, also catches NaN.
    if not (np.abs(values) <= MAX_VALUE).all():
        raise Refused(Refusal.VALUES)


@dataclass(frozen=True)
class Terms:
    """Terms that coordinator and silos have agreed upon before the first message."""

    study: str
    public_fingerprint: bytes
    num_public: int
    classes: tuple[str, ...]
    quantity: str = ""
    grid: Grid | None = None

    @property
    def num_classes(self) -> int:
        """Size of the label space; 0 where a quantity is predicted."""
        return len(self.classes)

    @property
    def width(self) -> int:
        """Numbers that a soft vote on an example has: one for each class, or the value of the quantity."""
        return self.num_classes or 1


NO_TERMS: Final = Terms("", b"", 0, ())
"""Terms without any agreement: only a refusal can travel."""

STEPS: Final = 15
"""Most steps of the joint labeler's training. In one more round silos learn its labels."""


class Query(NamedTuple):
    """Which public examples a round asks about: ``size`` of them, drawn with ``seed`` (unsigned, 64 bits).

    Both sides derive the same positions from these two numbers, so a query costs a few bytes whatever its size.
    """

    seed: int
    size: int

    def positions(self, num_public: int) -> NDArray[np.intp]:
        """Sorted positions ``(size,)`` in a public set of ``num_public`` examples.

        Ranks the raw output of Philox, which NumPy keeps the same in every version (its policy for bit
        generators; the methods of Generator have no such promise).

        >>> Query(seed=7, size=3).positions(3)
        array([0, 1, 2])
        >>> Query(seed=7, size=3).positions(1000)
        array([535, 753, 887])
        """
        return _drawn(self.seed, self.size, num_public)


@lru_cache(maxsize=4)
def _drawn(seed: int, size: int, num_public: int) -> NDArray[np.intp]:
    if size == num_public:
        found = np.arange(num_public, dtype=np.intp)
    else:
        keys = np.random.Philox(key=seed).random_raw(num_public)
        found = np.sort(np.argsort(keys, kind="stable")[:size])
    found.flags.writeable = False
    return found


class SoftTargets(NamedTuple):
    """A silo's targets for ``query``: probabilities or values; a ``weight`` of 0: before its own records."""

    query: Query
    votes: SoftVotes
    weight: float


@dataclass(frozen=True, eq=False)
class Soft:
    """How to train where soft votes are asked for: with ``targets`` if there are any yet."""

    targets: SoftTargets | None = None


class Joint(NamedTuple):
    """A step of the joint labeler's training, or with ``weights`` None, to learn its labels.

    All but ``weights`` ``(size, classes)`` decides the labeler's plan (``labelers/joint_linear.py``) and is the same in
    all steps; ``columns`` are a table's for an additive labeler, 0 for a linear one.
    """

    records: int
    steps: int
    epsilon: float
    delta: float
    honest: int
    columns: int
    seed: int
    weights: NDArray[np.float64] | None = None

    def same_labeler(self, other: "Joint") -> bool:
        """Whether it is a step of the same plan, with any weights and seed: no guarantee depends on these."""
        return self._replace(seed=0, weights=None) == other._replace(seed=0, weights=None)


class Histograms(NamedTuple):
    """Asks for ``numbers`` counts with noise: of each class in each column's cells, or of patients.

    ``study`` (32 bytes) is the digest of the study, whose data dictionary says what the cells are. With ``where``,
    patients with a record that meets this condition are counted, for each category of the column ``by`` if it names
    one. With ``scores``, test records of each class are counted by the class that a model gives them, which learned
    the instruction's targets alone.
    """

    study: bytes
    numbers: int
    where: str = ""
    by: str = ""
    scores: bool = False


@dataclass(frozen=True, eq=False)
class Instruction:
    """Coordinator to silo: train on ``targets``, then label the examples of ``query``.

    ``round`` counts from 1. ``targets``: ``(num_public,)``, or ABSTAIN. ``votes``: 0 asks for one class of each
    example, a number above for counts of that many votes. ``soft`` asks for probabilities or values, with targets of
    its own.
    """

    round: int
    query: Query
    targets: HardLabels
    votes: int = 0
    soft: Soft | None = None
    summed: bool = False
    """Whether answers are kept for a secure sum instead of being sent."""
    joint: Joint | None = None
    """Asks for a step of the joint labeler's training instead, or to learn its labels."""
    noise: float = 0.0
    """Standard deviation of the noise on a secure sum of votes, in votes of one silo. Silos add shares of it."""
    answer: str = ""
    """The name of the kind that is asked for, where neither of the above tells it."""
    histograms: Histograms | None = None
    """Asks for these counts instead."""

    @property
    def asks_of_records(self) -> bool:
        """Whether silos add up gradients or counts of records, with noise for records, without their own models."""
        return self.histograms is not None or (self.joint is not None and self.joint.weights is not None)


class Scores(NamedTuple):
    """Scores of a silo's model on its own and on the pooled test set, in 0..1; NaN where it has no such data."""

    own_accuracy: float
    own_balanced_accuracy: float
    pooled_accuracy: float
    pooled_balanced_accuracy: float


class Fit(NamedTuple):
    """The same scores for a quantity: R², at most 1; NaN where it has no such data."""

    own_r_squared: float
    pooled_r_squared: float


@dataclass(frozen=True, eq=False)
class Reply:
    """Silo to coordinator: labels ``(query.size,)``, other votes ``(query.size, classes or 1)``, or a refusal."""

    round: int
    silo: SiloName
    outcome: Votes | Refusal
    scores: Scores | Fit | None = None
