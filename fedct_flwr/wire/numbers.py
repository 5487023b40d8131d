"""Kinds of answer that are numbers: probabilities and values, and shares of votes to learn from; and their bytes.

Probabilities: whole 255ths that sum to one, a byte for each class but the last. Values of a quantity: two bytes on the
study's grid, or single precision where there is none.
"""

from abc import abstractmethod
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.types import ABSTAIN, UNITS, HardLabels, Refusal, Refused, SoftVotes, Votes
from fedct_flwr.wire import labels_pb2
from fedct_flwr.wire.content import Fit, Grid, Instruction, Query, Soft, SoftTargets, Terms, check_values
from fedct_flwr.wire.kinds import COUNTS, HARD, Cost, Hard, Kind

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

    def put_question(self, instruction: Instruction, message: labels_pb2.Instruction, terms: Terms) -> None:
        learning = instruction.soft or Soft()
        message.soft.SetInParent()
        if learning.targets:
            query, votes, message.soft.weight = learning.targets
            message.soft.targeted.CopyFrom(labels_pb2.Query(seed=query.seed, size=query.size))
            self._put(votes, message.soft, self.targets_field, terms)

    def take_soft(self, message: labels_pb2.Instruction, terms: Terms) -> Soft | None:
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

    def put_question(self, instruction: Instruction, message: labels_pb2.Instruction, terms: Terms) -> None:
        """Put the shares into the message. Raises Refused (PROBABILITIES)."""
        if instruction.soft:
            PROBABILITIES.put_question(instruction, message, terms)

    def take_soft(self, message: labels_pb2.Instruction, terms: Terms) -> Soft | None:
        """Read the shares; there are no settings for training and no labels. Raises Refused."""
        if message.HasField("targets"):
            raise Refused(Refusal.MALFORMED)
        if not message.HasField("soft"):
            return None
        learning = PROBABILITIES.take_soft(message, terms)
        if learning is None or learning.targets is None or learning.targets.weight != WEIGHT_OF_SHARES:
            raise Refused(Refusal.MALFORMED)
        return learning


SHARES: Final = Shares()
KINDS: Final[dict[str, Kind]] = {kind.name: kind for kind in (HARD, COUNTS, PROBABILITIES, VALUES, SHARES)}


def kind_for(kind: Kind, quantity: str) -> Kind:
    """The kind for predicting a ``quantity`` (empty: classes): values replace probabilities."""
    fitting = [other for other in KINDS.values() if other.fits(quantity)]
    return next((other for other in fitting if other.policy == kind.policy), fitting[0])
