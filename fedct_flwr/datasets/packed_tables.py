"""Tables in packed files, whose sizes are bounded before anything is read: Excel and Parquet.

One sheet of a workbook is a table, with what its formulas last gave (python-calamine). A sheet's cells become text as a
CSV file would have them, and are read as one: so a column of an Excel file is what the same column of a CSV file is.
"""

import base64
import csv
import io
import re
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from fedct_flwr.config.tables import TableSettings
from fedct_flwr.datasets.dates import TWO_DIGITS
from fedct_flwr.datasets.delimited import MOST_COLUMNS, TOO_LARGE, FormError, KindError, Look, most_unpacked, parse
from fedct_flwr.datasets.tables import LARGEST, as_category, as_names, is_number
from fedct_flwr.text.printable import quoted, suggest
from fedct_flwr.types import ConfigError, DataError

if TYPE_CHECKING:
    from python_calamine import CalamineSheet, CalamineWorkbook

_SEPARATOR: Final = "\x1f"
"""Excel lets no control character into a cell, so none is ever between two fields by chance."""
_CELL: Final = re.compile(rb"""<(?:\w+:)?c\b(?:[^>]*?\br=["']([A-Z]+)([^"']*))?""")
_ROW: Final = re.compile(rb"""<(?:\w+:)?row\b(?:[^>]*?\br=["']([^"']*))?""")
_NEVER_COMPUTED: Final = re.compile(
    # An empty text that a formula gives has a kind of its own.
    rb"""<(?:\w+:)?c\b(?![^>]*\bt=["']str)[^>]*>\s*<(?:\w+:)?f\b(?:[^>]*/>|[^>]*>[^<]*</(?:\w+:)?f>)\s*"""
    rb"(?:<(?:\w+:)?v\s*/>|<(?:\w+:)?v></(?:\w+:)?v>)?\s*</(?:\w+:)?c>"
)
_MOST_CELLS: Final = 1 << 24
"""Cells of a sheet, empty ones too; and of a Parquet file of any size. Each takes 8 bytes of memory."""
_DIGITS: Final = 8


def read_excel(path: Path, text: Collection[str] | None, tables: TableSettings) -> pa.Table:
    """The table on the sheet that ``tables`` names, or on the first that holds anything.

    Its first row with contents is the header. Errors such as #DIV/0! are missing values. With ``text`` None all columns
    are text, and no cell is missing. Raises DataError, which quotes no record, and ConfigError where python-calamine is
    not installed.
    """
    with _workbook(path) as book:
        sheet = _sheet(book, path, tables)
        rows = _rows(sheet)
    if not rows:
        raise DataError(f"cannot read {path}: its sheet {quoted(sheet.name)} is empty")
    _check_merged(sheet, path, rows)
    rows = [row for row in rows if row]
    data, form = _as_csv(rows, tables).encode(), tables.model_copy(update={"encoding": "utf-8"})
    names = [_written(value, tables) for value in rows[0]] if text is None else text
    try:
        return parse(io.BytesIO(data), names, form, Look(_SEPARATOR, len(data)), to_the_letter=text is None)
    except (pa.ArrowException, ValueError):
        raise DataError(f"cannot read {path}: its sheet {quoted(sheet.name)} is no table with a header") from None


def names_in_excel(path: Path, tables: TableSettings) -> list[str]:
    """The names in the header of the sheet that ``read_excel`` reads. Raises like that does."""
    with _workbook(path) as book:
        header = next((row for row in _rows(_sheet(book, path, tables)) if row), [])
        return [_written(value, tables) for value in header]


def other_sheets(path: Path, tables: TableSettings) -> list[str]:
    """Names of the sheets with contents that are not read, unless the settings name one. Raises like ``read_excel``.

    None of a file that is no .xlsx.
    """
    if tables.sheet or not path.name.lower().endswith(".xlsx"):
        return []
    with _workbook(path) as book:
        return [name for name in book.sheet_names if any(_rows(book.get_sheet_by_name(name)))][1:]


