"""One class for each public example, or no label at all."""

from typing import ClassVar, Final

import numpy as np

from fedct_flwr.datasets.public_set import PublicSet, Query
from fedct_flwr.kinds.base import Bench, Cost, Kind
from fedct_flwr.learners.base import Choosing, Learner, Resumable
from fedct_flwr.learners.guard import Guard
from fedct_flwr.learners.out_of_fold import Pseudo, chosen, fit_with
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, Examples, HardLabels, Votes
from fedct_flwr.wire import labels_pb2
from fedct_flwr.wire.content import Instruction, Soft, Terms
from fedct_flwr.wire.packing import pack, unpack
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

    def cotrain(self, bench: Bench, instruction: Instruction) -> Votes:
        targets, query = instruction.targets, instruction.query
        weight = bench.settings.full_weight
        return cotrain(bench.learner, bench.private, bench.public, targets, query, weight, bench.guard)


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


def cotrain(
    learner: Learner,
    private: Examples,
    public: PublicSet,
    targets: HardLabels,
    query: Query,
    pseudo_weight: float = 1.0,
    guard: Guard | None = None,
) -> HardLabels:
    """Train on private and pseudo-labeled examples, then label the queried ones: votes ``(query.size,)``.

    ``targets`` ``(num_public,)`` are the consensus labels, or ABSTAIN. A pseudo-labeled example weighs
    ``pseudo_weight``, a private one 1, unless a ``guard`` decides. Resumable learners train on, at ``pseudo_weight``.
    Raises TrainingError (Abourayya et al., arXiv:2310.05696, Alg. 1).
    """
    positions = query.positions(len(public))
    if isinstance(learner, Choosing):
        learner.choose(private)
    if isinstance(learner, Resumable):
        learner.advance(private, public.X, targets, pseudo_weight)
        return learner.label(public.X, positions)
    weight = pseudo_weight
    if guard:
        trust = guard.trust(learner, public.X, targets)
        weight, targets = trust.weight, guard.counted(trust, targets)
    labeled = np.flatnonzero(targets != ABSTAIN) if weight else np.zeros(0, dtype=np.intp)
    fit_with(learner, private, Pseudo(chosen(public.X, labeled), targets[labeled], weight))
    # A copy: a user's own learner may change what it is given.
    return learner.predict(public.X[positions])
