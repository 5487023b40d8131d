"""One class for each public example, or no label at all."""

from typing import ClassVar, Final

import numpy as np

from fedct_flwr.datasets.public_set import Query
from fedct_flwr.kinds.base import Bench, Cost, Kind
from fedct_flwr.learners.cotraining import cotrain
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, HardLabels, Votes
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
        """With targets for all silos."""
        return Instruction(number, query, targets)

    def can_answer(self, votes: int, terms: Terms) -> bool:
        """Where there are classes."""
        return bool(terms.classes)

    def cost(self, instruction: Instruction, terms: Terms) -> Cost:
        """One label for each example."""
        return Cost(instruction.query.size)

    def longest(self, count: int, votes: int, terms: Terms) -> Votes:
        """Abstentions alone."""
        return np.full(count, ABSTAIN, dtype=LABEL_DTYPE)

    def put(self, votes: Votes, message: labels_pb2.Reply, terms: Terms) -> None:
        """Bit-packed. Raises Refused (UNKNOWN_CLASS)."""
        message.votes.CopyFrom(labels_message(votes, terms))

    def take(self, message: labels_pb2.Reply, instruction: Instruction, terms: Terms) -> Votes:
        """Labels ``(query.size,)``."""
        return read_labels(message.votes, instruction.query.size, terms)

    def cotrain(self, bench: Bench, instruction: Instruction) -> Votes:
        """Learn the consensus labels along with the records, then label the queried examples."""
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
