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
from fedct_flwr.datasets.partition import dirichlet, dirichlet_by_silo, iid, split_over_silos
from fedct_flwr.datasets.schema import Schema
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


def test_more_records_than_there_are_cannot_be_split() -> None:
    records = Examples(np.zeros((10, 1)), np.arange(10) % 2)
    config = RunConfig.from_flower({"study": "b", "data": "breast-cancer"})
    with pytest.raises(DataError, match="'few' has 10 records to split"):
        split_over_silos("few", Schema(("a", "b")), records, private=8, public=2, silos=2, config=config, test=None)


def config(**settings: Any) -> RunConfig:
    given = {"study": "t", "data": "heart-disease", **{key.replace("_", "-"): value for key, value in settings.items()}}
    return RunConfig.from_flower(given)


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
