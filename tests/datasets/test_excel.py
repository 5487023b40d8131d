"""Excel files: the table on one sheet, as a CSV file of the same cells would have it."""

import re
import sys
import zipfile
from datetime import date, datetime
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from openpyxl.xml.constants import SHARED_STRINGS, SHEET_MAIN_NS

from fedct_flwr.config.tables import TableSettings
from fedct_flwr.datasets.federated import column_of_groups
from fedct_flwr.datasets.new_records import read_unlabeled
from fedct_flwr.datasets.packed_tables import other_sheets
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.datasets.table_files import column_names, read_table
from fedct_flwr.types import ConfigError, DataError
from tests.sentences import sentence

SECRET = "Erika-4711"


def tables(settings: dict[str, Any]) -> TableSettings:
    return TableSettings.read({key.replace("_", "-"): value for key, value in settings.items()}, "here")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "dortmund.xlsx"


def write(path: Path, *sheets: list[list[Any]]) -> None:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for number, rows in enumerate(sheets, start=1):
        sheet = book.create_sheet(f"S{number}")
        for row in rows:
            sheet.append(row)
    book.save(path)


def rewrite(path: Path, replaced: dict[str, str], shared: str = "") -> None:
    """Replace what regular expressions find in the first sheet's XML: what other programs than openpyxl write.

    ``shared``: a text that cells of kind "s" have by its number, 0.
    """
    with zipfile.ZipFile(path) as parts:
        contents = {name: parts.read(name) for name in parts.namelist()}
    sheet = contents["xl/worksheets/sheet1.xml"].decode()
    for pattern, new in replaced.items():
        sheet, times = re.subn(pattern, new, sheet)
        assert times == 1, pattern
    contents["xl/worksheets/sheet1.xml"] = sheet.encode()
    if shared:
        contents["xl/sharedStrings.xml"] = f'<sst xmlns="{SHEET_MAIN_NS}"><si><t>{shared}</t></si></sst>'.encode()
        part = f'<Override PartName="/xl/sharedStrings.xml" ContentType="{SHARED_STRINGS}"/></Types>'
        contents["[Content_Types].xml"] = contents["[Content_Types].xml"].replace(b"</Types>", part.encode())
    with zipfile.ZipFile(path, "w") as parts:
        for name, content in contents.items():
            parts.writestr(name, content)


def read(path: Path, *, text: tuple[str, ...] = (), **settings: Any) -> dict[str, list[Any]]:
    return read_table(path, text, tables(settings)).to_pydict()


def error(path: Path, **settings: Any) -> str:
    said = sentence(DataError, read, path, **settings)
    assert str(path) in said
    assert SECRET not in said
    return said


def test_cells_are_what_a_csv_file_would_have(path: Path) -> None:
    rows = [["n", "x", "ward", "smoker", "year"], [1, 2.5, "east", True, 2020], [None, 3, None, False, 2021]]
    write(path, [*rows, [], [None, None, "  "]])
    assert read(path) == {
        "n": [1, None],
        "x": [2.5, 3.0],
        "ward": ["east", None],
        "smoker": [True, False],
        "year": [2020, 2021],
    }
    assert column_names(path) == rows[0]


def test_a_number_that_the_sheet_has_rounded_is_no_patients(path: Path) -> None:
    write(path, [["p"], [276_000_000_000_000_001], [5]])
    with pytest.raises(DataError, match="group column 'p' of t holds numbers that were rounded"):
        column_of_groups(read_table(path, ["p"]), "p", "t")


def test_dates_in_cells_are_days_once_a_form_is_told(path: Path) -> None:
    write(path, [["d"], [datetime(1970, 1, 2)], [date(1970, 1, 3)], ["04.01.1970"], [datetime(1970, 1, 5, 12)]])
    assert read(path, dates="%d.%m.%Y") == {"d": [1.0, 2.0, 3.0, 4.5]}
    write(path, [["d"], [date(1935, 1, 2)], ["04.01.70"]])
    assert read(path, dates="%d.%m.%y") == {"d": [-12783.0, 3.0]}


def test_formulas_are_what_they_last_gave(path: Path) -> None:
    write(path, [["a", "double"], [1, "=A2*2"], [2, "=A3*2"], [3, "=A4*2"]])
    # The last one gives an empty text, whose cell is of the kind of text.
    rewrite(
        path,
        {
            r"(<f>A2\*2</f>)(?:<v ?/>|<v></v>)": r"\1<v>2</v>",
            r"(<f>A3\*2</f>)(?:<v ?/>|<v></v>)": r"\1<v>4.5</v>",
            r'<c r="B4"([^>]*)>': r'<c r="B4" t="str"\1>',
        },
    )
    assert read(path) == {"a": [1, 2, 3], "double": [2, 4.5, None]}


def test_formulas_that_nobody_has_computed_are_no_missing_values(path: Path) -> None:
    write(path, [["a", "double"], [1, "=A2*2"], [2, 4]])
    assert "never computed" in error(path)


def test_the_first_sheet_with_contents_is_read_and_the_others_are_named(path: Path) -> None:
    write(path, [], [["a"], [1]], [["b"], [2]], [])
    assert read(path) == {"a": [1]}
    assert other_sheets(path, TableSettings()) == ["S3"]
    records = read_unlabeled(Schema.numeric(("no", "yes"), ("a",)), path)
    assert "only the first sheet of 'dortmund.xlsx' is read, and not 'S3'" in records.findings[0].sentence


ROWS = [["age", "ward"], [61, "a"], [52, "b"], [43, "c"], [None, None], ["source: ward book"]]


def merged(path: Path, cells: str) -> None:
    book = openpyxl.Workbook()
    for row in [["table 1"], *ROWS] if cells == "A1:B1" else ROWS:
        book.active.append(row)
    book.active.merge_cells(cells)
    book.save(path)


@pytest.mark.parametrize("cells", ["B2:B4", "A3:B4"])
def test_merged_cells_of_several_records_are_no_missing_values(path: Path, cells: str) -> None:
    merged(path, cells)
    assert "share merged cells, of which all but the first are empty, so unmerge them" in error(path)


@pytest.mark.parametrize("content", [b"", b"PK nothing", SECRET.encode(), b"\xd0\xcf\x11\xe0 an older Excel's"])
def test_what_is_no_workbook(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert "cannot read" in error(path)


def cell(place: str, value: str = "1", kind: str = "n") -> str:
    return f'<c r="{place}" t="{kind}"><v>{value}</v></c>'


def test_a_cell_at_the_end_of_each_row_does_not_fill_the_memory(path: Path) -> None:
    """A file of 150 kB took more than 2 GB, and one of 5 MB any memory there is."""
    write(path, [["a", "b"], [1, 2]])
    rows = "".join(f'<row r="{row}">{cell(f"XFD{row}")}</row>' for row in range(3, 1200))
    rewrite(path, {r"</sheetData>": f"{rows}</sheetData>"})
    assert "reaches much further than its table" in error(path)


def test_without_openpyxl_one_sentence_says_what_to_install(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(path, [["a"], [1]])
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(ConfigError, match="the extra 'excel'"):
        read(path)
