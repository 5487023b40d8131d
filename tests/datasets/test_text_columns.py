"""Columns of text: strings from every file, in the fingerprint, the study's digest and the search for copies."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

from fedct_flwr.config.silo import DataSettings
from fedct_flwr.datasets.federated import PublicSet
from fedct_flwr.datasets.schema import Column
from fedct_flwr.datasets.study_folder import StudyFolder, read_records, read_study
from tests.datasets.test_files import load

PUBLIC = "age,note,code\n63,Chest pain,7\n41,,8\n,no pain,9\n"
NORTH = "age,note,code,ill\n70,pain,7,yes\n35,fine,8,no\n52,,9,yes\n44,ok,7,no\n"
SOUTH = "ill,note,age,code\nno,007,28,1\nyes,pain today,81,2\n"
COLUMNS = (Column("age"), Column("note", text=True), Column("code", text=True))


def write(folder: Path, public: str = PUBLIC, north: str = NORTH, south: str = SOUTH, told: str = "") -> Path:
    for name, content in {"public": public, "north": north, "south": south}.items():
        (folder / f"{name}.csv").write_text(content, "utf-8")
    if told:
        (folder / "data.toml").write_text(told, "utf-8")
    return folder


@pytest.mark.parametrize(
    ("told", "settings"),
    [
        ("text = ['note', 'code']", {}),
        ("text = ['note']", {"text_columns": "code"}),
        ("", {"text_columns": "note,code"}),
    ],
)
def test_named_columns_stay_text_whatever_they_look_like(tmp_path: Path, told: str, settings: Any) -> None:
    dataset = load(write(tmp_path, told=told), **settings)
    assert dataset.schema.columns == COLUMNS
    assert (dataset.schema.texts, dataset.schema.without_texts, dataset.schema.categorical) == ((1, 2), (0,), ())
    assert dataset.public.X.dtype == np.object_
    assert dataset.public.X[:, 1:].tolist() == [["Chest pain", "7"], ["", "8"], ["no pain", "9"]]
    assert dataset.public.X[:2, 0].tolist() == [63.0, 41.0]
    assert np.isnan(dataset.public.X[2, 0])
    south = dataset.silos[1].private
    assert sorted(south.X[:, 1]) == ["007", "pain today"]


def features(*rows: tuple[Any, ...]) -> Any:
    return np.array(rows, dtype=object)


BASE = features((1.0, "a", "b"), (float("nan"), "", "c"))


@pytest.mark.parametrize(
    "other",
    [
        features((1.0, "A", "b"), (float("nan"), "", "c")),
        features((1.5, "a", "b"), (float("nan"), "", "c")),
        features((1.0, "b", "a"), (float("nan"), "c", "")),
        features((float("nan"), "", "c"), (1.0, "a", "b")),
        features((1.0, "a", "b")),
    ],
)
def test_the_fingerprint_differs_for_other_texts_and_numbers(other: Any) -> None:
    assert PublicSet(other).fingerprint != PublicSet(BASE).fingerprint


def study(folder: Path, **tables: Any) -> StudyFolder:
    folder.mkdir(exist_ok=True)
    (folder / "public.csv").write_text(PUBLIC, "utf-8")
    said = {"study": "ward", "classes": ["no", "yes"], **({"tables": tables} if tables else {})}
    (folder / "study.toml").write_text(tomli_w.dumps(said), "utf-8")
    return read_study(folder)


def test_a_study_says_which_columns_are_text(tmp_path: Path) -> None:
    found = study(tmp_path / "a", text=["note", "code"])
    assert found.schema.columns == COLUMNS
    (tmp_path / "north.csv").write_text(NORTH)
    records = read_records(DataSettings(file=tmp_path / "north.csv", label="ill"), found)
    assert records.X[:, 1].tolist() == ["pain", "fine", "", "ok"]
    assert records.X[:, 2].tolist() == ["7", "8", "9", "7"]


def test_what_is_text_is_part_of_the_digest(tmp_path: Path) -> None:
    digests = [
        study(tmp_path / "a", **tables).digest for tables in ({}, {"text": ["note"]}, {"text": ["note", "code"]})
    ]
    assert len(set(digests)) == 3
