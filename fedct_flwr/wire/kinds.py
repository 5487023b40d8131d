"""Kinds of a silo's answer: the bytes of each, and what it costs.

How a silo makes an answer stands in ``silo/personal.py``, what the round log says of it in
``coordinator/questions.py``, and its words for people in ``report/kind_words.py``. The kind is told by the instruction
alone.

Labels are codes of equal width, least significant bit first. Vote counts: each row is the number of one way to give its
votes to the classes, numbered from 0 in the order in which earlier classes have most of the votes: (2, 0), (1, 1),
(0, 2). With one vote the number is the class, so counts cost what labels cost; with two votes less than two labels
each.
"""

from abc import ABC, abstractmethod
from functools import lru_cache
from math import comb
from typing import ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedct_flwr import wire
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, HardLabels, Refusal, Refused, VoteCounts, Votes
from fedct_flwr.wire import labels_pb2
from fedct_flwr.wire.content import Fit, Instruction, Query, Scores, Soft, SoftTargets, Terms


def code_width(num_classes: int, abstentions: bool) -> int:
    """Bits for one label: ceil(log2(number of codes)), at least 1.

    >>> [code_width(c, abstentions=False) for c in (2, 3, 10, 100)]
    [1, 2, 4, 7]
    >>> [code_width(c, abstentions=True) for c in (2, 3, 10, 127)]
    [2, 2, 4, 7]
    """
    return max(1, (num_classes - 1 + abstentions).bit_length())


