"""Kinds of a silo's answer: the bytes of each, and what it costs.

How a silo makes an answer stands in ``silo/answers.py``, what the round log says of it in ``coordinator/facts.py``, and
its words for people in ``text/kinds.py``. The kind is told by the instruction alone.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, Final, NamedTuple

import numpy as np

from fedct_flwr import wire
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, HardLabels, Refusal, Refused, SoftVotes, Votes
from fedct_flwr.wire import labels_pb2
from fedct_flwr.wire.content import Fit, Instruction, Query, Scores, Soft, SoftTargets, Terms
from fedct_flwr.wire.packing import (
    can_count,
    pack,
    pack_counts,
    pack_probabilities,
    pack_values,
    unpack,
    unpack_counts,
    unpack_probabilities,
    unpack_values,
)

MAX_WEIGHT: Final = 1e6
_IN_TURN: Final = 1.0
"""Weight of targets of weight 0: they are learned alone, in as many steps as the records after them."""
WEIGHT_OF_SHARES: Final = 1.0
"""Weight of shares of votes in an instruction: the silo decides how much they count, as with labels."""
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
    one_label: ClassVar[bool] = False
    """Whether a silo's answer is one label for each example, by which silos can be compared."""
    labels: ClassVar[bool] = True
    """Whether the consensus is labels, which a global model can learn."""
    learns_labels: bool = True
    """Whether the silo's own model learns the labels in an instruction's ``targets``."""
    added: ClassVar[bool] = False
    """Whether answers stay at the silo, and leave in a secure sum alone."""
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


class Numbers(Kind):
    """Numbers ``(examples, width)``, see ``Terms.width``. Each silo learns a mix of its own of all silos' numbers."""

    policy = "soft"
    learns_labels = False
    own_targets = True
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


class Probabilities(Numbers):
    """Probabilities ``(examples, classes)``, rows sum to 1."""

    name = "probabilities"
    of = "probabilities"
    field = "probabilities"
    targets_field = "targets"

    def pack(self, votes: SoftVotes, terms: Terms) -> bytes:
        return pack_probabilities(votes)

    def unpack(self, packed: bytes, count: int, terms: Terms) -> SoftVotes:
        return unpack_probabilities(packed, count, terms.num_classes)


class Values(Numbers):
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


HARD: Final = Hard()
COUNTS: Final = Counts()
PROBABILITIES: Final = Probabilities()
VALUES: Final = Values()


class Shares(Hard):
    """Labels ``(examples,)``; learned are shares of the votes ``(examples, classes)``."""

    name = "shares"
    policy = "shares"
    by_name = True
    with_soft = True
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
BY_PROBABILITIES: Final = (PROBABILITIES, SHARES)
"""Kinds for learners that know probabilities, and learn from them."""


KINDS: Final[dict[str, Kind]] = {kind.name: kind for kind in (HARD, COUNTS, PROBABILITIES, VALUES, SHARES)}


def kind_by(
    votes: int, soft: bool, terms: Terms, *, summed: bool = False, noisy: bool = False, answer: str = ""
) -> Kind:
    """The kind that an instruction with ``votes``, with or without ``soft``, a sum or not, noise or not, asks for.

    ``answer`` is its name where it is asked for by name. Raises Refused (MALFORMED) for another name, or one too many.
    """
    if not answer:
        policy = PROBABILITIES.policy if soft else COUNTS.policy if votes else HARD.policy
        fitting = (kind for kind in KINDS.values() if kind.fits(terms.quantity) or not soft)
        kind = next(kind for kind in fitting if kind.policy == policy)
    else:
        named = KINDS.get(answer)
        if named is None or not named.by_name or not named.fits(terms.quantity):
            raise Refused(Refusal.MALFORMED)
        if votes or (soft and not named.with_soft):
            raise Refused(Refusal.MALFORMED)
        kind = named
    return wire.in_sums(kind, noisy=noisy) if summed else kind


def kind_of(instruction: Instruction, terms: Terms) -> Kind:
    """The kind that an instruction asks for."""
    if instruction.histograms is not None:
        asks = instruction.histograms
        return wire.SCORES if asks.scores else wire.PATIENTS if asks.where else wire.HISTOGRAMS
    if instruction.joint is not None:
        return wire.GRADIENTS
    asked = instruction.votes, instruction.soft is not None, terms
    return kind_by(*asked, summed=instruction.summed, noisy=bool(instruction.noise), answer=instruction.answer)


def kind_of_votes(votes: Votes, terms: Terms) -> Kind:
    """The kind of a silo's votes, by their type and number of axes."""
    if votes.ndim == NOTHING.ndim:
        return wire.SUMS[HARD.name]
    if votes.ndim == 1:
        return HARD
    return kind_for(PROBABILITIES, terms.quantity) if votes.dtype.kind == "f" else COUNTS


def kind_for(kind: Kind, quantity: str) -> Kind:
    """The kind for predicting a ``quantity`` (empty: classes): values replace probabilities."""
    fitting = [other for other in KINDS.values() if other.fits(quantity)]
    return next((other for other in fitting if other.policy == kind.policy), fitting[0])
