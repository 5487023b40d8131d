"""Excel files: one sheet of a workbook as a table, with what its formulas last gave.

A sheet's cells become text as a CSV file would have them, and are read as one: so a column of an Excel file is what
the same column of a CSV file is.
"""

import csv
import io
import re
import warnings
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from datetime import date, datetime, time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from fedct_flwr.config.tables import TableSettings
from fedct_flwr.datasets.delimited import TOO_LARGE, FormError, KindError, Look, most_unpacked, parse
from fedct_flwr.text.printable import quoted
from fedct_flwr.text.suggest import suggest
from fedct_flwr.types import ConfigError, DataError

if TYPE_CHECKING:
    from openpyxl.workbook.workbook import Workbook
    from openpyxl.worksheet._read_only import ReadOnlyWorksheet

_SEPARATOR: Final = "\x1f"
"""Excel lets no control character into a cell, so none is ever between two fields by chance."""
_OLD: Final = b"\xd0\xcf\x11\xe0"
_FORMULA: Final = re.compile(rb"<f[ >/]")
_MERGED: Final = re.compile(rb'<(?:\w+:)?mergeCell\b[^>]*\bref="([A-Z]{1,3})([0-9]{1,7}):([A-Z]{1,3})([0-9]{1,7})"')
_REACH: Final = 200
"""Bytes that one merged range takes in a sheet's file, at most."""
_MOST_ROWS: Final = 1 << 20
"""As many as Excel has."""
_MOST_CELLS: Final = 1 << 24
"""Cells, empty ones too, of a sheet whose file has fewer bytes than that."""
_ERRORS: Final = frozenset({"#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!"})


def read_excel(path: Path, text: Collection[str], tables: TableSettings) -> pa.Table:
    """The table on the sheet that ``tables`` names, or on the first that holds anything.

    Its first row with contents is the header. Errors such as #DIV/0! are missing values. Raises DataError, which quotes
    no record, and ConfigError where openpyxl is not installed.
    """
    with _workbook(path, values=True) as book:
        sheet = _sheet(book, path, tables)
        name, rows = sheet.title, list(_rows(sheet, path))
        _check_merged(sheet, path, rows)
    if not rows:
        raise DataError(f"cannot read {path}: its sheet {quoted(name)} is empty")
    _check_computed(path, name)
    data = _as_csv(rows, tables, path, name).encode()
    try:
        return parse(
            io.BytesIO(data), text, tables.model_copy(update={"encoding": "utf-8"}), Look(_SEPARATOR, len(data))
        )
    except (pa.ArrowException, ValueError):
        raise DataError(f"cannot read {path}: its sheet {quoted(name)} is no table with a header") from None


def names_in_excel(path: Path, tables: TableSettings) -> list[str]:
    """The names in the header of the sheet that ``read_excel`` reads. Raises as that does."""
    with _workbook(path, values=True) as book:
        return [_written(value, tables) for value in next(_rows(_sheet(book, path, tables), path), ())]


def other_sheets(path: Path, tables: TableSettings) -> list[str]:
    """Names of the sheets with contents that are not read, unless one is told by name. Raises as ``read_excel``.

    None of a file that is no .xlsx.
    """
    if tables.sheet or not path.name.lower().endswith(".xlsx"):
        return []
    with _workbook(path, values=True) as book:
        return [sheet.title for sheet in book.worksheets if next(_rows(sheet, path), None)][1:]


@contextmanager
def _workbook(path: Path, *, values: bool) -> "Iterator[Workbook]":
    """An open workbook with the values, or the formulas, of its cells. Raises DataError if it cannot be read."""
    try:
        import openpyxl
    except ImportError:
        raise ConfigError(
            f"{path} is an Excel file, which needs openpyxl, the extra 'excel': pip install -c constraints.txt "
            "-e '.[excel]'"
        ) from None
    try:
        _check_size(path)
        with warnings.catch_warnings():
            # Of what openpyxl does not support, colors and drop-down lists say, nothing is data.
            warnings.simplefilter("ignore")
            book = openpyxl.load_workbook(path, read_only=True, data_only=values)
            try:
                yield book
            finally:
                book.close()
    except DataError:
        raise
    except Exception:  # openpyxl raises whatever a damaged file leads it to
        if _is_sealed(path):
            raise KindError(
                f"cannot read {path}: it has a password, or is an old Excel file (.xls): save it as .xlsx without one"
            ) from None
        raise KindError(
            f"cannot read {path}: it is damaged or no Excel file, so save the table anew as .xlsx"
        ) from None


def _is_sealed(path: Path) -> bool:
    """Whether it begins as files with a password do, and as Excel's did before 2007."""
    with suppress(OSError), path.open("rb") as file:
        return file.read(len(_OLD)) == _OLD
    return False


def _check_size(path: Path) -> None:
    """Raise DataError for a file that would unpack to far more than a table."""
    if _unpacked(path) > most_unpacked(path):
        raise KindError(f"cannot read {path}: {TOO_LARGE}")


def _unpacked(path: Path) -> int:
    """Bytes of all parts: none is unpacked further than to the size that is written there."""
    with zipfile.ZipFile(path) as parts:
        return sum(part.file_size for part in parts.infolist())


def _sheet(book: "Workbook", path: Path, tables: TableSettings) -> "ReadOnlyWorksheet":
    names = [sheet.title for sheet in book.worksheets]
    if tables.sheet and tables.sheet not in names:
        raise DataError(f"{path} has no sheet {quoted(tables.sheet)}: {suggest(tables.sheet, names)}")
    if tables.sheet:
        return book[tables.sheet]
    return next((sheet for sheet in book.worksheets if next(_rows(sheet, path), None)), book.worksheets[0])


