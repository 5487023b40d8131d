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


def test_what_is_not_is_copied() -> None:
    found = side_by_side(parts())
    for chosen in (found[::-1], [found[0], found[2]], [found[0], found[0]], [found[0], parts()[1]], parts()):
        whole = pool(chosen)
        np.testing.assert_array_equal(whole.X, np.concatenate([part.X for part in chosen]))
        assert not any(np.shares_memory(whole.X, part.X) for part in chosen)
    columns = [Examples(part.X[:, :2], part.y) for part in found]
    np.testing.assert_array_equal(pool(columns).X, np.concatenate([part.X for part in columns]))


def test_parts_without_records() -> None:
    nothing = [Examples(np.zeros((0, 3)), np.zeros(0)) for _ in range(2)]
    assert pool(side_by_side([*nothing])).X.shape == (0, 3)
    first, second = side_by_side([nothing[0], parts()[0]])
    assert pool([first, second]).X.shape == (4, 3)
