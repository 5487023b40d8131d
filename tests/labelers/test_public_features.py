"""Features that know the public set alone, exact to the last bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.labelers.public_features import NORM, Kind, PublicBins, PublicFeatures
from fedct_flwr.types import DataError
from tests.sentences import sentence

MIXED = Schema(("no", "yes"), (Column("pain", ("typical", "none")), Column("age"), Column("pressure")))
KINDS: list[Kind] = ["linear", "kernel"]
every_kind = pytest.mark.parametrize("kind", KINDS)


def table(count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, 3, count), rng.normal(50, 9, count), rng.normal(120, 30, count)])
    X[::7, 1] = np.nan
    X[::11, 0] = np.nan
    return X


def images(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random((count, 9, 9)).astype(np.float32)


def of_tables(kind: Kind) -> PublicFeatures:
    return PublicFeatures(table(200, 0), MIXED, num_components=5, kind=kind, seed=0)


def of_images(kind: Kind) -> PublicFeatures:
    return PublicFeatures(images(150, 0), Schema(("a", "b")), num_components=12, kind=kind, seed=0)


@every_kind
def test_are_integers_no_longer_than_the_norm_whatever_the_record(kind: Kind) -> None:
    wild = table(300, 1) * np.geomspace(1e-300, 1e200, 300)[:, None]
    for vectors in (of_tables(kind)(wild), of_tables(kind)(table(5000, 2)), of_images(kind)(images(300, 1) * 1e6)):
        exact = vectors.astype(np.int64)
        assert (exact == vectors).all()
        assert (exact.astype(object) ** 2).sum(axis=1).max() <= NORM**2


@every_kind
def test_of_a_record_do_not_depend_on_the_others(kind: Kind) -> None:
    """Floating-point products do, in the last bit, and thereby on whether another record is there."""
    for features, X in ((of_tables(kind), table(257, 3)), (of_images(kind), images(257, 3))):
        together = features(X)
        for start, stop in ((0, 1), (3, 8), (250, 257), (1, 256)):
            np.testing.assert_array_equal(features(X[start:stop]), together[start:stop])


def test_records_that_do_not_fit_are_refused_by_shape_and_type_and_by_no_value(wording: SnapshotAssertion) -> None:
    features = of_tables("kernel")
    wild = table(4, 1)
    wild[0] = [np.inf, -np.inf, np.inf]
    wild[1] = np.nan
    features.check(wild)
    assert np.isfinite(features(wild)).all()
    for other in (wild[:, :2], wild.astype(str), wild.astype(object), images(4, 0)):
        assert sentence(DataError, features.check, other) == wording


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


AGE, SEX, WARD, EMPTY, CONSTANT = 0, BINS.size - 12, BINS.size - 8, BINS.size - 3, BINS.size - 1
"""Where the bins of each column begin: of sex two, of ward three, then one for others and one for missing values."""


def active(row: list[float]) -> list[int]:
    return np.flatnonzero(BINS(np.array([row]))[0]).tolist()


def test_each_value_falls_into_its_bin() -> None:
    nan = float("nan")
    assert active([-1e9, 0, 1, nan]) == [AGE, SEX, WARD + 1, EMPTY + 1, CONSTANT]
    assert active([1e9, 1, 5, 7]) == [SEX - 2, SEX + 1, WARD + 3, EMPTY, CONSTANT]
    assert active([nan, 2, 6, 7]) == [SEX - 1, SEX + 2, WARD + 3, EMPTY, CONSTANT]
    assert active([nan, nan, nan, nan]) == [SEX - 1, SEX + 3, WARD + 4, EMPTY + 1, CONSTANT]


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
    assert few.size == 5
    np.testing.assert_array_equal(few(np.array([[1.5], [3.0]]))[:, :3] > 0, [[1, 0, 0], [0, 1, 0]])
