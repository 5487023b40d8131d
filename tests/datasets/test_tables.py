"""Tables to numbers: the same data from CSV and Parquet, and every fault in one sentence that names the file."""

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.datasets.parquet import read_parquet
from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.datasets.table_files import read_table
from fedct_flwr.datasets.tables import columns_of, encode
from fedct_flwr.types import MAX_CLASSES, DataError
from tests.sentences import sentence

HERE = Path("north.csv")
COLUMNS = (Column("age"), Column("ward", ("east", "west")))

# Numbers, numbers with a gap, whole numbers, truth values, text, text with a gap, nothing at all.
TABLE = pa.table(
    {
        "dose": [0.5, 1.25, -3.0],
        "age": [63.5, None, 41.0],
        "count": [1, 2, 3],
        "smoker": [True, False, None],
        "ward": ["west", "east", "west"],
        "drug": ["b", None, "a"],
        "never": pa.nulls(3),
    }
)


def write(table: pa.Table, path: Path) -> Path:
    """The table as CSV or Parquet, whichever the name asks for."""
    if path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    else:
        pyarrow.parquet.write_table(table, path)
    return path


def error(table: pa.Table, columns: tuple[Column, ...] = COLUMNS) -> str:
    """What is said of a table that does not fit."""
    text = sentence(DataError, encode, table, columns, HERE)
    assert str(HERE) in text
    return text


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_columns_and_values_are_those_written(tmp_path: Path, suffix: str) -> None:
    path = write(TABLE, tmp_path / f"north.{suffix}")
    table = read_table(path)
    columns = columns_of(table, path)
    categories = {"ward": ("east", "west"), "drug": ("a", "b")}
    assert columns == tuple(Column(name, categories.get(name)) for name in TABLE.column_names)
    nan = np.nan
    np.testing.assert_array_equal(
        encode(table, columns, path),
        [[0.5, 63.5, 1, 1, 1, 1, nan], [1.25, nan, 2, 0, 0, nan, nan], [-3.0, 41.0, 3, nan, 1, 0, nan]],
    )


@pytest.mark.parametrize("value", [[1, 2], {"a": 1}, b"raw"], ids=["list", "struct", "binary"])
def test_what_is_neither_numbers_nor_text_is_refused_by_name(value: object, wording: SnapshotAssertion) -> None:
    assert sentence(DataError, lambda: columns_of(pa.table({"seen": [value]}), HERE)) == wording


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("s"), pa.list_(pa.int64())], ids=str)
def test_a_column_without_any_value_fits_whatever_its_kind(kind: pa.DataType) -> None:
    table = pa.table({"age": pa.nulls(2, kind), "ward": ["east", "west"]})
    assert np.isnan(encode(table, COLUMNS, HERE)[:, 0]).all()


def test_every_column_that_disagrees_is_listed(wording: SnapshotAssertion) -> None:
    columns = (Column("age"), Column("ward", ("east",)), Column("bmi"), Column("dose"), Column("drug", ("a",)))
    table = pa.table({"age": ["old"], "ward": [3], "sex": [1], "height": [180], "drug": ["a"]})
    assert error(table, columns) == wording


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        ((), f"between 2 and {MAX_CLASSES} classes, found 0"),
        (("healthy",), f"between 2 and {MAX_CLASSES} classes, found 1"),
        (tuple(map(str, range(MAX_CLASSES + 1))), f"between 2 and {MAX_CLASSES} classes, found {MAX_CLASSES + 1}"),
        (("a", "b", "a"), "class names repeat: 'a', 'b', 'a'"),
    ],
)
def test_what_are_no_classes_is_refused_in_a_short_sentence(classes: tuple[str, ...], said: str) -> None:
    with pytest.raises(DataError, match=said) as caught:
        Schema(classes)
    assert len(str(caught.value)) < 200


TEXT = "x" * 100_000
ROWS = 3000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "public.parquet"


PARQUET_COLUMNS: dict[str, pa.Array] = {
    "number": pa.array([1.5, None, 3.0]),
    "text": pa.array(["a", None, "\u00e4"]),
    "long": pa.array(["a", None, "b"], pa.large_string()),
    "view": pa.array(["a", None, "b"], pa.string_view()),
    "bytes": pa.array([b"a", None, b""]),
    "fixed": pa.array([b"ab", None, b"cd"], pa.binary(2)),
    "category": pa.array(["a", None, "a"]).dictionary_encode(),
    "codes": pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array([5, 7])),
    "day": pa.array([date(2020, 1, 2), None, None]),
    "nothing": pa.nulls(3),
    "list": pa.array([["a", "b"], None, []]),
}


@pytest.mark.parametrize("left_out", ["", "list", "view"])
@pytest.mark.parametrize("options", [{}, {"use_dictionary": False}, {"row_group_size": 2}, {"store_schema": False}])
def test_a_table_is_what_pyarrow_reads(path: Path, options: dict[str, Any], left_out: str) -> None:
    columns = {
        name: values for name, values in PARQUET_COLUMNS.items() if name not in (left_out, "list" if left_out else "")
    }
    pyarrow.parquet.write_table(pa.table(columns), path, **options)
    found, expected = read_parquet(path), pyarrow.parquet.read_table(path)
    assert found.schema.metadata == expected.schema.metadata
    assert not any(pa.types.is_dictionary(kind) for kind in found.schema.types)
    assert found.to_pylist() == expected.to_pylist()


@pytest.mark.parametrize("options", [{}, {"use_dictionary": False, "column_encoding": {"a": "DELTA_BYTE_ARRAY"}}])
@pytest.mark.parametrize("kind", ["text", "category", "list"])
def test_a_text_that_is_written_once_does_not_fill_the_memory(path: Path, kind: str, options: dict[str, Any]) -> None:
    """A file of 14 kB took 5 GB: what it says of its size counts the text once."""
    once = pa.DictionaryArray.from_arrays(pa.array([0] * ROWS, pa.int32()), pa.array([TEXT]))
    columns = {"text": once.cast(pa.string()), "category": once, "list": pa.array([[TEXT]] * ROWS)}
    if kind == "category" and options:
        columns["category"] = columns["text"]
    pyarrow.parquet.write_table(pa.table({"a": columns[kind]}), path, **{"compression": "zstd", **options})
    assert path.stat().st_size < 50_000
    with pytest.raises(DataError, match=r"public\.parquet: unpacked, it is far larger than a table of its size"):
        read_parquet(path)


def test_a_number_that_is_written_once_does_not_fill_the_memory(path: Path) -> None:
    """A file of 1.2 MB took 2.5 GB to read: it held 64 times 4 million rows of the same number."""
    rows = pa.table({f"c{number}": np.full(1 << 20, 1.5) for number in range(4)})
    with pyarrow.parquet.ParquetWriter(path, rows.schema, compression="zstd") as file:
        for _ in range(5):
            file.write_table(rows)
    assert path.stat().st_size < 200_000
    with pytest.raises(DataError, match="far larger"):
        read_parquet(path)
