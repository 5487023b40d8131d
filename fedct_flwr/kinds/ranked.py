"""The two likeliest classes of each public example, in order: more than a label, and less than probabilities."""

from typing import ClassVar, Final

import numpy as np

from fedct_flwr.consensus.counting import agreed
from fedct_flwr.datasets.public_set import Query
from fedct_flwr.kinds.base import Bench, Cost, Kind
from fedct_flwr.kinds.hard import HARD
from fedct_flwr.learners.base import Learner, Probabilistic
from fedct_flwr.learners.soft import soft_labels
from fedct_flwr.types import LABEL_DTYPE, ConfigError, HardLabels, Votes
from fedct_flwr.wire import labels_pb2
from fedct_flwr.wire.content import Instruction, Soft, Terms
from fedct_flwr.wire.packing import code_width, pack_codes, unpack_codes
from fedct_flwr.wire.refusal import Refusal, Refused


class Ranked(Kind):
    """Classes ``(examples, 2)``, int16: the likeliest and the second, which is another one."""

    name: ClassVar[str] = "ranked"
    policy: ClassVar[str] = "ranked"
    of: ClassVar[str] = "ranked classes"
    field: ClassVar[str] = "ranked"
    by_name: ClassVar[bool] = True
    shared: ClassVar[str] = "the two likeliest classes of public examples"
    unprotected: ClassVar[str] = (
        "the labels were made of the classes that the silos' own models find likeliest, without noise"
    )
    leaves: ClassVar[str] = (
        "ranked classes: the two likeliest ones, in order, for each public example that is asked about"
    )
    in_short: ClassVar[str] = "ranked classes, each counted as a label"
    beware: ClassVar[str] = (
        "Two classes in order tell more than a label. No protection under [privacy] covers them. Each of the two "
        "counts as a label towards the limits"
    )

    def holds(self, votes: Votes, terms: Terms) -> bool:
        """Two classes are labels, and counts are of another type."""
        return votes.ndim > 1 and votes.dtype == LABEL_DTYPE and votes.shape[1:] == (2,)

    def question(self, number: int, query: Query, targets: HardLabels, votes: int, learning: Soft) -> Instruction:
        """With targets for all silos."""
        return Instruction(number, query, targets, answer=self.name)

    def can_answer(self, votes: int, terms: Terms) -> bool:
        """Where there are two classes."""
        return terms.num_classes > 1

    def cost(self, instruction: Instruction, terms: Terms) -> Cost:
        """Two labels for each example."""
        return Cost(2 * instruction.query.size)

    def size(self, count: int, votes: int, terms: Terms) -> int:
        """As all answers."""
        return -(-count * _width(terms) // 8)

    def longest(self, count: int, votes: int, terms: Terms) -> Votes:
        """The first class before the second."""
        return np.tile(np.array([0, 1], dtype=LABEL_DTYPE), (count, 1))

    def put(self, votes: Votes, message: labels_pb2.Reply, terms: Terms) -> None:
        """Each pair as a number. Raises Refused (UNKNOWN_CLASS)."""
        first, second = votes.astype(np.int64).T
        if votes.size and not (votes.min() >= 0 and votes.max() < terms.num_classes and (first != second).all()):
            raise Refused(Refusal.UNKNOWN_CLASS)
        codes = (first * (terms.num_classes - 1) + second - (second > first)).astype(np.uint64)
        message.ranked.CopyFrom(labels_pb2.Ranked(count=len(votes), packed=pack_codes(codes, _width(terms))))

    def take(self, message: labels_pb2.Reply, instruction: Instruction, terms: Terms) -> Votes:
        """Classes ``(query.size, 2)``. Raises Refused (LENGTH, UNKNOWN_CLASS)."""
        count = instruction.query.size
        if message.ranked.count != count:
            raise Refused(Refusal.LENGTH)
        codes = unpack_codes(message.ranked.packed, count, _width(terms), np.uint64).astype(np.int64)
        if codes.max() >= terms.num_classes * (terms.num_classes - 1):
            raise Refused(Refusal.UNKNOWN_CLASS)
        first, second = np.divmod(codes, terms.num_classes - 1)
        return np.column_stack([first, second + (second >= first)]).astype(LABEL_DTYPE)

    def agreed(self, votes: Votes, decided: HardLabels) -> float:
        """Of the likeliest classes."""
        return agreed(votes[:, 0], decided)

    def check_learner(self, learner: Learner) -> None:
        """Raise ConfigError for a learner that knows no probabilities."""
        if not isinstance(learner, Probabilistic):
            raise ConfigError(f"{type(learner).__name__} ranks no classes, as it knows no probabilities: use another")

    def check_protection(self, protection: str) -> None:
        """Raise ConfigError: no protection covers two classes."""
        raise ConfigError(f"the coordinator asks for ranked classes, which protection = {protection!r} does not cover")

    def cotrain(self, bench: Bench, instruction: Instruction) -> Votes:
        """Learn the consensus labels along with the records, then rank the classes of the queried examples."""
        self.check_learner(bench.learner)
        HARD.cotrain(bench, instruction)
        X = bench.public.X[instruction.query.positions(len(bench.public))]
        likely = soft_labels(bench.learner, X, bench.terms.num_classes)
        # Of equally likely classes the first, as labels have it.
        return np.argsort(-likely, axis=1, kind="stable")[:, :2].astype(LABEL_DTYPE)


def _width(terms: Terms) -> int:
    """Bits of a pair."""
    return code_width(terms.num_classes * (terms.num_classes - 1), abstentions=False)


RANKED: Final = Ranked()
