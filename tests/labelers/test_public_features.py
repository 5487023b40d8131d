"""Features that know the public set alone, exact to the last bit."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.labelers.public_features import NORM, Kind, PublicFeatures
from fedct_flwr.types import DataError

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


def test_principal_components_are_those_of_the_public_set() -> None:
    rng = np.random.default_rng(0)
    public = rng.normal(size=(500, 2)) @ np.float64([[3, 3], [0.1, -0.1]])
    features = PublicFeatures(public, Schema.numeric(("a", "b"), ("x", "y")), num_components=2, kind="linear", seed=0)
    vectors, along = features(public), np.sign(public.sum(axis=1))
    # Vectors are all of one length, so what remains of a component is its direction.
    assert abs(np.corrcoef(np.sign(vectors[:, 0]), along)[0, 1]) > 0.9
    assert abs(np.corrcoef(vectors[:, 1], along)[0, 1]) < 0.1


def test_only_those_of_the_kernel_tell_inside_from_outside() -> None:
    X = np.random.default_rng(0).normal(size=(800, 2))
    outside = (X**2).sum(axis=1) > 1.4
    right: dict[Kind, float] = {}
    for kind in KINDS:
        schema = Schema.numeric(("inside", "outside"), ("x", "y"))
        vectors = PublicFeatures(X[:400], schema, num_components=20, kind=kind, seed=0)(X) / NORM
        model = LogisticRegression(C=100.0).fit(vectors[400:600], outside[400:600])
        right[kind] = model.score(vectors[600:], outside[600:])
    assert right["kernel"] > 0.95
    assert right["linear"] < 0.75


def test_records_that_do_not_fit_are_refused_by_shape_and_type_and_by_no_value(wording: SnapshotAssertion) -> None:
    features = of_tables("kernel")
    wild = table(4, 1)
    wild[0] = [np.inf, -np.inf, np.inf]
    wild[1] = np.nan
    features.check(wild)
    assert np.isfinite(features(wild)).all()
    for other in (wild[:, :2], wild.astype(str), wild.astype(object), images(4, 0)):
        with pytest.raises(DataError) as caught:
            features.check(other)
        assert str(caught.value) == wording
