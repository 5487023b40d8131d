"""How many of a silo's students chose each class, for each public example (FedKT)."""

from typing import ClassVar, Final

import numpy as np

from fedct_flwr.consensus.counting import counts_agreed
from fedct_flwr.datasets.public_set import Query
from fedct_flwr.kinds.base import Bench, Cost, Kind
from fedct_flwr.types import ConfigError, HardLabels, Votes
from fedct_flwr.wire import labels_pb2
from fedct_flwr.wire.content import Instruction, Soft, Terms
from fedct_flwr.wire.counts import can_count, pack_counts, unpack_counts
from fedct_flwr.wire.refusal import Refusal, Refused


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
        """Each row as the number of its way. Raises Refused (UNKNOWN_CLASS, QUERY)."""
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

    def cotrain(self, bench: Bench, instruction: Instruction) -> Votes:
        """Raise ConfigError: students answer, and the silo's own model has no part in it."""
        raise ConfigError("students cast votes, not the silo's own model: ask for labels, or for votes of students")


COUNTS: Final = Counts()
