"""Grades of risk, and the consensus on them: their mean or median for each public example, cut into grades again."""

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedct_flwr.consensus.counting import Ballot, Consensus, State, tally
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, Answers, HardLabels, VoteCounts

GRADES: Final = 5


def grades(risk: NDArray[np.floating[Any]], parts: int = GRADES) -> NDArray[np.int64]:
    """The part of each risk ``(n,)``, 0 to ``parts`` - 1, by its place in the order.

    Equal risks take the part of their middle place, so parts may differ in size.

    >>> grades(np.array([0.3, 0.1, 0.2, 0.1]), parts=2)
    array([1, 0, 1, 0])
    """
    _, value, times = np.unique(risk, return_inverse=True, return_counts=True)
    # The middle of the places that equal risks have in the order.
    place = (np.cumsum(times) - times / 2) / max(1, len(risk))
    found: NDArray[np.int64] = np.minimum((place * parts).astype(np.int64), parts - 1)[value]
    return found


def consensus_of_grades(num_grades: int, *, median: bool = False) -> Consensus:
    """The stateless consensus that learns no more than how many silos gave an example each grade.

    Examples that no silo graded stay without a grade.
    """

    def decide(counts: VoteCounts) -> HardLabels:
        graded = counts.any(axis=1)
        decided = np.full(len(counts), ABSTAIN, dtype=LABEL_DTYPE)
        middle = (_medians if median else _means)(counts[graded])
        decided[graded] = grades(middle, num_grades)
        return decided

    def of_sum(total: VoteCounts, incumbent: Answers, state: State, rng: Generator) -> tuple[Answers, State]:
        return decide(total), state

    def apply(ballots: Iterable[Ballot], incumbent: Answers, state: State, rng: Generator) -> tuple[Answers, State]:
        return decide(tally((votes for _, votes in ballots), len(incumbent), num_grades)), state

    return Consensus(lambda silos: {}, apply, of_sum=None if median else of_sum)


def _means(counts: VoteCounts) -> NDArray[np.float64]:
    found: NDArray[np.float64] = counts @ np.arange(counts.shape[1]) / counts.sum(axis=1)
    return found


def _medians(counts: VoteCounts) -> NDArray[np.float64]:
    """Of counts ``(examples, grades)``: the mean of the two in the middle where their number is even.

    >>> _medians(np.int32([[2, 0, 1], [1, 0, 1]]))
    array([0., 1.])
    """
    below, cast = np.cumsum(counts, axis=1), counts.sum(axis=1, keepdims=True)
    lower, upper = ((below >= part).argmax(axis=1) for part in ((cast + 1) // 2, cast // 2 + 1))
    found: NDArray[np.float64] = (lower + upper) / 2
    return found
