"""Kinds of a silo's answer: the bytes of each, and what it costs.

How a silo makes an answer stands in ``silo/personal.py``, what the round log says of it in
``coordinator/questions.py``, and its words for people in ``report/kind_words.py``. The kind is told by the instruction
alone.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, Final, NamedTuple

import numpy as np

from fedct_flwr import wire
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, HardLabels, Refusal, Refused, Votes
from fedct_flwr.wire import labels_pb2
from fedct_flwr.wire.content import Fit, Instruction, Query, Scores, Soft, SoftTargets, Terms
from fedct_flwr.wire.packing import (
    can_count,
    pack,
    pack_counts,
    unpack,
    unpack_counts,
)

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
    """Whether the answer is numbers between classes, or values, which no protection under [privacy] covers."""
    scores: ClassVar[type[Scores] | type[Fit]] = Scores
    """The test scores that travel with it, where any may."""
    by_name: ClassVar[bool] = False
    """Whether an instruction's ``answer`` asks for it, by its name, and nothing else does."""
    with_soft: ClassVar[bool] = False
    """Whether an instruction that asks for it by its name may have ``soft``."""
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
    own_targets: ClassVar[bool] = False
    """Whether each silo has targets of its own; otherwise all learn the table of the consensus."""

    @abstractmethod
    def cost(self, instruction: Instruction, terms: Terms) -> Cost:
        """A question's share of a silo's limits."""

    @abstractmethod
    def longest(self, count: int, votes: int, terms: Terms) -> Votes:
        """Answers on ``count`` examples of which none take more bytes."""

    @abstractmethod
    def put(self, votes: Votes, message: labels_pb2.Reply, terms: Terms) -> None:
        """Put answers into a reply, in their one encoding. Raises Refused for answers of another kind."""

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

    def put_learning(self, instruction: Instruction, message: labels_pb2.Instruction, terms: Terms) -> None:
        """Put the coordinator's settings for training into a message, if there are any. Raises Refused."""
        return

    def take_learning(self, message: labels_pb2.Instruction, terms: Terms) -> Soft | None:
        """Read the settings that ``put_learning`` wrote. Raises Refused."""
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
        """Encode each row as its number. Raises Refused (UNKNOWN_CLASS, QUERY)."""
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
    kind: Kind
    if not answer and soft:
        kind = wire.VALUES if terms.quantity else wire.PROBABILITIES
    elif not answer:
        kind = COUNTS if votes else HARD
    else:
        kind = wire.KINDS.get(answer, HARD)
        if not kind.by_name or not kind.fits(terms.quantity) or votes or (soft and not kind.with_soft):
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
        return wire.in_sums(HARD)
    if votes.ndim == 1:
        return HARD
    if votes.dtype.kind != "f":
        return COUNTS
    return wire.VALUES if terms.quantity else wire.PROBABILITIES
