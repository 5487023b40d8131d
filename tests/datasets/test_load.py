"""Data sets by name, and what every one of them keeps to."""

import csv
import json
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedct_flwr import simulate
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
    return RunConfig.from_flower({"study": "s", "data": name, **own, **settings})


def test_a_data_set_that_went_is_answered_with_what_serves_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for call in (lambda: load(config_of("adult", tmp_path)), lambda: simulate("adult")):
        said = sentence(ConfigError, call)
        assert said.startswith("data set 'adult' is no longer part of fedct: write its records to files")
    # A folder of this name is a folder.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "adult").mkdir()
    assert "label is missing" in sentence(ConfigError, lambda: simulate("adult"))


@pytest.mark.parametrize(("wrong", "meant"), [("hart-disease", "heart-disease"), ("breastcancer", "breast-cancer")])
def test_an_unknown_data_set_is_answered_with_the_nearest(wrong: str, meant: str) -> None:
    said = sentence(ConfigError, lambda: load(RunConfig.from_flower({"study": "s", "data": wrong})))
    assert said == f"unknown data set {wrong!r}: did you mean {meant!r}?"


def test_a_data_set_is_read_once_for_all_rounds(folder: Path) -> None:
    config = config_of("files", folder)
    first = load(config)
    (folder / "north.csv").unlink()
    assert load(config_of("files", folder)) is first


@pytest.mark.parametrize("name", list(LOADERS))
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


def named(name: str, **settings: Any) -> FederatedDataset:
    """A data set by its name."""
    raw = {"study": "s", "data": name} | {key.replace("_", "-"): value for key, value in settings.items()}
    return LOADERS[name](RunConfig.from_flower(raw))


# --- four real hospitals


RAW = Path(__file__).parents[3] / "shared" / "data"
RAW_NAMES = {"cleveland": "cleveland", "budapest": "hungarian", "zurich": "switzerland", "long-beach": "va"}
HOSPITALS = list(RAW_NAMES)
COLUMNS = [
    "age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak", "slope", "ca", "thal",
    "num",
]  # fmt: skip

EMBEDDED: dict[str, Any] = json.loads(
    resources.files("fedct_flwr.datasets").joinpath("heart_disease.json").read_text("utf-8")
)


def embedded(hospital: str) -> np.ndarray[Any, Any]:
    """A hospital's table, ``(patients, 14)``, as it stands in the JSON file; null is NaN."""
    return np.array(EMBEDDED["hospitals"][hospital], dtype=np.float64)


@pytest.mark.skipif(not (RAW / "heart_disease").is_dir(), reason="the raw files are not here")
@pytest.mark.parametrize("hospital", HOSPITALS)
def test_every_value_is_that_of_the_raw_file(hospital: str) -> None:
    with (RAW / "heart_disease" / f"{RAW_NAMES[hospital]}.csv").open(newline="") as file:
        header, *lines = csv.reader(file)
    assert header == COLUMNS
    raw = np.array([[float(field) if field else np.nan for field in line] for line in lines])
    np.testing.assert_array_equal(embedded(hospital), raw)


def test_the_place_of_a_public_example_does_not_tell_its_hospital() -> None:
    # In these two columns a zero is a missing value.
    kept = [place for place, name in enumerate(COLUMNS[:-1]) if name not in ("chol", "trestbps")]
    owner = {record[kept].tobytes(): hospital for hospital in HOSPITALS for record in embedded(hospital)}
    owners = [owner[record[kept].tobytes()] for record in named("heart-disease").public.X]
    changes = sum(left != right for left, right in pairwise(owners))
    # Grouped by hospital there would be 3; at random about 160.
    assert changes > 100


def test_one_value_for_all_records_is_no_number_to_predict(folder: Path) -> None:
    for silo in ("north", "south"):
        (folder / f"{silo}.csv").write_text("age,ward,ill\n" + "1,a,3\n2,b,3\n" * 5)
    said = sentence(DataError, lambda: load(config_of("files", folder, outcome="number")))
    assert "have one 'ill': check that the column is the right one" in said
