"""Tables to numbers: the same data from CSV and Parquet, and every fault in one sentence that names the file."""

import gzip
from datetime import date
from pathlib import Path
from typing import Any

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


@pytest.mark.parametrize("content", ["a,b\r\n1,2\r\n", "\ufeffa,b\n1,2\n", "a,b\n1,2", '"a","b"\n"1","2"\n'])
def test_csv_files_as_spreadsheets_write_them(tmp_path: Path, content: str) -> None:
    path = tmp_path / "north.csv"
    path.write_text(content, encoding="utf-8", newline="")
    assert read_table(path).to_pydict() == {"a": [1], "b": [2]}


def test_text_may_hold_commas_quotes_and_any_letter(tmp_path: Path) -> None:
    path = tmp_path / "north.csv"
    path.write_text('ward,age\n"Intensiv, ""Süd""",1\n', encoding="utf-8")
    assert columns_of(read_table(path), path)[0].categories == ('Intensiv, "Süd"',)


def test_packed_csv_files_are_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "north.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n1,2\n"))
    assert read_table(path).to_pydict() == {"a": [1], "b": [2]}


@pytest.mark.parametrize("content", [b"a,b\n1,2\n", gzip.compress(b"a,b\n1,2\n" * 99, mtime=0)[:-9], b""])
def test_packed_files_that_are_damaged_are_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "north.csv.gz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"cannot read .*north\.csv\.gz"):
        read_table(path)


def test_a_column_that_only_looks_whole_at_first_is_read_as_fractions(tmp_path: Path) -> None:
    path = tmp_path / "north.csv"
    path.write_text("age\n" + "1234567\n" * 200_000 + "1.5\n")
    X = encode(read_table(path), (Column("age"),), path)
    assert X[[0, -1], 0].tolist() == [1234567.0, 1.5]


def test_folders_with_an_equals_sign_add_no_columns(tmp_path: Path) -> None:
    (tmp_path / "year=2024").mkdir()
    path = write(TABLE, tmp_path / "year=2024" / "north.parquet")
    assert read_table(path).column_names == TABLE.column_names


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


def test_a_header_that_is_no_utf_8(tmp_path: Path) -> None:
    csv_error("größe,alter\n1,2\n".encode("latin-1"), tmp_path / "north.csv")


@pytest.mark.parametrize("content", [b"", b"age,ward\n1,east\n", b"PAR1 nothing else PAR1"])
def test_a_parquet_file_that_is_none(tmp_path: Path, content: bytes) -> None:
    csv_error(content, tmp_path / "north.parquet")


@pytest.mark.parametrize("name", ["north.csv", "north.parquet"])
def test_a_file_that_is_not_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=f"cannot read .*{name}"):
        read_table(tmp_path / name)


def test_a_folder_instead_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "north.csv").mkdir()
    with pytest.raises(DataError, match=r"cannot read .*north\.csv"):
        read_table(tmp_path / "north.csv")


def test_columns_of_the_same_name_in_csv(tmp_path: Path, wording: SnapshotAssertion) -> None:
    said = csv_error("age,ward,age,ward,sex\n1,east,2,west,0\n", tmp_path / "north.csv")
    assert said == wording


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
    "kind", [pa.int8(), pa.uint16(), pa.int64(), pa.float16(), pa.float32(), pa.float64()], ids=str
)
def test_numbers_of_every_width_are_numeric(kind: pa.DataType) -> None:
    table = pa.table({"age": pa.array([1, None, 3]).cast(kind)})
    columns = columns_of(table, HERE)
    assert columns == (Column("age"),)
    np.testing.assert_array_equal(encode(table, columns, HERE), [[1], [np.nan], [3]])


def test_truth_values_are_zero_and_one() -> None:
    table = pa.table({"smoker": [True, False, None]})
    np.testing.assert_array_equal(encode(table, columns_of(table, HERE), HERE), [[1], [0], [np.nan]])


def test_a_column_without_any_value_counts_as_numeric() -> None:
    table = pa.table({"never": pa.nulls(2)})
    assert columns_of(table, HERE) == (Column("never"),)
    assert np.isnan(encode(table, columns_of(table, HERE), HERE)).all()


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


def test_a_date_column_in_csv_is_refused_too(tmp_path: Path) -> None:
    path = tmp_path / "public.csv"
    path.write_text("seen\n2024-02-29\n")
    with pytest.raises(DataError, match=r"column 'seen' of .*public.csv holds dates \('date32"):
        columns_of(read_table(path), path)


# --- encoding against the public set's columns


def test_categories_are_positions_in_the_public_sets_list() -> None:
    table = pa.table({"age": [1, 2], "ward": ["west", "east"]})
    np.testing.assert_array_equal(encode(table, COLUMNS, HERE), [[1, 1], [2, 0]])


def test_a_category_that_the_public_set_does_not_have_gets_a_code_of_its_own() -> None:
    table = pa.table({"age": [1, 2, 3], "ward": ["north", "south", "east"]})
    assert encode(table, COLUMNS, HERE)[:, 1].tolist() == [2, 2, 0]


