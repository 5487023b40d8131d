"""The consensus on grades: mean and median, silos that give none, and a silo that lies."""

from typing import Any

import numpy as np
import pytest

from fedct_flwr.consensus.counting import tally
from fedct_flwr.consensus.grades import consensus_of_grades
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE


def _decided(votes: list[list[int]], *, median: bool = False) -> list[int]:
    ballots: Any = [(str(number), np.array(vote, dtype=LABEL_DTYPE)) for number, vote in enumerate(votes)]
    consensus = consensus_of_grades(5, median=median)
    before = np.full(len(votes[0]), ABSTAIN, dtype=LABEL_DTYPE)
    found, _ = consensus.apply(ballots, before, consensus.init([]), np.random.default_rng(0))
    if consensus.of_sum:
        total = tally((vote for _, vote in ballots), len(before), 5)
        assert consensus.of_sum(total, before, {}, np.random.default_rng(0))[0].tolist() == found.tolist()
    return [int(label) for label in found]


def test_grades_follow_the_means_of_silos_that_give_some() -> None:
    assert _decided([[0, 1, 2, 3, 4], [0, 2, 1, 3, 4], [ABSTAIN] * 5]) == [0, 2, 2, 3, 4]
    assert _decided([[0, ABSTAIN, 4], [0, ABSTAIN, 4]]) == [1, ABSTAIN, 3]


@pytest.mark.parametrize("median", [False, True])
def test_no_grade_leaves_no_grade(median: bool) -> None:
    assert _decided([[ABSTAIN, ABSTAIN]] * 3, median=median) == [ABSTAIN, ABSTAIN]


def test_a_median_moves_less_than_a_mean_when_one_silo_turns_its_grades() -> None:
    rng = np.random.default_rng(0)
    true = np.repeat(np.arange(5), 40)
    honest = [np.clip(true + rng.integers(-1, 2, len(true)), 0, 4) for _ in range(4)]
    votes = [vote.tolist() for vote in (*honest, 4 - true, 4 - true)]
    off = {median: np.abs(np.array(_decided(votes, median=median)) - true).mean() for median in (False, True)}
    assert off[True] < off[False]
