"""A folder of tables as a federation. Whatever is wrong: one sentence, the file's name, and nobody's record."""

import gzip
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets import FederatedDataset, files
from fedct_flwr.datasets.schema import Column
from fedct_flwr.types import ConfigError, DataError
from tests.sentences import sentence

MARKER = "Erika-4711"
"""Stands for a value that only a patient's record has."""
MARKER_NUMBER = 4711471147114711471

PUBLIC = "age,ward\n63,east\n41,west\n,east\n"
NORTH = "age,ward,ill\n70,east,yes\n35,west,no\n52,,yes\n44,north,no\n"
SOUTH = "ill,ward,age\nno,west,28\nyes,east,81\n"


Folder = Callable[..., Path]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Writes ``name=content``: text or bytes as CSV, a table as Parquet, None for no such file.

    Without anything else there are a public set and two silos.
    """

    def write(**contents: str | bytes | pa.Table | None) -> Path:
        for name, content in {"public": PUBLIC, "north": NORTH, "south": SOUTH, **contents}.items():
            if isinstance(content, pa.Table):
                pyarrow.parquet.write_table(content, tmp_path / f"{name}.parquet")
            elif content is not None:
                (tmp_path / f"{name}.csv").write_bytes(content.encode() if isinstance(content, str) else content)
        return tmp_path

    return write


def load(path: Path, **settings: Any) -> FederatedDataset:
    """The federation in a folder; nothing is held out unless a share is given."""
    raw = {"study": "s", "data": "files", "data-dir": str(path), "label-column": "ill", "test-fraction": 0.0}
    return files.load(RunConfig.from_flower(raw | {key.replace("_", "-"): value for key, value in settings.items()}))


def error(path: Path, **settings: Any) -> str:
    """What is said of a folder that cannot be loaded: one line."""
    return sentence(DataError, load, path, **settings)


def records(dataset: FederatedDataset, silo: str) -> set[tuple[float | None, ...]]:
    """A silo's private records with their labels, NaN as None."""
    private = dataset.silos[dataset.position(silo)].private
    return {
        (*(None if np.isnan(value) else float(value) for value in row), int(label))
        for row, label in zip(*private, strict=True)
    }


# --- a number as the outcome


@pytest.mark.parametrize(
    "values",
    [("1", "high"), ("1", ""), ("inf", "1"), ("1e300000", "nan")],
    ids=["text", "nothing", "infinite", "far too large"],
)
def test_what_is_no_number_is_named_and_not_quoted(
    values: tuple[str, str], folder: Folder, wording: SnapshotAssertion
) -> None:
    path = folder(north="age,ward,ill\n" + "".join(f"1,a,{value}\n" for value in values))
    text = error(path, outcome="number")
    assert text == wording
    assert "high" not in text


# --- a folder as it should be


def test_records_in_the_public_sets_columns(folder: Folder) -> None:
    dataset = load(folder())
    # Classes no, yes; wards east, west; a ward that the public set does not have is 2, none is None.
    assert records(dataset, "north") == {(70, 0, 1), (35, 1, 0), (52, None, 1), (44, 2, 0)}
    assert records(dataset, "south") == {(28, 1, 0), (81, 0, 1)}


def test_a_label_column_in_the_public_set_is_dropped_unread(folder: Folder) -> None:
    without = load(folder())
    labeled = load(folder(public="age,ill,ward\n63,2024-01-01,east\n41,?,west\n,yes,east\n"))
    assert labeled.schema == without.schema
    assert labeled.public.fingerprint == without.public.fingerprint


# --- faults: one sentence that names the file


@pytest.mark.parametrize("name", ["public", "north"])
def test_csv_and_parquet_of_the_same_name(folder: Folder, name: str) -> None:
    path = folder()
    pyarrow.parquet.write_table(pa.table({"age": [1]}), path / f"{name}.parquet")
    said = error(path)
    assert str(path) in said
    assert f"two tables for {name!r}" in said


# --- nobody's record in any message


