"""CSV files in all forms that countries and programs give them: read as told, or refused with the key to write."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.config.tables import TableSettings
from fedct_flwr.datasets.dates import days, likely_forms
from fedct_flwr.datasets.table_files import as_written, column_names, read_table
from fedct_flwr.types import DataError
from tests.sentences import sentence

SECRET = "Erika-4711"


def tables(settings: dict[str, Any]) -> TableSettings:
    return TableSettings.read({key.replace("_", "-"): value for key, value in settings.items()}, "here")


def read(path: Path, content: str | bytes, **settings: Any) -> dict[str, list[Any]]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = read_table(path, (), tables(settings))
    assert set(found.column_names) <= {*column_names(path, tables(settings))}
    return found.to_pydict()


def error(path: Path, content: str | bytes, **settings: Any) -> str:
    said = sentence(DataError, read, path, content, **settings)
    assert str(path) in said
    assert SECRET not in said
    return said


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "essen.csv"


@pytest.mark.parametrize(
    ("content", "settings"),
    [
        ("a;b\n1,5;x\n2;y\n", {"separator": ";", "decimal": ","}),
        ("a\tb\n1,5\tx\n2\ty\n", {"separator": "\t", "decimal": ","}),
        ("a|b\n1.5|x\n2|y\n", {"separator": "|"}),
        ('a,b\n"1,5",x\n"2",y\n', {"decimal": ","}),
        ("a;b;\n1.5;x;\n2;y;\n", {"separator": ";"}),
        ("a,b\r1.5,x\r2,y\r", {}),
        ("\ufeffa,b\n1.5,x\n2,y\n", {}),
    ],
)
def test_fields_and_numbers_as_told(path: Path, content: str, settings: dict[str, Any]) -> None:
    assert read(path, content, **settings) == {"a": [1.5, 2.0], "b": ["x", "y"]}


def test_a_note_beside_the_table_is_a_column_without_a_name(path: Path) -> None:
    assert read(path, "a,,\n1.5,,\n2,,check!\n") == {"a": [1.5, 2.0], "": [None, "check!"]}


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "iso-8859-15", "utf-16", "utf-8-sig", "cp850"])
def test_text_in_the_encoding_that_is_told(path: Path, encoding: str) -> None:
    content = "größe,ort\n1,Köln\n".encode(encoding)
    assert read(path, content, encoding=encoding) == {"größe": [1], "ort": ["Köln"]}


@pytest.mark.parametrize(
    ("content", "key"),
    [
        ("a;b\n1,5;2\n2,5;3\n", "separator = ';'"),
        ("a;b (cm, kg);c\n1;2;3\n4;5;6\n", "separator = ';'"),
        ("a\tb\n1\t2\n", 'separator = "\\t"'),
        (f"a;b\n1;{SECRET}\n2;3;4\n", "separator = ';'"),
        ("a;b (x,y)\n1,5;2\n2,5;3\n", "separator = ',' or separator = ';'"),
    ],
)
def test_another_separator_is_refused_with_the_key_to_write(path: Path, content: str, key: str) -> None:
    said = error(path, content)
    assert f"write {key} in data.toml" in said


@pytest.mark.parametrize(
    "content",
    ["note\nx;y\nz\n", "a,b\n1,x;y\n2,z;w\n", "a,note\n1,x|y\n2,z\n", "n\n1\n2\n", 'a,b\n"x;y",1\n', "a,b;c\n1,2\n"],
)
def test_signs_inside_the_fields_of_a_sound_file_are_no_separators(path: Path, content: str) -> None:
    assert len(read(path, content)) == content.partition("\n")[0].count(",") + 1


@pytest.mark.parametrize(
    ("content", "settings", "remedy"),
    [
        (f"n,b\n{SECRET}ü,1\n".encode("cp1252"), {}, "write encoding = 'cp1252' in data.toml"),
        ("a,b\n1,2\n".encode("utf-16"), {}, "write encoding = 'utf-16' in data.toml"),
        (f"n,b\n{SECRET}ü,1\n".encode(), {"encoding": "cp1252"}, "write encoding = 'utf-8' in data.toml"),
        (b"a,b\n\x81,1\n", {"encoding": "cp1252"}, "correct encoding in data.toml"),
    ],
)
def test_another_encoding_is_refused_with_the_key_to_write(
    path: Path, content: bytes, settings: dict[str, Any], remedy: str
) -> None:
    assert remedy in error(path, content, **settings)


def test_free_text_has_lines_of_its_own_wherever_they_fall(path: Path) -> None:
    rows = 60_000
    content = "a,note\n" + '1,"two\nlines, and more"\n' * rows
    found = read(path, content)
    assert found["note"] == ["two\nlines, and more"] * rows


def test_a_quotation_mark_that_nobody_closes_swallows_no_records(path: Path) -> None:
    assert "never closed" in error(path, f'a,note\n1,"{SECRET}\n2,y\n3,z\n')


def test_a_file_comes_out_to_the_letter_as_it_went_in(path: Path) -> None:
    path.write_bytes("größe;b\n01,50;NA\n;x\n".encode("cp1252"))
    (path.parent / "data.toml").write_text('separator = ";"\nencoding = "cp1252"\nleave-out = ["b"]', "utf-8")
    assert as_written(path).to_pydict() == {"größe": ["01,50", ""], "b": ["NA", "x"]}


def test_cells_that_mean_a_missing_value(path: Path) -> None:
    content = "a,b,c\n-9,n.a.,x\n-9.0,2.5,n.a.\n3,,NA\n"
    found = read(path, content, missing=["-9", "n.a."])
    assert found == {"a": [None, None, 3.0], "b": [None, 2.5, None], "c": ["x", None, None]}


@pytest.mark.parametrize("missing", [{"a": ["9", "?"], "b": ["x"], "away": ["9"]}, {"*": ["?"], "a": [9], "b": ["x"]}])
def test_cells_of_one_column_mean_a_missing_value(path: Path, missing: dict[str, list[Any]]) -> None:
    found = read(path, "a,b,c\n9,x,9\n?,y,x\n3,9,y\n", missing=missing)
    assert found == {"a": [None, None, 3], "b": [None, "y", "9"], "c": ["9", "x", "y"]}


WHERE = "column 'seen' of north.csv"


def found(values: list[object], form: str, kind: pa.DataType | None = None) -> list[float | None] | None:
    result = days(pa.chunked_array([pa.array(values, kind), pa.array([], kind or pa.array(values).type)]), form, WHERE)
    return None if result is None else result.to_pylist()


@pytest.mark.parametrize(
    ("values", "form", "expected"),
    [
        (["02.01.1970", None, "31.12.1969"], "%d.%m.%Y", [1, None, -1]),
        (["2.1.1970", " 01.02.1970 "], "%d.%m.%Y", [1, 31]),
        (["01/02/1970"], "%m/%d/%Y", [1]),
        (["01/02/70"], "%d/%m/%y", [31]),
        (["1970-01-02 06:00:00"], "%Y-%m-%d %H:%M:%S", [1.25]),
        (["2 Jan 1970"], "%d %b %Y", [1]),
        ([19700102, None, 20240229], "%Y%m%d", [1, None, 19782]),
        ([date(1970, 1, 2), None], "%d.%m.%Y", [1, None]),
        ([datetime(1970, 1, 2, 12)], "%d.%m.%Y", [1.5]),
        ([datetime(1970, 1, 2, 12, tzinfo=UTC)], "%d.%m.%Y", [1.5]),
    ],
)
def test_days_since_1970(values: list[object], form: str, expected: list[float | None]) -> None:
    assert found(values, form) == expected


@pytest.mark.parametrize(
    ("values", "form"),
    [
        (["east", "west"], "%d.%m.%Y"),
        ([20201301, 20200101], "%Y%m%d"),
        ([1, 2], "%d.%m.%Y"),
        ([None, None], "%d.%m.%Y"),
    ],
)
def test_what_is_no_date_stays_as_it_is(values: list[object], form: str) -> None:
    assert found(values, form) is None


def test_years_of_two_digits_do_not_make_births_of_the_future(wording: SnapshotAssertion) -> None:
    """Births from 1935 to 1968 were read as of 2035 to 2068."""
    assert sentence(DataError, found, ["01.02.35", None, "03.02.70", "04.02.68"], "%d.%m.%y") == wording
    assert found([date(2068, 1, 2)], "%d.%m.%y") == [35795]
    values = pa.chunked_array([["01.01.70", "31.12.68"]])
    kept = days(values, "%d.%m.%y", WHERE, ["2068-12-31"])
    assert kept is not None
    assert kept.to_pylist() == [0, None]


@pytest.mark.parametrize("wrong", ["31.02.2020", "2020-01-01", "unknown"])
def test_a_few_values_of_another_form_are_counted_and_not_quoted(wrong: str, wording: SnapshotAssertion) -> None:
    said = sentence(DataError, found, ["01.02.2020", None, wrong, "03.02.2020", "04.02.2020"], "%d.%m.%Y")
    assert said == wording
    assert wrong not in said


@pytest.mark.parametrize(
    ("values", "forms"),
    [
        (["01.02.2020", "31.12.2019"], ["%d.%m.%Y"]),
        (["01/02/2020"], ["%d/%m/%Y", "%m/%d/%Y"]),
        (["01/02/2020", "13/02/2020"], ["%d/%m/%Y"]),
        (["01/02/2020", "01/13/2020"], ["%m/%d/%Y"]),
        (["01.02.20", "31.12.19"], ["%d.%m.%y"]),
        (["01.02.2020 10:30"], ["%d.%m.%Y %H:%M"]),
        (["01.02.2020"] * 19 + ["unknown"], ["%d.%m.%Y"]),
    ],
)
def test_forms_that_dates_may_have(values: list[str], forms: list[str]) -> None:
    assert likely_forms(values) == forms


@pytest.mark.parametrize(
    "values",
    [
        [],
        ["east"],
        ["A01.1"],
        ["120/80"],
        ["0211-123456"],
        ["192.168.1.1"],
        ["01.02.2020", "east"],
    ],
)
def test_codes_and_versions_are_no_dates(values: list[str]) -> None:
    assert likely_forms(values) is None
