"""Records of several silos in one place: copied, or rows of one array where they already are."""

import numpy as np

from fedct_flwr.datasets.federated import pool, side_by_side
from fedct_flwr.types import Examples


def parts() -> list[Examples]:
    return [Examples(np.full((n, 3), float(n)), np.arange(n)) for n in (4, 1, 2)]


def test_side_by_side_are_the_same_records() -> None:
    for one, other in zip(side_by_side(parts()), parts(), strict=True):
        np.testing.assert_array_equal(one.X, other.X)
        np.testing.assert_array_equal(one.y, other.y)


def test_what_is_side_by_side_is_pooled_without_a_copy() -> None:
    found = side_by_side(parts())
    whole = pool(found)
    np.testing.assert_array_equal(whole.X, pool(parts()).X)
    np.testing.assert_array_equal(whole.y, pool(parts()).y)
    assert all(np.shares_memory(whole.X, part.X) for part in found)
    assert np.shares_memory(pool(found[1:]).X, found[1].X)