def _rows(sheet: "ReadOnlyWorksheet", path: Path) -> Iterator[tuple[Any, ...]]:
    """The rows with contents, each without the empty cells at its end.

    Raises DataError for far more empty rows and cells than the file has bytes: it may name any row as its next one.
    """
    # Some programs write a wrong size into the file.
    sheet.reset_dimensions()
    cells, most = 0, _most_cells(path)
    for number, row in enumerate(sheet.iter_rows(values_only=True), start=1):
        cells += len(row)
        if number > _MOST_ROWS or cells > most:
            raise _too_far(path, sheet.title)
        filled = max((number for number, value in enumerate(row, start=1) if not _is_empty(value)), default=0)
        if filled:
            yield row[:filled]


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _most_cells(path: Path) -> int:
    return max(_MOST_CELLS, _unpacked(path))


def _too_far(path: Path, name: str) -> DataError:
    return DataError(
        f"cannot read {path}: its sheet {quoted(name)} reaches much further than its table: delete the rows and "
        "columns outside of it, or save the table as CSV"
    )


def _as_csv(rows: list[tuple[Any, ...]], tables: TableSettings, path: Path, name: str) -> str:
    """The rows as text, all as long as the longest. Raises DataError where that is far more than the file holds."""
    width, room = max(map(len, rows)), most_unpacked(path)
    if len(rows) * width > _most_cells(path):
        raise _too_far(path, name)
    content = io.StringIO()
    writer = csv.writer(content, delimiter=_SEPARATOR, lineterminator="\n")
    for row in rows:
        fields = [_written(value, tables) for value in row]
        # A text that many cells share is in the file once.
        room -= sum(map(len, fields))
        if room < 0:
            raise KindError(f"cannot read {path}: {TOO_LARGE}")
        writer.writerow(fields + [""] * (width - len(row)))
    return content.getvalue()


def _check_computed(path: Path, name: str) -> None:
    """Raise DataError for formulas that no spreadsheet has computed: their cells would count as missing."""
    if not _has_formulas(path):
        return
    with _workbook(path, values=True) as found, _workbook(path, values=False) as book:
        sheets = found[name], book[name]
        for sheet in sheets:
            sheet.reset_dimensions()
        for values, formulas in zip(*(sheet.iter_rows() for sheet in sheets), strict=True):
            for value, formula in zip(values, formulas, strict=True):
                # An empty text that a formula gives has a kind of its own.
                if formula.data_type == "f" and value.value is None and value.data_type == "n":
                    raise DataError(
                        f"{path} has formulas in its sheet {quoted(name)} that were never computed: open the file in "
                        "a spreadsheet, and save it there"
                    )


def _check_merged(sheet: "ReadOnlyWorksheet", path: Path, rows: list[tuple[Any, ...]]) -> None:
    """Raise DataError for merged cells of several records: a spreadsheet keeps the value of the first one alone."""
    from openpyxl.utils.cell import column_index_from_string

    ranges = list(_merged(path, sheet._worksheet_path))
    if not ranges or not rows:
        return
    width = len(rows[0])
    # Notes stand below a table, and next to it.
    header, last = _lines_of_table(sheet)
    for ref in ranges:
        left, top, _, bottom = (part.decode() for part in ref)
        if header < int(top) < int(bottom) <= last and column_index_from_string(left) <= width:
            raise FormError(
                f"cannot read {path}: rows {int(top):,} to {int(bottom):,} of its sheet share merged cells, of which "
                "all but the first are empty, so unmerge them and fill in each"
            )


def _lines_of_table(sheet: "ReadOnlyWorksheet") -> tuple[int, int]:
    """Number of the first and of the last row with contents; 0 if there is none."""
    filled = [
        number
        for number, row in enumerate(sheet.iter_rows(values_only=True), start=1)
        if any(not _is_empty(value) for value in row)
    ]
    return (filled[0], filled[-1]) if filled else (0, 0)


def _merged(path: Path, part: str) -> Iterator[tuple[bytes, ...]]:
    """Merged ranges of a sheet, each as the column and row of its first cell, and those of its last."""
    with zipfile.ZipFile(path) as parts:
        for block in _blocks(parts, part, _REACH):
            yield from (found.groups() for found in _MERGED.finditer(block))


def _has_formulas(path: Path) -> bool:
    with zipfile.ZipFile(path) as parts:
        sheets = [part for part in parts.namelist() if part.startswith("xl/worksheets/") and part.endswith(".xml")]
        return any(_FORMULA.search(block) for part in sheets for block in _blocks(parts, part, 2))


def _blocks(parts: zipfile.ZipFile, part: str, reach: int) -> Iterator[bytes]:
    """A part's contents, each block after the last ``reach`` bytes of the one before it."""
    with parts.open(part) as file:
        end = b""
        while block := file.read(1 << 20):
            yield end + block
            end = block[-reach:]


def _written(value: Any, tables: TableSettings) -> str:
    """A cell as a CSV file has it."""
    if value is None or (isinstance(value, str) and value in _ERRORS):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(value).replace(".", tables.decimal)
    if isinstance(value, datetime) and value.time() == time():
        value = value.date()
    if isinstance(value, date):
        is_day = not isinstance(value, datetime)
        # Dates that somebody has typed in as text stand in the same column.
        return value.strftime(tables.dates) if tables.dates and is_day else value.isoformat()
    return str(value)