@contextmanager
def _workbook(path: Path) -> "Iterator[CalamineWorkbook]":
    """An open workbook. Raises DataError if it cannot be read."""
    try:
        from python_calamine import CalamineWorkbook
    except ImportError:
        raise ConfigError(
            f"{path} is an Excel file, which needs python-calamine, the extra 'excel': pip install -c constraints.txt "
            "-e '.[excel]'"
        ) from None
    try:
        _check_parts(path)
        with CalamineWorkbook.from_path(path) as book:
            yield book
    except DataError:
        raise
    except Exception:  # readers raise whatever a damaged file leads them to
        raise KindError(
            f"cannot read {path}: it is damaged, has a password, or is no Excel file (.xls is not): save it as .xlsx "
            "without a password"
        ) from None


def _check_parts(path: Path) -> None:
    """Raise DataError for a workbook that would fill the memory, or has formulas without a stored value.

    The reader would pass over these in silence.
    """
    most = most_unpacked(path)
    with zipfile.ZipFile(path) as parts:
        if sum(part.file_size for part in parts.infolist()) > most:
            raise KindError(f"cannot read {path}: {TOO_LARGE}")
        sheets = [name for name in parts.namelist() if name.startswith("xl/worksheets/") and name.endswith(".xml")]
        for sheet in sheets:
            content = parts.read(sheet)
            if _reach(content) > _MOST_CELLS:
                raise DataError(
                    f"cannot read {path}: a sheet reaches much further than its table: delete the rows and columns "
                    "outside of it, or save the table as CSV"
                )
            if _NEVER_COMPUTED.search(content):
                raise DataError(
                    f"{path} has formulas that were never computed: open the file in a spreadsheet, and save it there"
                )


def _reach(content: bytes) -> int:
    """Cells of the smallest area, from the first one on, that has all cells of a sheet: the reader makes each."""
    begins = [*_ROW.finditer(content)]
    height = len(begins) + max((_number(row[1]) for row in begins), default=0)
    width = 0
    for row, after in zip(begins, [*(one.start() for one in begins[1:]), len(content)], strict=False):
        cells = _CELL.findall(content, row.start(), after)
        width = max(width, len(cells), *(_column(letters) for letters, _ in cells), 0)
        height = max(height, *(_number(place) for _, place in cells), 0)
    return width * height


def _number(written: bytes | None) -> int:
    """A row's number; for anything else, more than any sheet has."""
    return int(written) if written and written.isdigit() and len(written) < _DIGITS else _MOST_CELLS * bool(written)


def _column(letters: bytes) -> int:
    found = 0
    for letter in letters[:_DIGITS]:
        found = 26 * found + letter - ord("A") + 1
    return found


def _sheet(book: "CalamineWorkbook", path: Path, tables: TableSettings) -> "CalamineSheet":
    names = book.sheet_names
    if tables.sheet and tables.sheet not in names:
        raise DataError(f"{path} has no sheet {quoted(tables.sheet)}: {suggest(tables.sheet, names)}")
    if tables.sheet:
        return book.get_sheet_by_name(tables.sheet)
    sheets = [book.get_sheet_by_name(name) for name in names]
    return next((sheet for sheet in sheets if any(_rows(sheet))), sheets[0])


def _rows(sheet: "CalamineSheet") -> list[list[Any]]:
    """All rows from the sheet's first, each without the empty cells at its end."""
    rows = [list(row) for row in sheet.to_python(skip_empty_area=False)]
    for row in rows:
        while row and isinstance(row[-1], str) and not row[-1].strip():
            row.pop()
    return rows


def _as_csv(rows: list[list[Any]], tables: TableSettings) -> str:
    """The rows as text, all as long as the longest."""
    width, content = max(map(len, rows)), io.StringIO()
    writer = csv.writer(content, delimiter=_SEPARATOR, lineterminator="\n")
    for row in rows:
        writer.writerow([_written(value, tables) for value in row] + [""] * (width - len(row)))
    return content.getvalue()


def _check_merged(sheet: "CalamineSheet", path: Path, rows: list[list[Any]]) -> None:
    """Raise DataError if a merged cell spans several records: only the first has the value, others read as empty."""
    # Notes stand below a table, and next to it.
    filled = [number for number, row in enumerate(rows) if row]
    header, last = filled[0], filled[-1]
    for (top, left), (bottom, _) in sheet.merged_cell_ranges or []:
        if header < top < bottom <= last and left < len(rows[header]):
            raise FormError(
                f"cannot read {path}: rows {top + 1:,} to {bottom + 1:,} of its sheet share merged cells, of which "
                "all but the first are empty, so unmerge them and fill in each"
            )


