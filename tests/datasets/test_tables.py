"""Tables to numbers: the same data from CSV and Parquet, and every fault in one sentence that names the file."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.datasets.schema import Column
from fedct_flwr.datasets.table_files import read_table
from fedct_flwr.datasets.tables import columns_of, encode
from fedct_flwr.types import DataError

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
    with pytest.raises(DataError) as caught:
        encode(table, columns, HERE)
    text = str(caught.value)
    assert "\n" not in text
    assert str(HERE) in text
    return text


def csv_error(content: str | bytes, path: Path) -> str:
    """What is said of a CSV file that cannot be read."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(DataError) as caught:
        read_table(path)
    text = str(caught.value)
    assert "\n" not in text
    assert str(path) in text
    return text


# --- reading


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_columns_and_values_are_those_written(tmp_path: Path, suffix: str) -> None:
    path = write(TABLE, tmp_path / f"north.{suffix}")
    table = read_table(path)
    columns = columns_of(table, path)
    assert columns == (
        Column("dose"),
        Column("age"),
        Column("count"),
        Column("smoker"),
        Column("ward", ("east", "west")),
        Column("drug", ("a", "b")),
        Column("never"),
    )
    nan = np.nan
    np.testing.assert_array_equal(
        encode(table, columns, path),
        [[0.5, 63.5, 1, 1, 1, 1, nan], [1.25, nan, 2, 0, 0, nan, nan], [-3.0, 41.0, 3, nan, 1, 0, nan]],
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "it is empty, so export the table anew"),
        ("a,b\n1,2\n1,2,3\n", "Expected 2 columns, got 3"),
        ("a,b\n1,2\n1\n", "Expected 2 columns, got 1"),
    ],
    ids=["empty", "a field too many", "a field too few"],
)
def test_a_csv_file_that_cannot_be_read(tmp_path: Path, content: str, said: str) -> None:
    assert said in csv_error(content, tmp_path / "north.csv")


def test_columns_of_the_same_name_in_parquet(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([0])], names=["age", "age", "sex"])
    path = write(table, tmp_path / "north.parquet")
    with pytest.raises(DataError, match=r"north\.parquet.*\bage\b"):
        read_table(path)


# --- what columns are


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["b", "a", None, "b"]),
        pa.array(["b", "a", None, "b"], pa.large_string()),
        pa.array(["b", "a", None, "b"]).dictionary_encode(),
    ],
    ids=["string", "large_string", "dictionary"],
)
def test_text_is_categorical_with_sorted_values(values: pa.Array) -> None:
    table = pa.table({"drug": values})
    columns = columns_of(table, HERE)
    assert columns == (Column("drug", ("a", "b")),)
    np.testing.assert_array_equal(encode(table, columns, HERE), [[1], [0], [np.nan], [1]])


@pytest.mark.parametrize(
    ("value", "kind"),
    [([1, 2], "list"), ({"a": 1}, "struct"), (b"raw", "binary")],
    ids=["list", "struct", "binary"],
)
def test_what_is_neither_numbers_nor_text_is_refused_by_name(
    value: object, kind: str, wording: SnapshotAssertion
) -> None:
    with pytest.raises(DataError) as caught:
        columns_of(pa.table({"seen": [value]}), HERE)
    assert str(caught.value) == wording


# --- encoding against the public set's columns


def test_categories_are_positions_in_the_public_sets_list() -> None:
    table = pa.table({"age": [1, 2], "ward": ["west", "east"]})
    np.testing.assert_array_equal(encode(table, COLUMNS, HERE), [[1, 1], [2, 0]])


def test_a_category_that_the_public_set_does_not_have_gets_a_code_of_its_own() -> None:
    table = pa.table({"age": [1, 2, 3], "ward": ["north", "south", "east"]})
    assert encode(table, COLUMNS, HERE)[:, 1].tolist() == [2, 2, 0]


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("s"), pa.list_(pa.int64())], ids=str)
def test_a_column_without_any_value_fits_whatever_its_kind(kind: pa.DataType) -> None:
    table = pa.table({"age": pa.nulls(2, kind), "ward": ["east", "west"]})
    assert np.isnan(encode(table, COLUMNS, HERE)[:, 0]).all()


def test_every_column_that_disagrees_is_listed(wording: SnapshotAssertion) -> None:
    columns = (Column("age"), Column("ward", ("east",)), Column("bmi"), Column("dose"), Column("drug", ("a",)))
    table = pa.table({"age": ["old"], "ward": [3], "sex": [1], "height": [180], "drug": ["a"]})
    assert error(table, columns) == wording


@pytest.mark.parametrize("value", [float("inf"), float("-inf")])
def test_infinite_values_are_refused_with_the_names_of_their_columns(value: float, wording: SnapshotAssertion) -> None:
    columns = (Column("age"), Column("dose"), Column("bmi"))
    said = error(pa.table({"age": [1.0, 2.0], "dose": [1.0, value], "bmi": [value, 1.0]}), columns)
    assert said == wording
