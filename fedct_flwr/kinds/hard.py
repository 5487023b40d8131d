"""One class for each public example, or no label; also learned as shares of the votes, or from several students.

Shares are the soft targets of distillation (Hinton, Vinyals, Dean, arXiv:1503.02531), made of hard labels alone.
"""

import math
from dataclasses import replace
from typing import Any, ClassVar, Final

import numpy as np

from fedct_flwr.consensus.label_matrix import counts_agreed
from fedct_flwr.datasets.federated import PublicSet, Query
from fedct_flwr.kinds.base import Cost, Kind, SiloTools, as_kind
from fedct_flwr.kinds.probabilities import PROBABILITIES
from fedct_flwr.learners.base import Choosing, Grading, Learner, Resumable
from fedct_flwr.learners.out_of_fold import Pseudo, chosen, fit_with
from fedct_flwr.learners.safeguard import NetworkSafeguard, Safeguard
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, ConfigError, Examples, HardLabels, Votes
from fedct_flwr.wire import labels_pb2
from fedct_flwr.wire.content import Instruction, Soft, Terms
from fedct_flwr.wire.packing import can_count, pack, pack_counts, unpack, unpack_counts
from fedct_flwr.wire.refusal import Refusal, Refused


class Hard(Kind):
    """Labels ``(examples,)``: a class, or ABSTAIN."""

    name: ClassVar[str] = "hard"
    policy: ClassVar[str] = "hard"
    field: ClassVar[str] = "votes"
    one_label: ClassVar[bool] = True
    shared: ClassVar[str] = "labels of public examples"
    unprotected: ClassVar[str] = "the labels are those of the silos' own models, without noise"
    leaves: ClassVar[str] = "hard labels: one class for each public example that is asked about"
    in_short: ClassVar[str] = "labels"

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

    def safeguard_of(self, tools: SiloTools) -> Any:
        return tools.learner if isinstance(tools.learner, Grading) else tools.safeguard

    def cotrain(self, tools: SiloTools, instruction: Instruction) -> Votes:
        targets, query = instruction.targets, instruction.query
        weight = tools.settings.full_weight
        trial = math.ceil(_TRIAL / tools.settings.local_steps)
        return cotrain(tools.learner, tools.private, tools.public, targets, query, weight, tools.safeguard, trial)


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


HARD: Final = Hard()
_TRIAL: Final = 50
"""Steps, rounded up to rounds, after which a network shows what the consensus does to it."""


def cotrain(
    learner: Learner,
    private: Examples,
    public: PublicSet,
    targets: HardLabels,
    query: Query,
    pseudo_weight: float = 1.0,
    safeguard: Safeguard | None = None,
    trial: int = 1,
) -> HardLabels:
    """Train on private and pseudo-labeled examples, then label the queried ones: votes ``(query.size,)``.

    ``targets`` ``(num_public,)`` are the consensus labels, or ABSTAIN. A pseudo-labeled example weighs
    ``pseudo_weight``, a private one 1, unless a ``safeguard`` decides: of a learner that trains on, after ``trial``
    rounds of what the consensus does to it. Raises TrainingError (Abourayya et al., arXiv:2310.05696, Alg. 1).
    """
    positions = query.positions(len(public))
    if isinstance(learner, Choosing):
        learner.choose(private)
    if isinstance(learner, Grading):
        return learner.grade(private, public.X, targets, positions)
    if isinstance(learner, Resumable):
        if isinstance(safeguard, NetworkSafeguard):
            trust = safeguard.weigh(learner, public.X, targets, trial)
            private, pseudo_weight = safeguard.training, trust.weight or pseudo_weight
            targets = targets if trust.weight else np.full_like(targets, ABSTAIN)
        learner.advance(private, public.X, targets, pseudo_weight)
        return learner.label(public.X, positions)
    weight = pseudo_weight
    if safeguard:
        trust = safeguard.trust(learner, public.X, targets)
        weight, targets = trust.weight, safeguard.counted(trust, targets)
    labeled = np.flatnonzero(targets != ABSTAIN) if weight else np.zeros(0, dtype=np.intp)
    fit_with(learner, private, Pseudo(chosen(public.X, labeled), targets[labeled], weight))
    # A copy: a user's own learner may change what it is given.
    return learner.predict(public.X[positions])


