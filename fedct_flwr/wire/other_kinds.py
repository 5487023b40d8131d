"""Kinds of answer besides labels and counts of votes: numbers, shares of votes to learn from, and sums; their bytes.

Probabilities: whole 255ths that sum to one, a byte for each class but the last. Values of a quantity: two bytes on the
study's grid, or single precision where there is none.

Some answers leave only in secure sums. A silo keeps such an answer and says that it is ready; ``secure_sum`` adds it to
those of other silos.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.types import ABSTAIN, UNITS, HardLabels, Refusal, Refused, SoftVotes, Votes
from fedct_flwr.wire import labels_pb2
from fedct_flwr.wire.content import (
    LONGEST_CONDITION,
    Fit,
    Grid,
    Histograms,
    Instruction,
    Joint,
    Query,
    Soft,
    SoftTargets,
    Terms,
    check_values,
)
from fedct_flwr.wire.kinds import COUNTS, HARD, NOTHING, Cost, Hard, Kind

MAX_WEIGHT: Final = 1e6
_IN_TURN: Final = 1.0
"""Weight of targets of weight 0: they are learned alone, in as many steps as the records after them."""
WEIGHT_OF_SHARES: Final = 1.0
"""Weight of shares of votes in an instruction: the silo decides how much they count, as with labels."""
_TOLERANCE: Final = 1e-3


def quantized(probabilities: SoftVotes) -> NDArray[np.uint8]:
    """Whole units ``(n, classes)`` that sum to ``UNITS``, by largest remainder; earlier classes first where those tie.

    Exact on what ``unpack_probabilities`` gives. Raises Refused (PROBABILITIES) for rows that are negative, not finite,
    or do not sum to 1.

    >>> quantized(np.float32([[0.5, 0.5], [1, 0]])).tolist()
    [[128, 127], [255, 0]]
    """
    exact = probabilities.astype(np.float64)
    sums = exact.sum(axis=1, keepdims=True)
    # Written so that NaN fails both.
    if not ((exact >= 0).all() and (np.abs(sums - 1) <= _TOLERANCE).all()):
        raise Refused(Refusal.PROBABILITIES)
    exact *= UNITS / sums
    codes = np.floor(exact)
    missing = UNITS - codes.sum(axis=1, keepdims=True)
    # The class whose float was rounded must not matter: ties are ties after rounding.
    remainders = np.round(exact - codes, 6)
    order = np.argsort(-remainders, axis=1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(exact.shape[1])[np.newaxis], axis=1)
    whole: NDArray[np.uint8] = (codes + (ranks < missing)).astype(np.uint8)
    return whole


def pack_probabilities(probabilities: SoftVotes) -> bytes:
    r"""Pack rows ``(n, classes)`` that sum to 1. Raises Refused (PROBABILITIES), see ``quantized``.

    >>> pack_probabilities(np.float32([[0.2, 0.8], [0, 1]]))
    b'3\x00'
    """
    return quantized(probabilities)[:, :-1].tobytes()


def unpack_probabilities(packed: bytes, count: int, num_classes: int) -> SoftVotes:
    """Unpack ``count`` rows; the exact inverse of ``pack_probabilities``, which is the only encoding accepted.

    Raises Refused: LENGTH for another number of bytes, PROBABILITIES for a row whose units sum to more than ``UNITS``.
    """
    if len(packed) != count * (num_classes - 1):
        raise Refused(Refusal.LENGTH)
    codes = np.frombuffer(packed, dtype=np.uint8).reshape(count, num_classes - 1)
    last = UNITS - codes.sum(axis=1, dtype=np.int64)
    if last.min(initial=0) < 0:
        raise Refused(Refusal.PROBABILITIES)
    return np.column_stack([codes, last]).astype(np.float32) / np.float32(UNITS)


_WIRE: Final = np.dtype("<f4")


def pack_values(values: SoftVotes, grid: Grid | None = None) -> bytes:
    r"""Pack values ``(n, 1)``, rounded to a ``grid``. Raises Refused (VALUES) for what is no number in -1e30..1e30.

    >>> pack_values(np.float32([[1.5], [-0.0]]))
    b'\x00\x00\xc0?\x00\x00\x00\x00'
    >>> pack_values(np.float32([[1.5], [-0.0]]), Grid(-1, 1, 0.5))
    b'\x04\x00\x02\x00'
    """
    if grid:
        return grid.codes(values).tobytes()
    check_values(values)
    # One zero: the other one would be another encoding.
    return (values.astype(_WIRE) + _WIRE.type(0)).astype(_WIRE, copy=False).tobytes()


def unpack_values(packed: bytes, count: int, grid: Grid | None = None) -> SoftVotes:
    """The exact inverse of ``pack_values``, ``(count, 1)``. Raises Refused: LENGTH, VALUES."""
    if len(packed) != count * (2 if grid else _WIRE.itemsize):
        raise Refused(Refusal.LENGTH)
    if grid:
        return grid.values(np.frombuffer(packed, dtype="<u2").reshape(count, 1))
    values = np.frombuffer(packed, dtype=_WIRE).astype(np.float32).reshape(count, 1)
    check_values(values)
    return values


class NumbersKind(Kind):
    """Numbers ``(examples, width)``, see ``Terms.width``. Each silo learns a mix of its own of all silos' numbers."""

    policy = "soft"
    learns_labels = False
    for_numbers = True
    targets_field: ClassVar[str]
    """The field of an instruction's ``soft`` that holds targets."""

    @abstractmethod
    def pack(self, votes: SoftVotes, terms: Terms) -> bytes:
        """The one encoding of rows ``(n, width)``. Raises Refused."""

    @abstractmethod
    def unpack(self, packed: bytes, count: int, terms: Terms) -> SoftVotes:
        """The rows ``(count, width)`` that ``pack`` wrote. Raises Refused for anything else."""

    def question(self, number: int, query: Query, targets: HardLabels, votes: int, learning: Soft) -> Instruction:
        return Instruction(number, query, np.full_like(targets, ABSTAIN), soft=learning)

    def cost(self, instruction: Instruction, terms: Terms) -> Cost:
        learning = instruction.soft or Soft()
        weight = (learning.targets.weight or _IN_TURN) if learning.targets else 0.0
        return Cost(instruction.query.size * terms.width, weight)

    def longest(self, count: int, votes: int, terms: Terms) -> Votes:
        rows = np.zeros((count, terms.width), dtype=np.float32)
        rows[:, 0] = 1
        return rows

    def put(self, votes: Votes, message: labels_pb2.Reply, terms: Terms) -> None:
        """Packed. Raises Refused, as ``pack``, or for rows of another width (UNKNOWN_CLASS)."""
        if votes.shape[1] != terms.width:
            raise Refused(Refusal.UNKNOWN_CLASS)
        self._put(votes, message, self.field, terms)

    def take(self, message: labels_pb2.Reply, instruction: Instruction, terms: Terms) -> Votes:
        """Rows ``(query.size, width)``."""
        return self._take(message, self.field, instruction.query.size, terms)

    def soft_targets(self, instruction: Instruction) -> SoftTargets | None:
        return (instruction.soft or Soft()).targets

    def teaches(self, instruction: Instruction) -> bool:
        return self.soft_targets(instruction) is not None

    def put_learning(self, instruction: Instruction, message: labels_pb2.Instruction, terms: Terms) -> None:
        learning = instruction.soft or Soft()
        message.soft.SetInParent()
        if learning.targets:
            query, votes, message.soft.weight = learning.targets
            message.soft.targeted.CopyFrom(labels_pb2.Query(seed=query.seed, size=query.size))
            self._put(votes, message.soft, self.targets_field, terms)

    def take_learning(self, message: labels_pb2.Instruction, terms: Terms) -> Soft | None:
        """How to train, within bounds. Raises Refused."""
        soft = message.soft
        if message.votes or message.HasField("targets"):
            raise Refused(Refusal.MALFORMED)
        if not soft.HasField("targeted"):
            return Soft()
        if not 1 <= soft.targeted.size <= terms.num_public:
            raise Refused(Refusal.QUERY)
        if not 0 <= soft.weight <= MAX_WEIGHT:
            raise Refused(Refusal.MALFORMED)
        votes = self._take(soft, self.targets_field, soft.targeted.size, terms)
        query = Query(soft.targeted.seed, soft.targeted.size)
        # One zero: the other one would be another encoding.
        return Soft(SoftTargets(query, votes, soft.weight + 0.0))

    def _put(self, votes: SoftVotes, message: labels_pb2.Reply | labels_pb2.Soft, field: str, terms: Terms) -> None:
        getattr(message, field).packed = self.pack(votes, terms)
        getattr(message, field).count = len(votes)

    def _take(self, message: labels_pb2.Reply | labels_pb2.Soft, field: str, count: int, terms: Terms) -> SoftVotes:
        found = getattr(message, field)
        # The count is only compared, never believed: memory follows what was asked for, not what a message claims.
        if found.count != count:
            raise Refused(Refusal.LENGTH)
        return self.unpack(found.packed, count, terms)


