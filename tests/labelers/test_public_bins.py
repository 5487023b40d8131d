"""Bins: that vectors are as long as claimed whatever the values, depend on one record, and can be read."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.labelers.public_bins import PublicBins
from fedct_flwr.labelers.public_features import NORM
from fedct_flwr.types import ConfigError, DataError

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


def test_components_have_names_that_people_can_read() -> None:
    assert BINS.size == len(BINS.names) == 4 + 4 + 5 + 2 + 1
    low, middle, high = BINS.names[:3]
    assert low.startswith("age <= ")
    assert " < age <= " in middle
    assert high.startswith("age > ")
    assert BINS.names[3:8] == ("age missing", "sex = f", "sex = m", "sex others", "sex missing")
    assert BINS.names[8:13] == ("ward = u", "ward = v", "ward = w", "ward others", "ward missing")
    assert BINS.names[13:] == ("empty known", "empty missing", "constant")


def test_each_value_falls_into_its_bin() -> None:
    nan = float("nan")
    assert active([-1e9, 0, 1, nan])[1:] == ["sex = f", "ward = v", "empty missing", "constant"]
    assert active([-1e9, 0, 0, nan])[0].startswith("age <= ")
    assert active([1e9, 1, 5, 7])[0].startswith("age > ")
    assert active([nan, 2, 6, 7]) == ["age missing", "sex others", "ward others", "empty known", "constant"]
    assert active([nan, nan, nan, nan])[1:3] == ["sex missing", "ward missing"]


def test_bins_have_about_as_many_public_values_each() -> None:
    counts = (BINS(public())[:, :3] > 0).sum(axis=0)
    assert counts.max() - counts.min() <= 2


@pytest.mark.parametrize(("scale", "sides"), [(0.0, 0), (1.0, 1), (-1.0, 1)])
def test_what_lies_far_out_in_a_skewed_column_has_a_bin_of_its_own(scale: float, sides: int) -> None:
    normal = np.random.default_rng(1).normal(size=2_000)
    column = np.sign(scale) * np.exp(scale * normal) if scale else normal
    bins = PublicBins(column[:, None], Schema.numeric(("a", "b"), ("x",)), bins=4)
    counts = (bins(column[:, None])[:, :-2] > 0).sum(axis=0)
    assert len(counts) == 4 + sides
    far = np.delete(counts, [1, 2, 3] if scale < 0 else [0, 1, 2])
    # Of a log-normal column, 7.8% are above the upper fence.
    assert sides == 0 or 100 <= far.min() <= 220


@pytest.mark.parametrize(("far", "bins"), [(4, 4), (5, 5)])
def test_a_few_values_far_out_are_an_accident(far: int, bins: int) -> None:
    column = np.append(np.linspace(0, 1, 300 - far), np.full(far, 9.0))[:, None]
    # One of the components is for missing values, and one is constant.
    assert PublicBins(column, Schema.numeric(("a", "b"), ("x",)), bins=4).size == bins + 2


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


def test_columns_of_text_are_left_out() -> None:
    schema = Schema(("a", "b"), (Column("note", text=True), Column("x")))
    X = np.array([["said", 1.0], ["", 2.0]], dtype=object)
    assert PublicBins(X, schema, bins=2).names == ("x <= 1.5", "x > 1.5", "x missing", "constant")
    with pytest.raises(DataError, match="holds text alone"):
        PublicBins(X[:, :1], Schema(("a", "b"), schema.columns[:1]), bins=2)


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(DataError, match="are for tables"):
        PublicBins(np.zeros((5, 8, 8)), Schema(("a", "b")), bins=4)
    with pytest.raises(DataError, match="do not fit a public set"):
        BINS.check(np.zeros((5, 3)))
    with pytest.raises(ConfigError, match="bins of a column is 1"):
        PublicBins(public(), SCHEMA, bins=1)
