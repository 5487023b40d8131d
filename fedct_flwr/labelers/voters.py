"""Models that are trained on parts of the records and vote: each depends on its own part alone."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.consensus.counting import tally
from fedct_flwr.learners.base import Learner
from fedct_flwr.types import Examples, Features, HardLabels, VoteCounts


def trained(learner: Learner, part: Examples) -> Learner | None:
    """The learner, trained on ``part``; None, which casts no vote, without records or if it cannot learn from them.

    To fail as a whole would tell of one record, whatever the exception is: a network of one's own may raise any.
    """
    if part.size == 0:
        return None
    try:
        return learner.fit(part.X, part.y)
    except Exception:
        return None


def vote_of(voter: Learner | None, public: Features) -> HardLabels | None:
    """Its label of each example, ``(examples,)``; None if there is no such voter or it cannot predict."""
    try:
        return None if voter is None else voter.predict(public)
    except Exception:
        return None


def trained_on(
    parts: NDArray[np.int64], private: Examples, num_teachers: int, make_learner: Callable[[int], Learner]
) -> list[Learner]:
    """A learner for each part that has records and can be learned from; ``parts`` ``(records,)`` in 0..num_teachers-1.

    ``make_learner(teacher)`` makes an untrained one.
    """
    voters = (trained(make_learner(teacher), part_of(private, parts == teacher)) for teacher in range(num_teachers))
    return [voter for voter in voters if voter is not None]


def part_of(records: Examples, mine: NDArray[np.bool_] | NDArray[np.intp]) -> Examples:
    """The records of a mask, or at these positions."""
    return Examples(records.X[mine], records.y[mine])


def votes_of(voters: Sequence[Learner], public: Features, num_classes: int) -> VoteCounts:
    """How many vote for each class, ``(examples, classes)``; one that cannot predict votes for none."""
    votes = (vote_of(voter, public) for voter in voters)
    return tally((vote for vote in votes if vote is not None), len(public), num_classes)