class Probabilities(NumbersKind):
    """Probabilities ``(examples, classes)``, rows sum to 1."""

    name = "probabilities"
    by_probabilities = True
    of = "probabilities"
    field = "probabilities"
    targets_field = "targets"

    def pack(self, votes: SoftVotes, terms: Terms) -> bytes:
        return pack_probabilities(votes)

    def unpack(self, packed: bytes, count: int, terms: Terms) -> SoftVotes:
        return unpack_probabilities(packed, count, terms.num_classes)


class ValuesKind(NumbersKind):
    """Values ``(examples, 1)``."""

    name = "values"
    of = "values"
    field = "values"
    targets_field = "values"
    scores = Fit
    labels = False

    def fits(self, quantity: str) -> bool:
        return bool(quantity)

    def pack(self, votes: SoftVotes, terms: Terms) -> bytes:
        return pack_values(votes, terms.grid)

    def unpack(self, packed: bytes, count: int, terms: Terms) -> SoftVotes:
        return unpack_values(packed, count, terms.grid)


PROBABILITIES: Final = Probabilities()
VALUES: Final = ValuesKind()


class Shares(Hard):
    """Labels ``(examples,)``; learned are shares of the votes ``(examples, classes)``."""

    name = "shares"
    policy = "shares"
    by_name = True
    by_probabilities = True
    learns_labels = False

    def question(self, number: int, query: Query, targets: HardLabels, votes: int, learning: Soft) -> Instruction:
        soft = learning if learning.targets else None
        return Instruction(number, query, np.full_like(targets, ABSTAIN), soft=soft, answer=self.name)

    def soft_targets(self, instruction: Instruction) -> SoftTargets | None:
        return PROBABILITIES.soft_targets(instruction)

    def teaches(self, instruction: Instruction) -> bool:
        return PROBABILITIES.teaches(instruction)

    def put_learning(self, instruction: Instruction, message: labels_pb2.Instruction, terms: Terms) -> None:
        """Put the shares into the message. Raises Refused (PROBABILITIES)."""
        if instruction.soft:
            PROBABILITIES.put_learning(instruction, message, terms)

    def take_learning(self, message: labels_pb2.Instruction, terms: Terms) -> Soft | None:
        """Read the shares; there are no settings for training and no labels. Raises Refused."""
        if message.HasField("targets"):
            raise Refused(Refusal.MALFORMED)
        if not message.HasField("soft"):
            return None
        learning = PROBABILITIES.take_learning(message, terms)
        if learning is None or learning.targets is None or learning.targets.weight != WEIGHT_OF_SHARES:
            raise Refused(Refusal.MALFORMED)
        return learning


