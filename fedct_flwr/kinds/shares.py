"""Labels, as ``hard``; what silos learn of each other is how the votes for the classes are shared, not who won.

These are the soft targets of distillation (Hinton, Vinyals, Dean, arXiv:1503.02531), made of hard labels alone.
"""

from dataclasses import replace
from typing import ClassVar, Final

import numpy as np

from fedct_flwr.datasets.public_set import Query
from fedct_flwr.kinds.base import Bench, as_kind
from fedct_flwr.kinds.hard import Hard
from fedct_flwr.kinds.probabilities import PROBABILITIES
from fedct_flwr.learners.base import Resumable
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, HardLabels, Votes
from fedct_flwr.wire import labels_pb2
from fedct_flwr.wire.content import Instruction, Soft, Terms
from fedct_flwr.wire.refusal import Refusal, Refused

_WEIGHT: Final = 1.0
"""Of targets in an instruction: how much they count is the silo's to say, as with labels."""
_NOTHING: Final = 1.5 / 255
"""By how much the shares of an example differ at most that tells nothing: as many votes for each class, or none."""


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

    check_learner, learning_size, soft_targets, teaches, guard_of = (
        as_kind(lambda self: PROBABILITIES, method)
        for method in ("check_learner", "learning_size", "soft_targets", "teaches", "guard_of")
    )

    def put_learning(self, instruction: Instruction, message: labels_pb2.Instruction, terms: Terms) -> None:
        """Put the shares into the message. Raises Refused (PROBABILITIES)."""
        if instruction.soft:
            PROBABILITIES.put_learning(instruction, message, terms)

    def take_learning(self, message: labels_pb2.Instruction, terms: Terms) -> Soft | None:
        """The shares; the coordinator says nothing of how to train, and gives no labels. Raises Refused."""
        if message.HasField("targets"):
            raise Refused(Refusal.MALFORMED)
        if not message.HasField("soft"):
            return None
        learning = PROBABILITIES.take_learning(message, terms)
        if learning is None or learning.targets is None or learning.targets.weight != _WEIGHT:
            raise Refused(Refusal.MALFORMED)
        return learning

    def cotrain(self, bench: Bench, instruction: Instruction) -> Votes:
        targets = self.soft_targets(instruction)
        if targets is None:
            self.check_learner(bench.learner)
            return super().cotrain(bench, instruction)
        told = np.ptp(targets.votes, axis=1) > _NOTHING
        weight = bench.settings.full_weight
        if not isinstance(bench.learner, Resumable):
            # Each counts what a pseudo-labeled example does. A network's batches have some, however many there are.
            weight *= np.count_nonzero(told) / bench.private.size
        learned = targets._replace(votes=np.where(told[:, np.newaxis], targets.votes, 0), weight=weight)
        learning = Soft(targets=learned) if told.any() else Soft()
        sure = PROBABILITIES.cotrain(bench, replace(instruction, soft=learning))
        labels: HardLabels = sure.argmax(axis=1).astype(LABEL_DTYPE)
        return labels


SHARES: Final = Shares()
