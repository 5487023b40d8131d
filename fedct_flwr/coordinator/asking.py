"""What silos are asked in a round: all the same, or each with targets of its own."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fedct_flwr.consensus.counting import Consensus, State
from fedct_flwr.datasets.public_set import Query
from fedct_flwr.kinds import kind_by
from fedct_flwr.kinds.base import Kind
from fedct_flwr.seeding import seed_words
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, Answers, HardLabels, SiloName, SoftVotes
from fedct_flwr.wire.content import Instruction, Soft, SoftTargets, Terms


class Learning(NamedTuple):
    """How silos learn from each other's probabilities: with this weight, or with 0 before their own records."""

    weight: float = 0.5


@dataclass(frozen=True, eq=False)
class Asking:
    """Makes the instructions of a run. ``votes`` and ``learning`` are explained in ``CoTraining``."""

    terms: Terms
    consensus: Consensus
    query_size: int
    votes: int
    learning: Learning
    seed: int
    summed: bool = False
    """Whether answers are only added."""
    noise: float = 0.0
    """Of the sum, in shares of the silos; see ``Instruction``."""
    answer: str = ""
    """The name of the kind, if it is asked for by its name."""

    @cached_property
    def kind(self) -> Kind:
        """What is asked for."""
        asked = self.votes, self.consensus.targets is not None, self.terms
        return kind_by(*asked, summed=self.summed, noisy=bool(self.noise), answer=self.answer)

    def instruction(self, server_round: int, table: Answers, state: State) -> Instruction:
        """What all silos are asked, but those that have targets of their own; ``table`` are the labels so far.

        Silos that add their answers are all asked the same, or their sum could not be opened: of numbers they learn the
        mean of the round before, in this ``state`` of the consensus, or its shares of votes. So does a silo that was
        not there.

        Silos train on the labels of the round before and not on older ones, which worse models gave: on FashionMNIST
        (5,000 of 50,000 examples a round) that is .838 after 1000 steps, where the whole table gave .826.
        """
        fresh = no_targets(self.terms.num_public)
        if server_round > 1 and not self.kind.own_targets:
            before = self._query(server_round - 1).positions(self.terms.num_public)
            fresh[before] = table[before]
        learning = Soft()
        mean = self.consensus.alike(state) if self.consensus.alike and not self.kind.own_targets else None
        if mean is not None:
            learning = self._learned(mean, server_round)
        asked = self.kind.question(server_round, self._query(server_round), fresh, self.votes, learning)
        return replace(asked, noise=self.noise) if self.noise else asked

    def own(self, instruction: Instruction, state: State, silo: SiloName) -> Instruction | None:
        """The same for a silo that has targets of its own in this state of the consensus; None for others."""
        targets = self.consensus.targets(state, silo) if self.kind.own_targets and self.consensus.targets else None
        if targets is None:
            return None
        return replace(instruction, soft=self._learned(targets, instruction.round))

    def _learned(self, targets: SoftVotes, server_round: int) -> Soft:
        return Soft(targets=SoftTargets(self._query(server_round - 1), targets, self.learning.weight))

    def _query(self, server_round: int) -> Query:
        return query_of(self.seed, server_round, self.query_size)


def query_of(seed: int, server_round: int, size: int) -> Query:
    """The public examples that a run with this seed asks about in a round."""
    low, high = seed_words(seed, "query", server_round)[:2]
    return Query(low | high << 32, size)


def no_targets(num_public: int) -> HardLabels:
    """The table before the first round: nothing is labeled."""
    return np.full(num_public, ABSTAIN, dtype=LABEL_DTYPE)
