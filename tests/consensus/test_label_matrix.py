"""The votes of a round as a matrix, and what a consensus keeps of each silo."""

import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedct_flwr.consensus.agreement import agreement
from fedct_flwr.consensus.counting import Ballot, Consensus
from fedct_flwr.consensus.dawid_skene import dawid_skene
from fedct_flwr.consensus.label_matrix import label_matrix, no_rows, rows_of, unanimous, with_rows
from fedct_flwr.types import ABSTAIN


@given(st.permutations(range(4)))
def test_rows_are_in_the_same_order_whatever_the_order_and_the_names_of_the_ballots(order: list[int]) -> None:
    votes = np.random.default_rng(0).integers(ABSTAIN, 3, (4, 20)).astype(np.int16)
    matrix = label_matrix(((f"silo-{n}", votes[row]) for n, row in enumerate(order)), 20, 3)
    np.testing.assert_array_equal(matrix.votes, label_matrix(enumerate_silos(votes), 20, 3).votes)
    for silo, row in zip(matrix.silos, matrix.votes, strict=True):
        vote = votes[order[int(silo[-1])]]
        np.testing.assert_array_equal(row, np.where(vote == ABSTAIN, 3, vote))


def enumerate_silos(votes: np.ndarray) -> list[tuple[str, np.ndarray]]:
    return [(f"silo-{number}", vote) for number, vote in enumerate(votes)]


@pytest.mark.parametrize(("classes", "size"), [(254, 1), (255, 2)])
def test_a_vote_takes_a_byte_as_long_as_classes_and_abstention_fit(classes: int, size: int) -> None:
    matrix = label_matrix([("a", np.int16([ABSTAIN, 0, classes - 1]))], 3, classes)
    assert matrix.votes.dtype.itemsize == size
    assert matrix.votes.tolist() == [[classes, 0, classes - 1]]


def test_memory_is_one_byte_for_each_silo_and_example() -> None:
    silos, examples = 50, 20_000
    tracemalloc.start()
    matrix = label_matrix(((f"{n}", np.full(examples, n % 7, np.int16)) for n in range(silos)), examples, 7)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert matrix.votes.nbytes == silos * examples
    assert held < 1.2 * silos * examples
    assert peak < 2.5 * silos * examples


@pytest.mark.parametrize("rule", [dawid_skene(3), agreement(3, trust="static")], ids=["dawid-skene", "agreement"])
def test_rules_need_hardly_more_for_each_further_silo_than_its_votes(rule: Consensus) -> None:
    examples = 10_000

    def ballots(silos: int) -> Iterator[Ballot]:
        rng = np.random.default_rng(0)
        truth = rng.integers(0, 3, examples)
        for number in range(silos):
            wrong = rng.random(examples) < 0.2
            yield f"silo-{number}", ((truth + wrong) % 3).astype(np.int16)

    def peak(silos: int) -> int:
        tracemalloc.start()
        rule.apply(ballots(silos), np.full(examples, ABSTAIN, np.int16), rule.init([]), np.random.default_rng(0))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(2)  # what is imported and allocated once
    # A byte for the vote, and another while the matrix is filled from rows, which are dropped on the way.
    assert (peak(150) - peak(50)) / (100 * examples) < 2.2


def test_no_ballots_are_a_matrix_without_rows() -> None:
    assert label_matrix([], 3, 2).votes.shape == (0, 3)


def test_unanimous_are_votes_that_nobody_cast_against() -> None:
    votes = np.int16([[0, 1, -1, -1, 0], [0, 1, 1, -1, 1], [0, -1, 1, -1, 0]])
    agreed, vote = unanimous(label_matrix(enumerate_silos(votes), 5, 2))
    assert agreed.tolist() == [True, True, True, True, False]
    assert vote[:4].tolist() == [0, 1, 1, 2]


def test_a_silo_that_leaves_keeps_its_row_and_has_it_when_it_comes_back() -> None:
    state = no_rows("trust")
    assert rows_of(state, "trust") == {}
    state = with_rows(state, "trust", ["b", "a"], np.array([2.0, 1.0]))
    state = with_rows(state, "trust", ["c", "a"], np.array([3.0, 4.0]))
    assert {silo: float(row) for silo, row in rows_of(state, "trust").items()} == {"a": 4.0, "b": 2.0, "c": 3.0}
    assert not any(value.dtype.hasobject for value in state.values())