def _written(value: Any, tables: TableSettings) -> str:
    """A cell as a CSV file has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        # Excel knows no integers. A longer one was rounded, as the exponent shows.
        if value.is_integer():
            return str(int(value)) if abs(value) < LARGEST else f"{value:.16e}".replace(".", tables.decimal)
        return repr(value).replace(".", tables.decimal)
    if isinstance(value, date):
        is_day = not isinstance(value, datetime)
        if is_day and TWO_DIGITS.search(tables.dates):
            return f"{value.isoformat()}T00:00:00"
        # The same column may hold dates typed in as text.
        return value.strftime(tables.dates) if tables.dates and is_day else value.isoformat()
    return str(value)


_MOST_CELLS_IN_BYTE: Final = 64
"""Cells, at most, of which a file has one byte, in files with more cells."""
_ROWS: Final = 1 << 10
"""Read at a time."""
_TEXTS: Final = ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")


def read_parquet(path: Path) -> pa.Table:
    """The whole table; categories are text, also those of numbers. Raises DataError, which quotes no record.

    Parquet writes a value that repeats once, so 14 kB hold 5 GB of text: few rows are read at a time, up to a limit.
    """
    try:
        about = pyarrow.parquet.read_metadata(path)
        _check_account(about, path)
        written = pyarrow.parquet.read_schema(path)
        schema = pa.schema([field.with_type(_plain(field.type)) for field in written], written.metadata)
        categories = _categories(about)
        table = pa.Table.from_batches(_checked(path, schema), schema).combine_chunks()
        for at, name in enumerate(table.column_names):
            if name in categories and is_number(schema.types[at]):
                numbers = table.column(at)
                names = as_names(numbers, f"column {quoted(name)} of {path}")
                known = pc.unique(numbers.drop_null()).sort()
                table = table.set_column(at, as_category(name, names, known), names)
        return table
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(path, error) from None


def names_in_parquet(path: Path) -> list[str]:
    """The names of all columns. Raises DataError."""
    try:
        return list(pyarrow.parquet.read_schema(path).names)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> KindError:
    if "encrypt" in str(error) or "decrypt" in str(error):
        return KindError(f"cannot read {path}: it is encrypted, so save the table again without a key")
    return KindError(f"cannot read {path}: it is damaged or not a Parquet file, so save the table again")


def _check_account(about: pyarrow.parquet.FileMetaData, path: Path) -> None:
    """Raise DataError for more than a table has by the file's own account."""
    if about.num_columns > MOST_COLUMNS:
        raise KindError(f"cannot read {path}: it has more than {MOST_COLUMNS:,} columns, so export the table again")
    groups = map(about.row_group, range(about.num_row_groups))
    columns = [group.column(at) for group in groups for at in range(group.num_columns)]
    # A list in a column has several values in a row.
    cells = max(about.num_rows * about.num_columns, sum(column.num_values for column in columns))
    size = sum(column.total_uncompressed_size for column in columns if column.physical_type in _TEXTS)
    if cells > max(_MOST_CELLS, _MOST_CELLS_IN_BYTE * path.stat().st_size) or size > most_unpacked(path):
        raise _too_large(path)


def _categories(about: pyarrow.parquet.FileMetaData) -> set[str]:
    """Columns that were categories where the file was written; Parquet itself keeps that of text alone."""
    written = base64.b64decode((about.metadata or {}).get(b"ARROW:schema", b""))
    fields = pa.ipc.read_schema(pa.py_buffer(written)) if written else ()
    return {field.name for field in fields if pa.types.is_dictionary(field.type)}


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _checked(path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """All rows, few at a time, texts spelled out. Raises DataError as soon as they are too much."""
    room = max(most_unpacked(path), 8 * _MOST_CELLS)
    with pyarrow.parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(_ROWS):
            spelled = batch.cast(schema)
            room -= spelled.nbytes
            if room < 0:
                raise _too_large(path)
            yield spelled


def _too_large(path: Path) -> KindError:
    return KindError(f"cannot read {path}: {TOO_LARGE}")
