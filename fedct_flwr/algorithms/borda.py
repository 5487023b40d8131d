"""FedCT by Borda's count: silos share their two likeliest classes, and the first counts twice as much.

Ho, Hull, Srihari, "Decision combination in multiple classifier systems", IEEE Transactions on Pattern Analysis and
Machine Intelligence 16 (1994), §4.2: Borda counts, here of each classifier's first two ranks.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from fedct_flwr.config import RunConfig
from fedct_flwr.config.uses import Uses, uses
from fedct_flwr.consensus.counting import Ballot, Consensus, Decide, State, plurality
from fedct_flwr.coordinator.label_sharing import IN_ROUNDS, LabelSharing
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.kinds.base import Kind
from fedct_flwr.kinds.ranked import RANKED
from fedct_flwr.learners.base import Learner
from fedct_flwr.types import HardLabels, SiloName


@dataclass(frozen=True)
class Borda(LabelSharing):
    """Two classes of each silo, the likeliest with two points and the second with one."""

    name: ClassVar[str] = "fedct-borda"
    title: ClassVar[str] = "FedCT"
    kind: ClassVar[Kind] = RANKED
    used: ClassVar[Uses] = IN_ROUNDS | uses("pseudo-weight")

    def consensus(self, num_classes: int, decide: Decide = plurality) -> Consensus:
        """Most points (Ho, Hull, Srihari, 1994), in the rounds of arXiv:2310.05696, Algorithm 1."""

        def init(silos: Sequence[SiloName]) -> State:
            return {}

        def apply(
            ballots: Iterable[Ballot], incumbent: HardLabels, state: State, rng: Generator
        ) -> tuple[HardLabels, State]:
            points = np.zeros((len(incumbent), num_classes), dtype=np.int32)
            rows = np.arange(len(incumbent))
            for _, votes in ballots:
                points[rows, votes[:, 0]] += 2
                points[rows, votes[:, 1]] += 1
            return plurality(points, incumbent, rng), state

        return Consensus(init, apply)

    def check_silos(self, config: RunConfig, dataset: FederatedDataset | None, learners: list[Learner]) -> None:
        """Raise ConfigError for silos with a protection, or whose learners rank no classes."""
        if config.protection != "none":
            self.kind.check_protection(config.protection)
        for learner in learners:
            self.kind.check_learner(learner)
