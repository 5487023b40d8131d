"""Data sets by name, and what every one of them keeps to."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets import LOADERS, FederatedDataset, SiloData, load
from fedct_flwr.datasets.federated import PublicSet
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.types import LABEL_DTYPE, ConfigError, DataError, Examples
from tests.sentences import sentence


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


@pytest.mark.parametrize(("wrong", "meant"), [("hart-disease", "heart-disease"), ("breastcancer", "breast-cancer")])
def test_an_unknown_data_set_is_answered_with_the_nearest(wrong: str, meant: str) -> None:
    said = sentence(ConfigError, lambda: load(RunConfig.from_flower({"study": "s", "data": wrong})))
    assert said == f"unknown data set {wrong!r}: did you mean {meant!r}?"


def test_a_data_set_is_read_once_for_all_rounds(folder: Path) -> None:
    config = config_of("files", folder)
    first = load(config)
    (folder / "north.csv").unlink()
    assert load(config_of("files", folder)) is first


every_data_set = pytest.mark.parametrize("name", list(LOADERS))
with_a_cache = pytest.mark.usefixtures("data_folder")


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


@pytest.mark.parametrize(("silos", "found"), [({}, "found none"), ({"north": [0, 1]}, "found only 'north'")])
def test_one_silo_cannot_cotrain(silos: dict[str, list[int]], found: str) -> None:
    with pytest.raises(DataError, match=f"at least two silos, {found} in 'a-name'"):
        federation(**silos)
