"""Bins: that vectors are as long as claimed whatever the values, depend on one record, and can be read."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.labelers.public_bins import PublicBins
from fedct_flwr.labelers.public_features import NORM

SCHEMA = Schema(
    ("a", "b"), (Column("age"), Column("sex", ("f", "m")), Column("ward", tuple("uvwxyz")), Column("empty"))
)


def public(count: int = 200) -> np.ndarray:
    rng = np.random.default_rng(0)
    wards = rng.choice(6, count, p=[0.4, 0.3, 0.2, 0.05, 0.03, 0.02])
    X = np.stack([rng.normal(50, 10, count), rng.integers(0, 2, count), wards, np.full(count, np.nan)], axis=1)
    X[::9, 0] = np.nan
    return X


BINS = PublicBins(public(), SCHEMA, bins=3)


def active(row: list[float]) -> list[str]:
    vector = BINS(np.array([row]))[0]
    return [name for name, value in zip(BINS.names, vector, strict=True) if value]


def test_each_value_falls_into_its_bin() -> None:
    nan = float("nan")
    assert active([-1e9, 0, 1, nan])[1:] == ["sex = f", "ward = v", "empty missing", "constant"]
    assert active([-1e9, 0, 0, nan])[0].startswith("age <= ")
    assert active([1e9, 1, 5, 7])[0].startswith("age > ")
    assert active([nan, 2, 6, 7]) == ["age missing", "sex others", "ward others", "empty known", "constant"]
    assert active([nan, nan, nan, nan])[1:3] == ["sex missing", "ward missing"]


def test_a_column_that_is_one_value_for_most_or_huge_has_bins() -> None:
    schema = Schema.numeric(("a", "b"), ("x",))
    mostly = np.where(np.arange(1_000) % 10, 7.0, np.arange(1_000))[:, None]
    counts = (PublicBins(mostly, schema, bins=4)(mostly) > 0).sum(axis=0)
    assert counts[:-2].sum() == 1_000
    huge = (np.linspace(-1, 1, 500) * 1.7e308)[:, None]
    assert (PublicBins(huge, schema, bins=4)(huge)[:, :4] > 0).sum(axis=0).max() <= 126


@given(
    rows=st.lists(
        st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=4, max_size=4), min_size=1, max_size=20
    )
)
@settings(max_examples=200, deadline=None)
def test_vectors_are_integers_as_long_as_claimed_and_of_one_record_each(rows: list[list[float]]) -> None:
    X = np.array(rows)
    vectors = BINS(X)
    for row, vector in zip(X, vectors, strict=True):
        exact = [int(value) for value in vector]
        assert sum(number**2 for number in exact) <= NORM**2
        assert exact == vector.tolist()
        np.testing.assert_array_equal(BINS(row[None])[0], vector)
    lengths = (vectors**2).sum(axis=1)
    assert (lengths == lengths[0]).all()
    assert lengths[0] > 0.99 * NORM**2


def test_values_that_equal_a_cut_do_not_depend_on_rounding() -> None:
    few = PublicBins(np.array([[1.0], [2.0], [2.0], [4.0]]), Schema.numeric(("a", "b"), ("x",)), bins=4)
    assert few.names == ("x <= 1.5", "1.5 < x <= 3", "x > 3", "x missing", "constant")
    np.testing.assert_array_equal(few(np.array([[1.5], [3.0]]))[:, :3] > 0, [[1, 0, 0], [0, 1, 0]])