SHARES: Final = Shares()
KINDS: Final[dict[str, Kind]] = {kind.name: kind for kind in (HARD, COUNTS, PROBABILITIES, VALUES, SHARES)}


def kind_for(kind: Kind, quantity: str) -> Kind:
    """The kind for predicting a ``quantity`` (empty: classes): values replace probabilities."""
    fitting = [other for other in KINDS.values() if other.fits(quantity)]
    return next((other for other in fitting if other.policy == kind.policy), fitting[0])


_MOST_STEPS: Final = 1000


class OnlyReady(Kind):
    """Answers that stay at the silo, to be added in a secure sum: its reply only says that they are ready."""

    policy = "sum"
    field = "ready"
    added = True

    def longest(self, count: int, votes: int, terms: Terms) -> Votes:
        return NOTHING

    def put(self, votes: Votes, message: labels_pb2.Reply, terms: Terms) -> None:
        message.ready.SetInParent()

    def take(self, message: labels_pb2.Reply, instruction: Instruction, terms: Terms) -> Votes:
        return NOTHING


class Summed(OnlyReady):
    """One vote of each silo for each example, in a sum ``(examples, classes)``; a silo that abstains adds zeros.

    ``inner`` is the kind whose answers are added; it is trained for and asked as that kind is. With ``noisy``, silos
    add shares of noise, and the sum is in units of a grid.
    """

    inner: Kind

    def __init__(self, inner: Kind, name: str, policy: str, *, noisy: bool) -> None:
        self.inner, self.noisy = inner, noisy
        self.name = name + " with noise" * noisy
        self.policy = policy
        self.of, self.own_model, self.learns_labels = inner.of, inner.own_model, inner.learns_labels

    def cost(self, instruction: Instruction, terms: Terms) -> Cost:
        return Cost(instruction.query.size * terms.width)

    def question(self, number: int, query: Query, targets: HardLabels, votes: int, learning: Soft) -> Instruction:
        return replace(self.inner.question(number, query, targets, votes, learning), summed=True)

    def can_answer(self, votes: int, terms: Terms) -> bool:
        return self.inner.can_answer(votes, terms)


