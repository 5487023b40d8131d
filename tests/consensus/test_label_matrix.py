"""The votes of a round as a matrix, and what a consensus keeps of each silo."""

import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedct_flwr.consensus.label_matrix import label_matrix
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


def test_memory_is_one_byte_for_each_silo_and_example() -> None:
    silos, examples = 50, 20_000
    tracemalloc.start()
    matrix = label_matrix(((f"{n}", np.full(examples, n % 7, np.int16)) for n in range(silos)), examples, 7)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert matrix.votes.nbytes == silos * examples
    assert held < 1.2 * silos * examples
    assert peak < 2.5 * silos * examples
