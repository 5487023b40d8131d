"""Data sets by name, and what every one of them keeps to."""

import csv
import gzip
import json
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import scipy.io

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


# --- Covertype and images


def named(name: str, **settings: Any) -> FederatedDataset:
    """A data set by its name."""
    raw = {"study": "s", "data": name} | {key.replace("_", "-"): value for key, value in settings.items()}
    return LOADERS[name](RunConfig.from_flower(raw))


def small(name: str) -> FederatedDataset:
    """What the data folder of the tests holds of it."""
    return named(name, private_size=20, public_size=15)


def test_labels_start_at_zero_and_stay_with_their_records(data_folder: Path) -> None:
    dataset = small("covertype")
    raw = joblib.load(data_folder / "covertype" / "samples_py3")
    kind = {row.tobytes(): i % 7 for i, row in enumerate(raw.astype(np.float32))}
    for part in (dataset.test, *(silo.private for silo in dataset.silos)):
        assert [kind[row.tobytes()] for row in part.X] == part.y.tolist()


def test_what_is_damaged_is_asked_for_again(data_folder: Path) -> None:
    (data_folder / "covertype" / "samples_py3").write_bytes(b"no joblib file")
    with pytest.raises(DataError, match="or damaged: fetch it"):
        small("covertype")


IMAGES = {"cifar10": "data_batch_3.bin", "svhn": "train_32x32.mat"}


def test_cifar10_records_are_class_red_green_blue(data_folder: Path) -> None:
    raw = np.fromfile(data_folder / "cifar10" / "test_batch.bin", dtype=np.uint8).reshape(10, 3073)
    test = small("cifar10").test
    np.testing.assert_array_equal(test.y, raw[:, 0])
    mean, deviation = [0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616]
    for color in range(3):
        pixel = raw[7, 1 + 1024 * color + 32 * 5 + 9] / 255  # row 5, column 9
        np.testing.assert_allclose(test.X[7, color, 5, 9], (pixel - mean[color]) / deviation[color], rtol=1e-5)


def test_svhn_writes_height_width_color_number_and_ten_for_zero(data_folder: Path) -> None:
    raw = scipy.io.loadmat(data_folder / "svhn" / "test_32x32.mat")
    test = small("svhn").test
    assert test.y.tolist() == [*range(1, 10), 0] * 4
    np.testing.assert_allclose(test.X[11, 2, 5, 9], raw["X"][5, 9, 2, 11] / 255, rtol=1e-6)


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


# --- Adult, Mushroom and WineQuality


FILES = {"adult": "adult.csv.gz", "mushroom": "mushroom.csv.gz", "wine-quality": "wine_quality.csv.gz"}


def together(dataset: FederatedDataset) -> np.ndarray[Any, Any]:
    """All features of all parts."""
    return np.concatenate([dataset.public.X, dataset.test.X, *(silo.private.X for silo in dataset.silos)])


def rewrite(path: Path, old: str, new: str) -> None:
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()).decode().replace(old, new).encode()))


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> None:
    if not all((RAW / file).is_file() for file in FILES.values()):
        pytest.skip(f"the data sets are not in {RAW}")
    monkeypatch.setenv("FEDCT_DATA", str(RAW))


@pytest.mark.usefixtures("real")
@pytest.mark.parametrize(
    ("name", "private", "public", "test"),
    [("adult", 31_073, 10_000, 7_769), ("mushroom", 2_499, 4_000, 1_625), ("wine-quality", 136, 4_100, 1_084)],
)
def test_the_papers_sizes(name: str, private: int, public: int, test: int) -> None:
    dataset = named(name)
    assert sum(silo.private.size for silo in dataset.silos) == private
    assert (len(dataset.silos), len(dataset.public), dataset.test.size) == (5, public, test)


@pytest.mark.usefixtures("data_folder")
@pytest.mark.parametrize(
    ("name", "classes", "columns"),
    [
        ("adult", ("<=50K", ">50K"), ["age", "workclass"]),
        ("mushroom", ("edible", "poisonous"), ["odor", "stalk-root"]),
        ("wine-quality", ("red", "white"), ["alcohol", "pH"]),
    ],
)
def test_neither_the_label_nor_what_is_unused_is_a_feature(
    name: str, classes: tuple[str, ...], columns: list[str]
) -> None:
    schema = small(name).schema
    assert schema.classes == classes
    assert [column.name for column in schema.columns] == columns


def test_only_wines_lose_rows_that_repeat(data_folder: Path) -> None:
    for name in ("wine-quality", "adult"):
        path = data_folder / FILES[name]
        header, *lines = gzip.decompress(path.read_bytes()).decode().splitlines()
        path.write_bytes(gzip.compress("\n".join([header, *lines, *lines, ""]).encode()))
    assert len(together(small("wine-quality"))) == 40
    assert len(together(small("adult"))) == 80


@pytest.mark.parametrize("path", [*FILES.values(), *(f"{name}/{file}" for name, file in IMAGES.items())])
def test_a_file_that_is_not_there_is_asked_for_in_one_sentence(path: str, data_folder: Path) -> None:
    (data_folder / path).unlink()
    name = path.removesuffix(".csv.gz").replace("_", "-").partition("/")[0]
    said, page = sentence(DataError, small, name), "https://archive.ics.uci.edu/dataset/" if name in FILES else "http"
    for part in (Path(path).name, str((data_folder / path).parent), page, "FEDCT_DATA"):
        assert part in said


@pytest.mark.parametrize("label", [">50K.", ""])
def test_labels_that_are_none_of_the_classes_are_counted(label: str, data_folder: Path) -> None:
    rewrite(data_folder / "adult.csv.gz", ">50K", label)
    with pytest.raises(DataError, match=r"has 20 records with 'income' not one of <=50K, >50K"):
        small("adult")