def _sums(*, noisy: bool) -> dict[str, Summed]:
    """Sums of labels; and of students' votes: one of a silo where all agree, as in FedKT's consistent voting."""
    of_labels = Summed(HARD, "sums of labels", "sum", noisy=noisy)
    return {HARD.name: of_labels, COUNTS.name: Summed(COUNTS, "sums of students' votes", "count-sum", noisy=noisy)}


SUMS: Final = _sums(noisy=False)
"""Kinds of sums, by the name of the kind whose answers are added."""
NOISY_SUMS: Final = _sums(noisy=True)


class NoisySum(OnlyReady):
    """Summands with shares of noise that protect records."""

    def question(self, number: int, query: Query, targets: HardLabels, votes: int, learning: Soft) -> Instruction:
        """Raise Refused (QUERY): ``Joint`` and ``Histograms`` need more than these arguments."""
        raise Refused(Refusal.QUERY)


class Gradients(NoisySum):
    """Gradients with a share of noise ``(size, classes)``, in a sum; or nothing, where silos learn the labels."""

    name = "sums of noisy gradients"
    policy = "joint"

    def cost(self, instruction: Instruction, terms: Terms) -> Cost:
        joint = instruction.joint
        return Cost(0 if joint is None or joint.weights is None else joint.weights.size)

    def put_learning(self, instruction: Instruction, message: labels_pb2.Instruction, terms: Terms) -> None:
        if instruction.joint is None:
            return
        *plan, weights = instruction.joint
        for name, value in zip(Joint._fields, plan, strict=False):
            setattr(message.joint, name, value)
        if weights is not None:
            message.joint.weights = weights.astype("<f8").tobytes()