_WEIGHT: Final = 1.0
"""Weight of targets in an instruction: the silo decides how much they count, as with labels."""
_NOTHING: Final = 1.5 / 255
"""Largest difference of an example's shares that carries no information: equal votes for all classes, or none."""


class Shares(Hard):
    """Labels ``(examples,)``; learned are shares of the votes ``(examples, classes)``."""

    name: ClassVar[str] = "shares"
    policy: ClassVar[str] = "shares"
    by_name: ClassVar[bool] = True
    with_soft: ClassVar[bool] = True
    learns_labels: ClassVar[bool] = False
    shared: ClassVar[str] = "labels of public examples, of whose votes all silos learn the shares"
    leaves: ClassVar[str] = (
        "hard labels: one class for each public example that is asked about. Every silo is told how many of the votes "
        "each class has"
    )
    in_short: ClassVar[str] = "labels, whose votes are shared"
    beware: ClassVar[str] = (
        "The share of the votes that each class has tells the other silos more than which class won. With two silos, "
        "each can read the other's labels from it; with few, much of them"
    )

    def question(self, number: int, query: Query, targets: HardLabels, votes: int, learning: Soft) -> Instruction:
        soft = learning if learning.targets else None
        return Instruction(number, query, np.full_like(targets, ABSTAIN), soft=soft, answer=self.name)

    check_learner, soft_targets, teaches, safeguard_of = (
        as_kind(lambda self: PROBABILITIES, method)
        for method in ("check_learner", "soft_targets", "teaches", "safeguard_of")
    )

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
        if learning is None or learning.targets is None or learning.targets.weight != _WEIGHT:
            raise Refused(Refusal.MALFORMED)
        return learning

    def cotrain(self, tools: SiloTools, instruction: Instruction) -> Votes:
        targets = self.soft_targets(instruction)
        if targets is None:
            self.check_learner(tools.learner)
            return super().cotrain(tools, instruction)
        informative = np.ptp(targets.votes, axis=1) > _NOTHING
        weight = tools.settings.full_weight
        if not isinstance(tools.learner, Resumable):
            # Each counts as a pseudo-labeled example does. A network's batches have a fixed number of them.
            weight *= np.count_nonzero(informative) / tools.private.size
        learned = targets._replace(votes=np.where(informative[:, np.newaxis], targets.votes, 0), weight=weight)
        learning = Soft(targets=learned) if informative.any() else Soft()
        sure = PROBABILITIES.cotrain(tools, replace(instruction, soft=learning))
        labels: HardLabels = sure.argmax(axis=1).astype(LABEL_DTYPE)
        return labels


SHARES: Final = Shares()


class Counts(Kind):
    """Counts ``(examples, classes)``, which sum to the votes that were asked for."""

    name: ClassVar[str] = "counts"
    policy: ClassVar[str] = "counts"
    of: ClassVar[str] = "votes"
    field: ClassVar[str] = "counts"
    own_model: ClassVar[bool] = False
    learns_labels: ClassVar[bool] = False
    shared: ClassVar[str] = "its students' votes on public examples"
    unprotected: ClassVar[str] = (
        "the labels are what students at the silos voted for, who learned from models of the silos' records without "
        "noise"
    )
    leaves: ClassVar[str] = (
        "votes: how many of the silo's students chose each class, for each public example that is asked about"
    )
    in_short: ClassVar[str] = "votes, each counted as a label"
    beware: ClassVar[str] = (
        "Votes tell more than labels: on which examples the silo's students disagree, and so where its records "
        "say little. Each vote counts as a label towards the limits"
    )

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

    def agreed(self, votes: Votes, decided: HardLabels) -> float:
        return counts_agreed(votes, decided)

    def cotrain(self, tools: SiloTools, instruction: Instruction) -> Votes:
        """Raise ConfigError: students answer, and the silo's own model has no part in it."""
        raise ConfigError("students cast votes, not the silo's own model: ask for labels, or for votes of students")


COUNTS: Final = Counts()
