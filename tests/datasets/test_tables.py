"""Tables to numbers: the same data from CSV and Parquet, and every fault in one sentence that names the file."""

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.config.tables import TableSettings
from fedct_flwr.datasets.packed_tables import read_parquet
from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.datasets.table_files import read_table
from fedct_flwr.datasets.tables import (
    all_classes,
    class_name,
    class_names,
    columns_of,
    encode,
    map_labels,
    usual,
    with_signed_times,
)
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
    if options.get("store_schema", True):
        names = usual(pa.chunked_array([columns["codes"]]))
        expected = expected.set_column(expected.column_names.index("codes"), "codes", names)
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


@pytest.mark.parametrize(
    ("values", "missing", "expected"),
    [
        (pa.array([157, 7, 15], pa.uint8()), ["-99", "9999"], [157, 7, 15]),
        (pa.array([-1, 7, 9], pa.int8()), ["255", "9.0", "7.5"], [-1, 7, None]),
        (pa.array([-31073, 999], pa.int16()), ["99999", "999"], [-31073, None]),
        (pa.array(np.array([-9, 2, -9.9], np.float16)), ["-9", "-9.9"], [None, 2, None]),
        (pa.array([-9.9, 2], pa.float32()), ["-9.9"], [None, 2]),
        (pa.array([Decimal("-9.00"), Decimal("2.50")]), ["-9", "9999", "2.505"], [None, 2.5]),
        (pa.array([Decimal(-9), Decimal(2)], pa.decimal256(60, 0)), ["-9", "2.5", "9" * 70], [None, 2]),
        (pa.array([True, False]), ["1", "0"], [True, False]),
    ],
)
def test_a_code_takes_only_its_own_value_away_whatever_the_type(
    path: Path, values: pa.Array, missing: list[str], expected: list[object]
) -> None:
    """A code outside of a type's range became another number: -99 took 157 out of a column of uint8."""
    pyarrow.parquet.write_table(pa.table({"x": values}), path)
    found = read_table(path, (), TableSettings.read({"missing": missing}, "here")).column("x").to_pylist()
    assert found == expected


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_accents_in_two_forms_are_one_category(tmp_path: Path, ending: str) -> None:
    """A Mac's export of 'K\u00f6ln' was unknown to the public set, in a message that showed the same word twice."""
    towns = pa.table({"town": ["Ko\u0308ln", "Bonn", None, "K\u00f6ln"], "x": [1, 2, 3, 4]})
    found = read_table(write(towns, tmp_path / f"north.{ending}")).column("town")
    assert found.to_pylist() == ["K\u00f6ln", "Bonn", None, "K\u00f6ln"]


def test_codes_as_text_stay_apart_or_are_refused(tmp_path: Path) -> None:
    settings = TableSettings.read({"categories": ["code"]}, "here")
    path = tmp_path / "north.csv"
    for content, expected in (("1.0,2.0,,V1", ["1", "2", None, "V1"]), ("250,250.00,2.50", ["250", "250.00", "2.50"])):
        path.write_text("code,x\n" + "".join(f"{code},1\n" for code in content.split(",")), "utf-8")
        assert read_table(path, (), settings).column("code").to_pylist() == expected
    path.write_text("code\n250\n250.0\n", "utf-8")
    assert "codes with and without '.0'" in sentence(DataError, read_table, path, (), settings)
    numbers = pa.table({"code": [Decimal("250.00")]})
    assert read_table(write(numbers, tmp_path / "a.parquet"), (), settings).column("code").to_pylist() == ["250"]


def test_a_date_is_no_time_of_follow_up(tmp_path: Path) -> None:
    """Days since 1970 ranked everybody by the calendar, without a word."""
    path = tmp_path / "north.csv"
    path.write_text("seen,died\n2024-03-01,1\n2024-05-01,0\n", "utf-8")
    table = read_table(path, tables=TableSettings.read({"dates": "%Y-%m-%d"}, "here"))
    said = sentence(DataError, with_signed_times, table, "seen", "died", path)
    assert said == f"'seen' of {path} holds dates: subtract the date on which each record's time begins"


# --- labels