class HistogramCounts(NoisySum):
    """Counts with a share of noise, in a sum: of columns' values, of patients who meet a condition, or for scores.

    The silo's own model has no part in it.
    """

    def __init__(self, name: str, policy: str) -> None:
        self.name, self.policy = name, policy

    def fits(self, quantity: str) -> bool:
        return not quantity or self.policy == "count"

    def cost(self, instruction: Instruction, terms: Terms) -> Cost:
        return Cost(instruction.histograms.numbers if instruction.histograms else 0)

    def put_learning(self, instruction: Instruction, message: labels_pb2.Instruction, terms: Terms) -> None:
        if instruction.histograms:
            message.histograms.CopyFrom(labels_pb2.Histograms(**instruction.histograms._asdict()))


GRADIENTS: Final = Gradients()
HISTOGRAMS: Final = HistogramCounts("sums of noisy histograms", "draw")
PATIENTS: Final = HistogramCounts("sums of noisy counts of patients", "count")
SCORES: Final = HistogramCounts("sums of noisy confusion matrices", "scores")

SUMMED: Final[tuple[Kind, ...]] = (*SUMS.values(), GRADIENTS, HISTOGRAMS, PATIENTS, SCORES)
ADDED: Final = frozenset(kind.policy for kind in SUMMED)
"""Policy names of the kinds that leave in secure sums alone."""


def kind_of_counts(asks: Histograms) -> Kind:
    """The kind of an answer to a question for counts with noise."""
    return SCORES if asks.scores else PATIENTS if asks.where else HISTOGRAMS


def in_sums(kind: Kind, *, noisy: bool = False) -> Summed:
    """The kind with which a secure sum takes the place of a kind's answers. Raises Refused where there is none.

    ``noisy``: whether silos add shares of noise.
    """
    sums: Mapping[str, Summed] = NOISY_SUMS if noisy else SUMS
    if kind.name not in sums:
        raise Refused(Refusal.QUERY)
    return sums[kind.name]


def take_histograms(message: labels_pb2.Instruction) -> Histograms:
    """Take a question for counts out of a message. Raises Refused (MALFORMED) where it asks for something else too."""
    asked = message.histograms
    otherwise = message.votes or message.summed or message.answer or any(map(message.HasField, ("soft", "joint")))
    too_long = max(len(asked.where.encode()), len(asked.by.encode())) > LONGEST_CONDITION
    # Only scores are of a model that learns targets.
    wrong = message.HasField("targets") != asked.scores or (asked.scores and asked.where)
    if otherwise or too_long or wrong or not asked.numbers or (asked.by and not asked.where):
        raise Refused(Refusal.MALFORMED)
    return Histograms(asked.study, asked.numbers, asked.where, asked.by, asked.scores)


def take_joint(message: labels_pb2.Instruction, terms: Terms) -> Joint:
    """Take a step out of a message. Raises Refused (MALFORMED) for one that no silo can take."""
    joint = message.joint
    fits = 1 <= joint.steps <= _MOST_STEPS and joint.records and joint.honest
    keeps = 0 < joint.epsilon < math.inf and 0 < joint.delta < 1
    asks_otherwise = message.votes or message.summed or message.answer or message.HasField("soft")
    if not (fits and keeps and terms.num_classes) or asks_otherwise:
        raise Refused(Refusal.MALFORMED)
    weights = None
    if joint.weights:
        if len(joint.weights) % (8 * terms.num_classes) or message.round > joint.steps:
            raise Refused(Refusal.MALFORMED)
        weights = np.frombuffer(joint.weights, dtype="<f8").astype(np.float64).reshape(-1, terms.num_classes)
        if not np.isfinite(weights).all():
            raise Refused(Refusal.MALFORMED)
    plan = joint.records, joint.steps, joint.epsilon, joint.delta, joint.honest, joint.columns, joint.seed
    return Joint(*plan, weights)
