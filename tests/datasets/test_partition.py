"""Splits lose no example and give none away twice."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import Generator
from syrupy.assertion import SnapshotAssertion

from fedct_flwr import datasets
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets.partition import (
    OF_LABELS,
    dirichlet,
    dirichlet_by_silo,
    iid,
    one_subclass_each,
    split_over_silos,
)
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.learners.build import build_learner
from fedct_flwr.types import DataError, Examples
from tests.sentences import sentence


@pytest.fixture
def rng() -> Generator:
    return np.random.default_rng(0)


def labels_of(num_classes: int, examples: int) -> np.ndarray:
    return (np.arange(examples) % num_classes).astype(np.int16)


class TestIid:
    @given(st.integers(1, 200), st.data())
    def test_every_example_goes_to_exactly_one_silo(self, examples: int, data):
        silos = data.draw(st.integers(1, examples))
        parts = iid(examples, silos, np.random.default_rng(0))
        assert np.sort(np.concatenate(parts)).tolist() == list(range(examples))
        assert len(parts) == silos

    @pytest.mark.parametrize(("examples", "silos"), [(3, 4), (3, 0), (0, 0), (3, -1)])
    def test_a_split_that_cannot_be_is_refused(self, examples: int, silos: int, rng: Generator):
        with pytest.raises(DataError, match="cannot split"):
            iid(examples, silos, rng)


class TestDirichlet:
    @given(st.integers(2, 5), st.integers(60, 200), st.integers(1, 5), st.floats(0.1, 100), st.integers(0, 99))
    def test_every_example_goes_to_exactly_one_silo(
        self, classes: int, examples: int, silos: int, concentration: float, seed: int
    ):
        y = labels_of(classes, examples)
        parts = dirichlet(y, silos, concentration, np.random.default_rng(seed), min_examples=1)
        assert np.sort(np.concatenate(parts)).tolist() == list(range(examples))
        assert len(parts) == silos

    @given(st.integers(0, 99), st.integers(1, 15))
    def test_every_silo_has_the_minimum(self, seed: int, min_examples: int):
        parts = dirichlet(labels_of(3, 150), 4, 0.5, np.random.default_rng(seed), min_examples)
        assert min(map(len, parts)) >= min_examples

    def test_a_minimum_that_only_an_even_split_meets_is_refused(self, rng: Generator, wording: SnapshotAssertion):
        assert sentence(DataError, lambda: dirichlet(labels_of(2, 40), 4, 0.01, rng, min_examples=10)) == wording

    def test_a_small_concentration_makes_silos_differ_more(self, rng: Generator):
        y = labels_of(2, 2000)

        def spread(concentration: float) -> float:
            return float(np.std([y[part].mean() for part in dirichlet(y, 5, concentration, rng)]))

        assert spread(0.1) > 3 * spread(100.0)

    @pytest.mark.parametrize("concentration", [0.0, -1.0])
    def test_a_concentration_that_is_not_positive_is_refused(self, concentration: float, rng: Generator):
        with pytest.raises(DataError, match="concentration must be positive"):
            dirichlet(labels_of(2, 100), 2, concentration, rng)

    @pytest.mark.parametrize("silos", [0, -1, 11])
    def test_too_many_or_no_silos_are_refused(self, silos: int, rng: Generator):
        with pytest.raises(DataError, match="found no Dirichlet"):
            dirichlet(labels_of(2, 100), silos, 0.5, rng, min_examples=10)


class TestDirichletBySilo:
    @given(st.integers(1, 5), st.integers(1, 200), st.data(), st.sampled_from([1e-300, 0.1, 1.0, 100.0]))
    def test_every_example_goes_to_exactly_one_silo_evenly(self, classes: int, examples: int, data, concentration):
        silos = data.draw(st.integers(1, examples))
        parts = dirichlet_by_silo(labels_of(classes, examples), silos, concentration, np.random.default_rng(0))
        assert np.sort(np.concatenate(parts)).tolist() == list(range(examples))
        sizes = [len(part) for part in parts]
        assert len(sizes) == silos
        assert max(sizes) - min(sizes) <= 1

    def test_with_a_small_concentration_the_first_silos_have_few_classes(self, rng: Generator):
        y = labels_of(10, 10_000)
        parts = dirichlet_by_silo(y, 10, 0.01, rng)
        largest = [np.bincount(y[part]).max() / len(part) for part in parts]
        assert max(largest) == 1.0
        assert np.mean(largest) > 0.7

    def test_impossible_splits_are_refused(self, rng: Generator):
        with pytest.raises(DataError, match="use fewer silos"):
            dirichlet_by_silo(labels_of(2, 3), 4, 0.5, rng)
        with pytest.raises(DataError, match="concentration must be positive"):
            dirichlet_by_silo(labels_of(2, 30), 4, 0.0, rng)


class TestOneSubclassEach:
    # Class 0 has the subclasses 0, 1 and 2, class 1 has 3 alone.
    SUBCLASSES = np.int16([0, 1, 2, 3] * 12)
    CLASSES = np.int16([0, 0, 0, 1] * 12)

    def test_a_silo_has_one_subclass_of_every_class_and_neighbors_have_another(self, rng: Generator):
        parts = one_subclass_each(self.CLASSES, self.SUBCLASSES, 6, rng)
        seen = [set(self.SUBCLASSES[part].tolist()) for part in parts]
        assert all(len(kinds) == 2 and 3 in kinds for kinds in seen)
        assert seen[:3] == seen[3:]
        assert set.union(*seen[:3]) == {0, 1, 2, 3}

    def test_every_example_goes_to_exactly_one_silo_evenly(self, rng: Generator):
        parts = one_subclass_each(self.CLASSES, self.SUBCLASSES, 6, rng)
        assert np.sort(np.concatenate(parts)).tolist() == list(range(48))
        assert [len(part) for part in parts] == [6 + 2] * 6


def test_more_records_than_there_are_cannot_be_split() -> None:
    records = Examples(np.zeros((10, 1)), np.arange(10) % 2)
    config = RunConfig.from_flower({"study": "b", "data": "breast-cancer"})
    with pytest.raises(DataError, match="'few' has 10 records to split"):
        split_over_silos("few", Schema(("a", "b")), records, private=8, public=2, silos=2, config=config, test=None)


# --- silos that are bad on purpose


def config(**settings: Any) -> RunConfig:
    given = {"study": "t", "data": "heart-disease", **{key.replace("_", "-"): value for key, value in settings.items()}}
    return RunConfig.from_flower(given)


def bad(corruption: str, **settings: Any) -> RunConfig:
    return config(bad_silos="zurich,budapest", corruption=corruption, **settings)


@pytest.mark.parametrize(
    ("corruption", "y", "expected"),
    [
        ("label-shift", [0, 1, 2, 3], [2, 3, 0, 1]),
        ("label-flip", [0, 1, 2, 3], [3, 2, 1, 0]),
    ],
)
def test_labels_are_shifted_and_flipped(corruption: str, y: list[int], expected: list[int]) -> None:
    found = OF_LABELS[corruption](np.int16(y), 4, 2, np.random.default_rng(0))
    assert found.tolist() == expected


@pytest.mark.parametrize("corruption", OF_LABELS)
def test_only_the_private_labels_of_bad_silos_change(corruption: str) -> None:
    clean, found = datasets.load(config()), datasets.load(bad(corruption))
    for before, after in zip(clean.silos, found.silos, strict=True):
        np.testing.assert_array_equal(before.private.X, after.private.X)
        np.testing.assert_array_equal(before.test.y, after.test.y)
        changed = (before.private.y != after.private.y).any()
        assert changed == (before.name in ("zurich", "budapest"))
        assert after.private.y.dtype == before.private.y.dtype
    np.testing.assert_array_equal(clean.test.y, found.test.y)


def test_colluders_vote_for_the_chosen_class_together_and_the_others_as_they_learn() -> None:
    settings = bad("collusion", corruption_number=0)
    dataset = datasets.load(settings)
    for position, silo in enumerate(dataset.silos):
        learner = build_learner(settings, dataset, position, silo.private.X).fit(*silo.private)
        votes = set(learner.predict(dataset.public.X).tolist())
        assert (votes == {0}) == (silo.name in ("zurich", "budapest"))


@pytest.mark.parametrize("data", ["heart-disease", "breast-cancer"])
def test_the_truth_of_the_public_set_is_that_of_the_records_it_came_from(data: str) -> None:
    # Another share of the records is public: those that are labeled there have the labels that they lost here.
    dataset = datasets.load(config(data=data))
    labeled: dict[bytes, set[int]] = {}
    for seed in range(1, 4):
        other = datasets.load(config(data=data, seed=seed))
        for part in (other.test, *(silo.private for silo in other.silos)):
            for x, c in zip(part.X, part.y, strict=True):
                labeled.setdefault(x.tobytes(), set()).add(int(c))
    assert dataset.truth is not None
    known = [
        (c, labeled[x.tobytes()])
        for x, c in zip(dataset.public.X, dataset.truth, strict=True)
        if x.tobytes() in labeled
    ]
    assert len(known) > 100
    assert all(c in labels for c, labels in known)