FILE = Path("/data/records.csv")
CLASSES = ("healthy", "diseased")
SECRET = "Erika-4711"


def said(names: list[str], mapping: dict[str, str], classes: tuple[str, ...] = CLASSES) -> str:
    return sentence(DataError, map_labels, names, mapping, classes, FILE)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (" yes ", "yes"),
        ("1.0", "1"),
        ("+1", "1"),
        ("-0", "0"),
        ("0.0", "0"),
        ("01", "01"),
        ("007", "007"),
        ("1E50", "1E50"),
        ("1,0", "1,0"),
        ("\u0661", "\u0661"),
        ("\uff11", "\uff11"),
        ("12345678901234567890.0", "12345678901234567890"),
        ("1.5", "1.5"),
        ("True", "true"),
        ("fru\u0308h", "fr\u00fch"),
    ],
)
def test_one_name_for_all_spellings(text: str, name: str) -> None:
    assert class_name(text) == name


def test_classes_are_sorted_numbers_by_value_and_text_by_alphabet() -> None:
    assert all_classes({"10", "9", "-1"}) == ("-1", "9", "10")
    assert all_classes({"b", "10", "9"}) == ("10", "9", "b")


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (pa.array([1, 0], pa.int8()), ["1", "0"]),
        (pa.array([2**63 - 1, 2**62]), [str(2**63 - 1), str(2**62)]),
        (pa.array([1.0, 0.5]), ["1", "0.5"]),
        (pa.array([1.0, 2.0], pa.float32()), ["1", "2"]),
        (pa.array([1.0, 2.0], pa.float16()), ["1", "2"]),
        (pa.array([Decimal("1.00"), Decimal("1E+2")], pa.decimal128(5, 2)), ["1", "100"]),
        (pa.array([True, False]), ["true", "false"]),
        (pa.array(["b", "a"]).dictionary_encode(), ["b", "a"]),
        (pa.array([7, 8]).dictionary_encode(), ["7", "8"]),
        (pa.array(["b", "a"], pa.large_string()), ["b", "a"]),
        (pa.array(["b", "a"], pa.string_view()), ["b", "a"]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_a_label_is_what_a_csv_file_would_have(values: pa.Array, names: list[str]) -> None:
    assert class_names(pa.chunked_array([values, values[:1]]), "y", FILE) == [*names, names[0]]


@pytest.mark.parametrize("value", [1e300, float(2**53) * 2, float("inf"), float("-inf")])
def test_numbers_that_a_float_cannot_tell_apart_are_no_labels(value: float) -> None:
    with pytest.raises(DataError, match="too large to tell apart") as caught:
        class_names(pa.chunked_array([[1.0, value]]), "y", FILE)
    assert str(int(value) if abs(value) < 1e308 else value) not in str(caught.value)


def test_a_class_of_the_study_may_be_spelled_in_any_way() -> None:
    assert map_labels(["1", "0"], {}, ("0.0", "1.0"), FILE).tolist() == [1, 0]


def test_a_mapping_says_what_each_label_means_and_several_may_mean_the_same() -> None:
    mapping = {"0": "healthy", "1.0": "diseased", "2": "diseased", "True": "diseased"}
    assert map_labels(["2", "0", "1", "true"], mapping, CLASSES, FILE).tolist() == [1, 0, 1, 1]


def test_a_mapping_to_no_class_is_named_with_the_classes_that_there_are(wording: SnapshotAssertion) -> None:
    text = said(["0"], {"0": "well", "1": "diseased"})
    assert text == wording


def test_two_spellings_of_one_label_cannot_mean_different_classes() -> None:
    assert "mapping has '1' in two spellings" in said(["1"], {"1": "healthy", "1.0": "diseased"})
    assert map_labels(["1"], {"1": "diseased", "1.0": "diseased"}, CLASSES, FILE).tolist() == [1]


@pytest.mark.parametrize("mapping", [{}, {"0": "healthy"}])
def test_unknown_labels_are_counted_and_not_quoted(mapping: dict[str, str], wording: SnapshotAssertion) -> None:
    text = said([SECRET, SECRET + "2", *mapping], mapping)
    assert text == wording
    assert SECRET not in text
