"""A consensus rule of your own: a label in force yields only to a class that is well ahead."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np
from numpy.random import Generator
from pydantic import Field

from fedct_flwr import FedCT, simulate
from fedct_flwr.algorithms.fedct import LabelSharing
from fedct_flwr.consensus.counting import Consensus, Decide, counting, plurality
from fedct_flwr.types import ABSTAIN, HardLabels, VoteCounts


def reluctant(counts: VoteCounts, incumbent: HardLabels, rng: Generator, *, lead: int) -> HardLabels:
    """The plurality's label; but a label in force yields only to a class that is ahead by ``lead`` votes."""
    labels = plurality(counts, incumbent, rng)
    held = np.flatnonzero(incumbent != ABSTAIN)
    ahead = counts[held].max(axis=1) - counts[held, incumbent[held]]
    stays = held[ahead < lead]
    labels[stays] = incumbent[stays]
    return labels


@dataclass(frozen=True)
class Reluctant(LabelSharing):
    """FedCT in which a label in force yields only to a class that is well ahead."""

    name = "fedct-reluctant"
    title = "FedCT"

    lead: Annotated[int, Field(ge=1)] = 2
    """Votes that a class must be ahead by."""

    def consensus(self, num_classes: int, decide: Decide = plurality) -> Consensus:
        """The rule as a whole consensus, without a memory."""
        return counting(num_classes, partial(reluctant, lead=self.lead))


run = simulate("heart-disease", algorithm=FedCT(Reluctant(lead=2)), learner="decision-tree", progress=False)
for entry in run.records:
    print(f"round {entry['round']}: {entry['changed']} labels changed")