def packed_size(count: int, num_classes: int, abstentions: bool) -> int:
    """Bytes of ``count`` packed labels."""
    return -(-count * code_width(num_classes, abstentions) // 8)


def pack(labels: HardLabels, num_classes: int) -> tuple[bytes, bool]:
    r"""Pack labels ``(n,)``; also returns whether there are abstentions among them.

    Raises Refused (UNKNOWN_CLASS) for a label outside ``-1..num_classes-1``.

    >>> pack(np.int16([1, 0, 1, 1]), num_classes=2)
    (b'\r', False)
    """
    if len(labels) and not (labels.min() >= ABSTAIN and labels.max() < num_classes):
        raise Refused(Refusal.UNKNOWN_CLASS)
    abstentions = bool((labels == ABSTAIN).any())
    codes = labels.astype(np.uint16) + np.uint16(abstentions)
    return pack_codes(codes, code_width(num_classes, abstentions)), abstentions


def unpack(packed: bytes, count: int, num_classes: int, abstentions: bool) -> HardLabels:
    """Unpack ``count`` labels; the exact inverse of ``pack``, which is the only encoding accepted.

    Raises Refused: LENGTH, UNKNOWN_CLASS, MALFORMED for unused bits or an abstention flag that could carry more out.
    """
    codes = unpack_codes(packed, count, code_width(num_classes, abstentions), np.uint16)
    if count and codes.max() >= num_classes + abstentions:
        raise Refused(Refusal.UNKNOWN_CLASS)
    labels = codes.astype(LABEL_DTYPE) - LABEL_DTYPE(abstentions)
    if abstentions and not (labels == ABSTAIN).any():
        raise Refused(Refusal.MALFORMED)
    return labels


def pack_codes(codes: NDArray[np.unsignedinteger], width: int) -> bytes:
    """Codes ``(n,)`` below ``2**width``, in the fewest bytes that hold them."""
    bits = np.empty((len(codes), width), dtype=np.uint8)
    for place, column in enumerate(bits.T):
        column[:] = (codes >> codes.dtype.type(place)) & codes.dtype.type(1)
    return np.packbits(bits, bitorder="little").tobytes()


def unpack_codes(
    packed: bytes, count: int, width: int, dtype: type[np.uint16 | np.uint64]
) -> NDArray[np.unsignedinteger]:
    """The ``count`` codes of ``pack_codes``. Raises Refused: LENGTH, or MALFORMED for unused bits that are set."""
    if len(packed) != -(-count * width // 8):
        raise Refused(Refusal.LENGTH)
    bits = np.unpackbits(np.frombuffer(packed, dtype=np.uint8), bitorder="little")
    if bits[count * width :].any():
        raise Refused(Refusal.MALFORMED)
    codes = np.zeros(count, dtype=dtype)
    for place, column in enumerate(bits[: count * width].reshape(count, width).T):
        np.bitwise_or(codes, np.left_shift(column, place, dtype=dtype), out=codes)
    return codes


MAX_VOTES: Final = 1000
"""On one example, of one silo."""
_MAX_BITS: Final = 62


def num_ways(num_classes: int, votes: int) -> int:
    """Number of ways to give ``votes`` to the classes.

    >>> [num_ways(c, votes=2) for c in (2, 3, 10)]
    [3, 6, 55]
    """
    return comb(num_classes + votes - 1, votes)


def can_count(num_classes: int, votes: int) -> bool:
    """Whether rows of ``votes`` can be sent: 1 to ``MAX_VOTES``, in codes of at most 62 bits."""
    return 1 <= votes <= MAX_VOTES and num_ways(num_classes, votes) <= 1 << _MAX_BITS


def pack_counts(counts: VoteCounts) -> bytes:
    r"""Pack counts ``(n, classes)``, n > 0, all of whose rows sum to the same number of votes.

    Raises Refused: UNKNOWN_CLASS for a row with another sum, or with less than no vote; QUERY unless ``can_count``.

    >>> pack_counts(np.int32([[2, 0], [0, 2], [1, 1]]))
    b'\x18'
    """
    num_classes, votes = counts.shape[1], int(counts[0].sum())
    if counts.min() < 0 or (counts.sum(axis=1) != votes).any():
        raise Refused(Refusal.UNKNOWN_CLASS)
    earlier = _earlier(num_classes, votes)
    codes = np.zeros(len(counts), dtype=np.uint64)
    left = np.full(len(counts), votes)
    for column, ways in zip(counts.T, earlier, strict=False):
        left -= column
        codes += ways[left]
    return pack_codes(codes, _width(num_classes, votes))


def unpack_counts(packed: bytes, count: int, num_classes: int, votes: int) -> VoteCounts:
    """Unpack ``count`` rows; the exact inverse of ``pack_counts``, which is the only encoding accepted.

    Raises Refused: LENGTH, UNKNOWN_CLASS for a wrong code, MALFORMED for unused bits, QUERY.
    """
    earlier = _earlier(num_classes, votes)
    codes = unpack_codes(packed, count, _width(num_classes, votes), np.uint64)
    if count and codes.max() >= num_ways(num_classes, votes):
        raise Refused(Refusal.UNKNOWN_CLASS)
    counts = np.empty((count, num_classes), dtype=np.int32)
    left = np.full(count, votes)
    for column, ways in zip(counts.T, earlier, strict=False):
        # The most votes on later classes that there are no more ways before than the code says.
        later = np.searchsorted(ways, codes, side="right") - 1
        codes -= ways[later]
        column[:] = left - later
        left = later
    counts[:, -1] = left
    return counts


def _width(num_classes: int, votes: int) -> int:
    return max(1, (num_ways(num_classes, votes) - 1).bit_length())


@lru_cache(maxsize=64)
def _earlier(num_classes: int, votes: int) -> list[NDArray[np.uint64]]:
    """For each class but the last, by how many votes later classes have: ways in which they have fewer.

    ``later`` votes on m classes: there are C(later - 1 + m, m) ways to give fewer than that to them, the rest going to
    the class itself. Raises Refused (QUERY) where that does not fit.
    """
    if not can_count(num_classes, votes):
        raise Refused(Refusal.QUERY)
    return [
        np.array([comb(later - 1 + m, m) if later else 0 for later in range(votes + 1)], dtype=np.uint64)
        for m in range(num_classes - 1, 0, -1)
    ]


NOTHING: Final[HardLabels] = np.empty((0, 0, 0), dtype=np.int16)
"""A reply's contents instead of answers that stay at the silo."""


class Cost(NamedTuple):
    """Cost of a question for a silo: the number of ``labels`` in its answer, and the training before it.

    Others' answers weigh ``weight`` where its own records weigh 1. 0: the coordinator has no say.
    """

    labels: int
    weight: float = 0.0


class Kind(ABC):
    """One kind of answer. Kinds have no state: there is one object of each."""

    name: str
    """The name in the registry."""
    policy: str
    """Name in a silo's policy and its egress log."""
    field: ClassVar[str]
    """The field of a reply that holds it."""
    of: str = "labels"
    """The question's subject, in a word."""
    for_numbers: ClassVar[bool] = False
    """Whether the answer is numbers between classes, or values, which no protection under [privacy] covers.

    Then each silo has targets of its own; otherwise all learn the table of the consensus.
    """
    scores: ClassVar[type[Scores] | type[Fit]] = Scores
    """The test scores that travel with it, where any may."""
    by_name: ClassVar[bool] = False
    """Whether an instruction's ``answer`` asks for it, by its name, and nothing else does; it may have ``soft``."""
    own_model: bool = True
    """Whether the silo's own model learns and answers; otherwise its students do, taught for each question."""
    by_probabilities: ClassVar[bool] = False
    """Whether it is for learners that know probabilities, and learn from them."""
    one_label: ClassVar[bool] = False
    """Whether a silo's answer is one label for each example, by which silos can be compared."""
    labels: ClassVar[bool] = True
    """Whether the consensus is labels, which a global model can learn."""
    learns_labels: bool = True
    """Whether the silo's own model learns the labels in an instruction's ``targets``."""
    added: ClassVar[bool] = False
    """Whether answers stay at the silo, and leave only in a secure sum."""
    inner: "Kind | None" = None
    """The kind whose answers are added in such a sum; None in others."""

    @abstractmethod
    def cost(self, instruction: Instruction, terms: Terms) -> Cost:
        """A question's share of a silo's limits."""

    @abstractmethod
    def longest(self, count: int, votes: int, terms: Terms) -> Votes:
        """Answers on ``count`` examples of which none take more bytes."""

    @abstractmethod
    def put(self, votes: Votes, message: labels_pb2.Reply, terms: Terms) -> None:
        """Write answers into a reply, in the one encoding that ``take`` accepts. Raises Refused for others."""

    @abstractmethod
    def take(self, message: labels_pb2.Reply, instruction: Instruction, terms: Terms) -> Votes:
        """Take them out of a reply to the instruction. Raises Refused for anything that does not answer it."""

    @abstractmethod
    def question(self, number: int, query: Query, targets: HardLabels, votes: int, learning: Soft) -> Instruction:
        """The instruction for round ``number``; arguments that the kind does not need are ignored."""

    def fits(self, quantity: str) -> bool:
        """Whether a study that predicts this quantity (empty: classes) can ask for it: most kinds need classes."""
        return not quantity

    def can_answer(self, votes: int, terms: Terms) -> bool:
        """Whether there are replies to such a question."""
        return True

    def put_question(self, instruction: Instruction, message: labels_pb2.Instruction, terms: Terms) -> None:
        """Put what this kind asks beyond labels into a message, if there is anything. Raises Refused."""
        return

    def take_soft(self, message: labels_pb2.Instruction, terms: Terms) -> Soft | None:
        """Read numbers to learn that ``put_question`` wrote; the codec reads steps and histograms. Raises Refused."""
        return None

    def soft_targets(self, instruction: Instruction) -> SoftTargets | None:
        """Soft targets of an instruction; None without any."""
        return None

    def teaches(self, instruction: Instruction) -> bool:
        """Whether an instruction has targets for the silo's own model."""
        return bool((instruction.targets != ABSTAIN).any())


class Hard(Kind):
    """Labels ``(examples,)``: a class, or ABSTAIN."""

    name = "hard"
    policy = "hard"
    field = "votes"
    one_label = True

    def question(self, number: int, query: Query, targets: HardLabels, votes: int, learning: Soft) -> Instruction:
        return Instruction(number, query, targets)

    def can_answer(self, votes: int, terms: Terms) -> bool:
        return bool(terms.classes)

    def cost(self, instruction: Instruction, terms: Terms) -> Cost:
        return Cost(instruction.query.size)

    def longest(self, count: int, votes: int, terms: Terms) -> Votes:
        return np.full(count, ABSTAIN, dtype=LABEL_DTYPE)

    def put(self, votes: Votes, message: labels_pb2.Reply, terms: Terms) -> None:
        """Bit-packed. Raises Refused (UNKNOWN_CLASS)."""
        message.votes.CopyFrom(labels_message(votes, terms))

    def take(self, message: labels_pb2.Reply, instruction: Instruction, terms: Terms) -> Votes:
        """Labels ``(query.size,)``."""
        return read_labels(message.votes, instruction.query.size, terms)


def labels_message(labels: HardLabels, terms: Terms) -> labels_pb2.Labels:
    """Labels of a reply, or the targets of an instruction. Raises Refused (UNKNOWN_CLASS)."""
    packed, abstentions = pack(labels, terms.num_classes)
    return labels_pb2.Labels(count=len(labels), abstentions=abstentions, packed=packed)


def read_labels(message: labels_pb2.Labels, count: int, terms: Terms) -> HardLabels:
    """The ``count`` labels that ``labels_message`` wrote. Raises Refused."""
    # The count is only compared, never believed: memory follows what was asked for, not what a message claims.
    if message.count != count:
        raise Refused(Refusal.LENGTH)
    return unpack(message.packed, count, terms.num_classes, message.abstentions)


class Counts(Kind):
    """Votes of a silo's students ``(examples, classes)``, which sum to the votes that were asked for."""

    name = "counts"
    policy = "counts"
    of = "votes"
    field = "counts"
    own_model = False
    learns_labels = False

    def question(self, number: int, query: Query, targets: HardLabels, votes: int, learning: Soft) -> Instruction:
        return Instruction(number, query, targets, votes)

    def can_answer(self, votes: int, terms: Terms) -> bool:
        return bool(terms.classes) and can_count(terms.num_classes, votes)

    def cost(self, instruction: Instruction, terms: Terms) -> Cost:
        return Cost(instruction.query.size * instruction.votes)

    def longest(self, count: int, votes: int, terms: Terms) -> Votes:
        counts = np.zeros((count, terms.num_classes), dtype=np.int32)
        counts[:, 0] = votes
        return counts

    def put(self, votes: Votes, message: labels_pb2.Reply, terms: Terms) -> None:
        """Encode each row of counts by its place among all ways to divide the votes over the classes.

        Raises Refused (UNKNOWN_CLASS, QUERY).
        """
        if votes.shape[1] != terms.width:
            raise Refused(Refusal.UNKNOWN_CLASS)
        message.counts.CopyFrom(labels_pb2.Counts(count=len(votes), packed=pack_counts(votes)))

    def take(self, message: labels_pb2.Reply, instruction: Instruction, terms: Terms) -> Votes:
        """Counts ``(query.size, classes)``."""
        if message.counts.count != instruction.query.size:
            raise Refused(Refusal.LENGTH)
        return unpack_counts(message.counts.packed, message.counts.count, terms.num_classes, instruction.votes)


HARD: Final = Hard()
COUNTS: Final = Counts()


def kind_by(
    votes: int, soft: bool, terms: Terms, *, summed: bool = False, noisy: bool = False, answer: str = ""
) -> Kind:
    """The kind that an instruction with ``votes``, with or without ``soft``, a sum or not, noise or not, asks for.

    ``answer`` is its name where it is asked for by name. Raises Refused (MALFORMED) for another name, or one too many.
    """
    # Through the room's front door, as numbers and sums import this file.
    kind: Kind
    if not answer and soft:
        kind = wire.VALUES if terms.quantity else wire.PROBABILITIES
    elif not answer:
        kind = COUNTS if votes else HARD
    else:
        kind = wire.KINDS.get(answer, HARD)
        if not kind.by_name or not kind.fits(terms.quantity) or votes:
            raise Refused(Refusal.MALFORMED)
    return wire.in_sums(kind, noisy=noisy) if summed else kind


def kind_of(instruction: Instruction, terms: Terms) -> Kind:
    """The kind that an instruction asks for."""
    if instruction.histograms is not None:
        return wire.kind_of_counts(instruction.histograms)
    if instruction.joint is not None:
        return wire.GRADIENTS
    asked = instruction.votes, instruction.soft is not None, terms
    return kind_by(*asked, summed=instruction.summed, noisy=bool(instruction.noise), answer=instruction.answer)


def kind_of_votes(votes: Votes, terms: Terms) -> Kind:
    """The kind of a silo's votes, by their type and number of axes."""
    if votes.ndim == NOTHING.ndim:
        # All kinds in sums put the same empty field, so any of them will do.
        return wire.in_sums(HARD)
    if votes.ndim == 1:
        return HARD
    if votes.dtype.kind != "f":
        return COUNTS
    return wire.VALUES if terms.quantity else wire.PROBABILITIES
