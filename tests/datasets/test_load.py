"""Data sets by name, and what every one of them keeps to."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets import LOADERS, FederatedDataset, SiloData, load
from fedct_flwr.datasets.federated import hold_out, pool, shuffled
from fedct_flwr.datasets.public_set import PublicSet
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.types import LABEL_DTYPE, ConfigError, DataError, Examples


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that the loader for files can read."""
    (tmp_path / "public.csv").write_text("age,ward\n1,a\n2,b\n")
    for silo in ("north", "south"):
        (tmp_path / f"{silo}.csv").write_text("age,ward,ill\n" + "1,a,no\n2,b,yes\n" * 5)
    return tmp_path


def config_of(name: str, folder: Path, **settings: Any) -> RunConfig:
    own: dict[str, Any] = {"private-size": 20, "public-size": 15}
    if name == "files":
        own = {"data-dir": str(folder), "label-column": "ill"}
    elif name == "heart-disease":
        own = {}
    elif name == "fashion-superclasses":
        # Its ten silos know few classes each, and each needs records.
        own["private-size"] = 200
    return RunConfig.from_flower({"study": "s", "data": name, **own, **settings})


# --- by name


@pytest.mark.parametrize(("wrong", "meant"), [("hart-disease", "heart-disease"), ("breastcancer", "breast-cancer")])
def test_an_unknown_data_set_is_answered_with_the_nearest(wrong: str, meant: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(RunConfig.from_flower({"study": "s", "data": wrong}))
    assert str(caught.value) == f"unknown data set {wrong!r}: did you mean {meant!r}?"


def test_a_data_set_is_read_once_for_all_rounds(folder: Path) -> None:
    config = config_of("files", folder)
    first = load(config)
    (folder / "north.csv").unlink()
    assert load(config_of("files", folder)) is first


def test_other_settings_are_read_anew() -> None:
    def seed(number: int) -> FederatedDataset:
        return load(RunConfig.from_flower({"study": "s", "data": "heart-disease", "seed": number}))

    assert seed(1).public.fingerprint != seed(2).public.fingerprint


# --- conformance


every_data_set = pytest.mark.parametrize("name", list(LOADERS))
with_a_cache = pytest.mark.usefixtures("data_folder")


@with_a_cache
@every_data_set
def test_silos_and_public_set_have_the_columns_of_the_schema(name: str, folder: Path) -> None:
    dataset = load(config_of(name, folder))
    parts = [part for silo in dataset.silos for part in (silo.private, silo.test)]
    (shape,) = {X.shape[1:] for X in (dataset.public.X, dataset.test.X, *(part.X for part in parts))}
    images = (3, 32, 32)
    assert shape == ((len(dataset.schema.columns),) if dataset.schema.columns else images)


@with_a_cache
@every_data_set
def test_outcomes_are_classes_of_the_schema_or_numbers(name: str, folder: Path) -> None:
    dataset = load(config_of(name, folder))
    classes = range(len(dataset.schema.classes))
    for part in (dataset.test, *(part for silo in dataset.silos for part in (silo.private, silo.test))):
        assert part.y.shape == (len(part.X),)
        if dataset.schema.quantity:
            assert part.y.dtype == np.float64
            assert np.isfinite(part.y).all()
        else:
            assert part.y.dtype == LABEL_DTYPE
            assert set(part.y.tolist()) <= set(classes)


@with_a_cache
@every_data_set
def test_every_silo_is_found_by_its_name(name: str, folder: Path) -> None:
    dataset = load(config_of(name, folder))
    assert [dataset.position(silo.name) for silo in dataset.silos] == list(range(len(dataset.silos)))


@with_a_cache
@every_data_set
def test_there_is_something_to_test_on(name: str, folder: Path) -> None:
    assert load(config_of(name, folder)).test.size > 0


# --- a federated data set


def examples(labels: list[int]) -> Examples:
    return Examples(np.arange(len(labels) * 2, dtype=np.float64).reshape(-1, 2), np.array(labels, dtype=LABEL_DTYPE))


def federation(**silos: list[int]) -> FederatedDataset:
    """A data set with these silos' private labels."""
    return FederatedDataset(
        name="a-name",
        schema=Schema.numeric(("no", "yes"), ("a", "b")),
        public=PublicSet(np.ones((3, 2))),
        silos=tuple(SiloData(name, examples(labels), examples([])) for name, labels in silos.items()),
        test=examples([]),
    )


def test_two_silos_with_two_classes_between_them_are_enough() -> None:
    assert len(federation(north=[0], south=[1]).silos) == 2


@pytest.mark.parametrize(("silos", "found"), [({}, "found none"), ({"north": [0, 1]}, "found only 'north'")])
def test_one_silo_cannot_cotrain(silos: dict[str, list[int]], found: str) -> None:
    with pytest.raises(DataError, match=f"at least two silos, {found} in 'a-name'"):
        federation(**silos)


def test_a_silo_without_records_is_named() -> None:
    with pytest.raises(DataError, match="silo 'south' has no records to train on"):
        federation(north=[0, 1], south=[])


def test_one_class_in_all_is_named(wording: SnapshotAssertion) -> None:
    with pytest.raises(DataError) as caught:
        federation(north=[1, 1], south=[1])
    assert str(caught.value) == wording


def test_an_unknown_silo_is_answered_with_those_there_are() -> None:
    with pytest.raises(DataError, match="no silo 'west' in 'a-name': it has north, south"):
        federation(north=[0], south=[1]).position("west")


# --- its parts


@pytest.mark.parametrize(
    ("size", "shares", "sizes"),
    [
        (10, (0.2,), [2, 8]),
        (9, (0.25, 0.2), [2, 1, 6]),
        (3, (0.25, 0.2), [0, 0, 3]),
        (5, (0.0,), [0, 5]),
        (0, (0.5,), [0, 0]),
        (100, (0.29,), [29, 71]),
    ],
)
def test_shares_are_rounded_down_and_the_rest_comes_last(
    size: int, shares: tuple[float, ...], sizes: list[int]
) -> None:
    parts = hold_out(examples([0] * size), shares, np.random.default_rng(0))
    assert [part.size for part in parts] == sizes


def test_holding_out_loses_no_record_and_keeps_labels_with_their_records() -> None:
    records = examples([0, 1] * 10)
    together = pool(hold_out(records, (0.25, 0.2), np.random.default_rng(0)))
    order = np.argsort(together.X[:, 0])
    np.testing.assert_array_equal(together.X[order], records.X)
    np.testing.assert_array_equal(together.y[order], records.y)


def test_what_is_held_out_is_drawn_at_random() -> None:
    first, second = (hold_out(examples([0] * 50), (0.5,), np.random.default_rng(seed))[0].X for seed in (0, 1))
    assert (first != second).any()


def test_shuffling_keeps_every_example_whole() -> None:
    records = examples([0, 1] * 25)
    mixed = shuffled(records, np.random.default_rng(0))
    assert (mixed.X != records.X).any()
    order = np.argsort(mixed.X[:, 0])
    np.testing.assert_array_equal(mixed.X[order], records.X)
    np.testing.assert_array_equal(mixed.y[order], records.y)
