"""The personal model's own labels, each randomized: for any learner, and dear."""

from functools import lru_cache
from typing import ClassVar, Final

import numpy as np
from dp_accounting import DpEvent

from fedct_flwr.labelers.labeler import Asked, KeepsNothing, Start
from fedct_flwr.privacy.accounting import SLOW_QUERIES, calibrate
from fedct_flwr.privacy.mechanisms import RandomizedResponse
from fedct_flwr.privacy.randomness import Noise
from fedct_flwr.types import ABSTAIN, HardLabels

_LARGEST: Final = 50.0
"""An epsilon per label beyond which no label would ever change."""


def labeler(start: Start) -> "RandomizedLabeler":
    """For the labels that the study plans."""
    privacy, queries = start.privacy, start.privacy.planned_queries(len(start.public))
    return RandomizedLabeler(start.num_classes, num_queries=queries, epsilon=privacy.epsilon, delta=privacy.delta)


class RandomizedLabeler(KeepsNothing):
    """Answers with ``asked.votes`` through k-ary randomized response; every answer costs, a repeated one again.

    ``num_queries`` labels are planned in the whole study, for ``epsilon`` at ``delta`` in total; one that is asked
    more costs more. Satisfies ``Labeler``, and keeps nothing.

    Formal guarantees:
        Pure: each label is ``mechanism.epsilon``-DP for a record, and for the silo as a whole, whatever either changes
        in the personal model: so it needs to know nothing of the learner. n labels are as n releases of
        ``RandomizedResponse``, and ``num_queries`` of them (epsilon, delta)-DP. The labels come from a model that saw
        all records: what one record changes is not bounded, so the price grows with the number of labels.
    """

    reads_votes: ClassVar[bool] = True

    def __init__(self, num_classes: int, *, num_queries: int, epsilon: float, delta: float) -> None:
        self._num_classes = num_classes
        self.mechanism = RandomizedResponse(num_classes, 1 / _least_noise(num_classes, num_queries, epsilon, delta))

    def event(self, asked: Asked) -> DpEvent:
        return self.mechanism.event(len(asked.positions))

    def answer(self, asked: Asked, noise: Noise) -> HardLabels:
        """The votes, some of them changed at random, ``(positions,)``; what is no class becomes any class.

        That is an abstention, or whatever else a learner of one's own says: to fail would tell of the records.
        """
        votes = np.asarray(asked.votes)
        known = (votes >= 0) & (votes < self._num_classes)
        return self.mechanism(np.where(known, votes, ABSTAIN), noise)


@lru_cache(maxsize=64)
def _least_noise(num_classes: int, num_queries: int, epsilon: float, delta: float) -> float:
    """Takes seconds, and a simulation has many silos with one plan."""

    def planned(noise: float) -> DpEvent:
        return RandomizedResponse(num_classes, 1 / noise).event(num_queries)

    highest = 100 * num_queries / epsilon
    quick = num_queries > SLOW_QUERIES
    return calibrate(planned, epsilon, delta, min(1 / _LARGEST, highest), highest, quick=quick)
