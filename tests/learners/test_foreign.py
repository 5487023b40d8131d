"""Which public examples are unlike a silo's own records."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from fedct_flwr.learners.guard import foreign

RNG = np.random.default_rng(0)
OWN = RNG.normal(size=(60, 2))
LIKE = RNG.normal(size=(40, 2))
FAR = RNG.normal(size=(60, 2)) + 6


@pytest.mark.parametrize("shape", ["table", "sparse", "image"])
def test_examples_that_are_far_from_own_records_are_foreign(shape: str):
    both = np.concatenate([OWN, LIKE, FAR])
    made = {"table": both, "sparse": csr_array(both), "image": both.reshape(-1, 1, 2, 1)}[shape]
    found = foreign(made, len(OWN), np.random.default_rng(0))
    assert found[len(LIKE) :].mean() > 0.95
    assert found[: len(LIKE)].mean() < 0.2


@pytest.mark.parametrize("own", [5, 60, 600])
def test_few_are_foreign_where_all_are_alike_whatever_their_numbers(own: int):
    both = RNG.normal(size=(own + 300, 4))
    assert foreign(both, own, np.random.default_rng(0)).mean() < 0.35


def test_nothing_is_foreign_where_a_forest_cannot_tell():
    assert not foreign(np.array([["ill"], ["well"], ["well"]], dtype=object), 1, np.random.default_rng(0)).any()