def test_missing_is_not_the_same_as_unknown() -> None:
    table = pa.table({"age": [None, 2.0], "ward": [None, "north"]})
    np.testing.assert_array_equal(encode(table, COLUMNS, HERE), [[np.nan, np.nan], [2, 2]])


def test_dictionaries_of_their_own_order_make_no_difference() -> None:
    chunks = [pa.array(["west", "east"]).dictionary_encode(), pa.array(["east", "north"]).dictionary_encode()]
    table = pa.table({"age": [1, 2, 3, 4], "ward": pa.chunked_array(chunks)})
    assert encode(table, COLUMNS, HERE)[:, 1].tolist() == [1, 0, 0, 2]


def test_columns_may_come_in_any_order() -> None:
    table = pa.table({"ward": ["west"], "age": [1]})
    np.testing.assert_array_equal(encode(table, COLUMNS, HERE), [[1, 1]])


def test_not_a_number_is_missing() -> None:
    table = pa.table({"age": [float("nan"), 1.0], "ward": ["east", "east"]})
    assert np.isnan(encode(table, COLUMNS, HERE)[:, 0]).tolist() == [True, False]


@pytest.mark.parametrize("kind", [pa.null(), pa.string(), pa.int64(), pa.float64(), pa.bool_()], ids=str)
def test_a_column_without_any_value_fits_both_kinds(kind: pa.DataType) -> None:
    table = pa.table({"age": pa.nulls(2, kind), "ward": pa.nulls(2, kind)})
    assert np.isnan(encode(table, COLUMNS, HERE)).all()


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("s"), pa.list_(pa.int64())], ids=str)
def test_a_column_without_any_value_fits_whatever_its_kind(kind: pa.DataType) -> None:
    table = pa.table({"age": pa.nulls(2, kind), "ward": ["east", "west"]})
    assert np.isnan(encode(table, COLUMNS, HERE)[:, 0]).all()


def test_every_column_that_disagrees_is_listed(wording: SnapshotAssertion) -> None:
    columns = (Column("age"), Column("ward", ("east",)), Column("bmi"), Column("dose"), Column("drug", ("a",)))
    table = pa.table({"age": ["old"], "ward": [3], "sex": [1], "height": [180], "drug": ["a"]})
    assert error(table, columns) == wording


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"age": [1]}, "missing 'ward'"),
        ({"age": [1], "ward": ["east"], "sex": [0]}, "unknown 'sex'"),
        ({"age": ["1"], "ward": ["east"]}, "'age' must hold numbers"),
        ({"age": [1], "ward": [7]}, "'ward' must hold text"),
        ({"age": [date(2024, 2, 29)], "ward": ["east"]}, "'age' must hold numbers"),
        ({"age": [1], "ward": [True]}, "'ward' must hold text"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_one_column_that_disagrees(table: dict[str, Any], said: str, wording: SnapshotAssertion) -> None:
    assert error(pa.table(table)) == wording


def test_a_table_that_shares_no_column_with_the_public_set(wording: SnapshotAssertion) -> None:
    said = error(pa.table({"x": [1], "y": [2]}))
    assert said == wording


@pytest.mark.parametrize("value", [float("inf"), float("-inf")])
def test_infinite_values_are_refused_with_the_names_of_their_columns(value: float, wording: SnapshotAssertion) -> None:
    columns = (Column("age"), Column("dose"), Column("bmi"))
    said = error(pa.table({"age": [1.0, 2.0], "dose": [1.0, value], "bmi": [value, 1.0]}), columns)
    assert said == wording


@pytest.mark.parametrize("number", [2**53 + 1, -(2**53) - 1, 2**63 - 1])
def test_whole_numbers_too_long_for_a_float_are_refused_with_the_name_of_their_column(number: int) -> None:
    # Such numbers are patients' or devices' identities, and rounding would merge them.
    said = error(pa.table({"age": [number], "ward": ["east"]}))
    assert "'age'" in said
    assert str(number) not in said


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a;b;c\n1;2;3\n", "are separated by semicolons: write separator = ';' in data.toml"),
        (b"a\tb\n1\t2\n", r'are separated by tabs: write separator = "\\t" in data.toml'),
        ("a,b\nMüller,1\n".encode("latin-1"), "is not in UTF-8"),
        ("ä,b\nx,1\n".encode("latin-1"), "is not in UTF-8"),
        ("a,b\n1,2\n".encode("utf-16"), "is not in UTF-8"),
    ],
)
@pytest.mark.parametrize("text", [[], ["a"]])
def test_what_spreadsheets_write_in_other_countries_is_told_by_name(
    tmp_path: Path, content: bytes, said: str, text: list[str]
) -> None:
    (tmp_path / "silo.csv").write_bytes(content)
    with pytest.raises(DataError, match=said) as raised:
        read_table(tmp_path / "silo.csv", text)
    assert "Müller" not in str(raised.value)