LEAKS: dict[str, dict[str, Any]] = {
    "a field too many": {"north": f"age,ward,ill\n1,east,yes\n2,{MARKER},no,what\n"},
    "a field too few": {"north": f"age,ward,ill\n1,east,yes\n{MARKER},no\n"},
    "an open quote": {"north": f'age,ward,ill\n1,"{MARKER},yes\n2,west,no\n'},
    "text for numbers": {"north": f"age,ward,ill\n{MARKER},east,yes\n"},
    "text for numbers far down": {"north": "age,ward,ill\n" + "12,east,yes\n" * 150_000 + f"{MARKER},east,yes\n"},
    "numbers for text": {"west": pa.table({"age": [1], "ward": [MARKER_NUMBER], "ill": ["yes"]})},
    "another encoding": {"north": f"age,ward,ill\n1,Süd {MARKER},yes\n".encode("latin-1")},
    "an infinite value": {"north": f"age,ward,ill\ninf,{MARKER},yes\n"},
    "a record without a label": {"north": f"age,ward,ill\n1,{MARKER},\n"},
    "an unknown column": {"north": f"age,ward,ill,name\n1,east,yes,{MARKER}\n"},
    "patients' names for labels": {
        "north": "age,ward,ill\n" + "".join(f"1,east,{MARKER}-{i}\n" for i in range(33_000)),
    },
    "a label that is a list": {"west": pa.table({"age": [1], "ward": ["east"], "ill": [[MARKER]]})},
}


@pytest.mark.parametrize("fault", list(LEAKS))
def test_no_message_quotes_a_record(folder: Folder, fault: str) -> None:
    said = error(folder(**LEAKS[fault]))
    assert MARKER not in said
    assert str(MARKER_NUMBER) not in said


# --- as data.toml tells


def told(path: Path, text: str) -> None:
    (path / "data.toml").write_text(text, "utf-8")


def test_files_of_every_kind_are_silos(folder: Folder) -> None:
    path = folder()
    for silo in ("dortmund.xlsx", "essen.csv.gz", "koeln.tsv", "bonn.tsv.gz"):
        text = SOUTH.replace(",", "\t") if ".tsv" in silo else SOUTH
        if silo.endswith(".xlsx"):
            book = openpyxl.Workbook()
            for line in SOUTH.splitlines():
                book.active.append(line.split(","))
            book.save(path / silo)
        else:
            (path / silo).write_bytes(gzip.compress(text.encode()) if silo.endswith(".gz") else text.encode())
    found = load(path)
    assert [silo.name for silo in found.silos] == ["bonn", "dortmund", "essen", "koeln", "north", "south"]
    for silo in ("bonn", "dortmund", "essen", "koeln"):
        assert records(found, silo) == records(found, "south")


def test_columns_left_out_codes_and_dates(folder: Folder) -> None:
    path = folder(
        public="id,ward,seen\n1,7,02.01.1970\n2,8,03.01.1970\n",
        north="id,ward,seen,ill\n3,7,04.01.1970,yes\n4,7,05.01.1970,no\n",
        south=pa.table({"id": [5], "ward": [8.0], "seen": [date(1970, 1, 6)], "ill": ["no"]}),
    )
    (path / "south.csv").unlink(missing_ok=True)
    told(path, 'leave-out = ["id"]\ncategories = ["ward"]\ndates = "%d.%m.%Y"')
    found = load(path)
    assert found.schema.columns == (Column("ward", ("7", "8")), Column("seen"))
    assert records(found, "north") == {(0, 3, 1), (0, 4, 0)}
    assert records(found, "south") == {(1, 5, 0)}


@pytest.mark.parametrize(
    "text",
    [
        'leave-out = ["agee"]',
        'categories = ["wards"]',
        'group = "patient"',
        '[files."north.csv"]\nleave-out = ["sex"]',
        '[files."nord.csv"]\ndecimal = ","',
        "decimel = 3",
    ],
)
def test_a_name_in_data_toml_that_nothing_has(folder: Folder, text: str, wording: SnapshotAssertion) -> None:
    path = folder()
    told(path, text)
    assert sentence(ConfigError, load, path) == wording
