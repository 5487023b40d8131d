"""Adult, Mushroom and WineQuality: the paper's sizes, nothing lost, and every fault in one sentence."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedct_flwr.datasets import FederatedDataset
from fedct_flwr.types import DataError
from tests.datasets.loading import load, small
from tests.sentences import sentence

RAW = Path(__file__).parents[3] / "shared" / "data"
FILES = {"adult": "adult.csv.gz", "mushroom": "mushroom.csv.gz", "wine-quality": "wine_quality.csv.gz"}

every_table = pytest.mark.parametrize("name", list(FILES))


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
    dataset = load(name)
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


@every_table
def test_a_table_that_is_not_there_is_asked_for_in_one_sentence(name: str, data_folder: Path) -> None:
    (data_folder / FILES[name]).unlink()
    said = sentence(DataError, small, name)
    for part in (FILES[name], str(data_folder), "https://archive.ics.uci.edu/dataset/", "FEDCT_DATA"):
        assert part in said


@pytest.mark.parametrize("label", [">50K.", ""])
def test_labels_that_are_none_of_the_classes_are_counted(label: str, data_folder: Path) -> None:
    rewrite(data_folder / "adult.csv.gz", ">50K", label)
    with pytest.raises(DataError, match=r"has 20 records with 'income' not one of <=50K, >50K"):
        small("adult")
