"""Tables in files: CSV, Excel and Parquet, whose columns are numbers or text whichever file they come from."""

import errno
import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from fedct_flwr.config.tables import TableSettings
from fedct_flwr.datasets.dates import days, marked
from fedct_flwr.datasets.delimited import (
    MOST_COLUMNS,
    TOO_LARGE,
    KindError,
    most_unpacked,
    names_in_delimited,
    read_delimited,
    read_lines,
)
from fedct_flwr.datasets.excel import names_in_excel, read_excel
from fedct_flwr.files import check_is_file
from fedct_flwr.text.printable import listed, quoted, suggest
from fedct_flwr.text.spelling import without_accents
from fedct_flwr.types import ConfigError, DataError

_MOST_CELLS: Final = 1 << 24
"""Most cells in a file of any size. Each takes 8 bytes of memory."""
_MOST_CELLS_IN_BYTE: Final = 64
"""Cells, at most, of which a file has one byte, in files with more cells."""
_ROWS: Final = 1 << 10
"""Read at a time."""
_TEXTS: Final = ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")


def read_parquet(path: Path) -> pa.Table:
    """The whole table. Raises DataError, which quotes no record.

    Parquet writes a value that repeats once, so 14 kB hold 5 GB of text: few rows are read at a time, up to a limit.
    """
    try:
        about = pyarrow.parquet.read_metadata(path)
        _check_account(about, path)
        written = pyarrow.parquet.read_schema(path)
        schema = pa.schema([field.with_type(_plain(field.type)) for field in written], written.metadata)
        return pa.Table.from_batches(_checked(path, schema), schema).combine_chunks()
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
    columns = list(_columns(about))
    # A list in a column has several values in a row.
    cells = max(about.num_rows * about.num_columns, sum(column.num_values for column in columns))
    size = sum(column.total_uncompressed_size for column in columns if column.physical_type in _TEXTS)
    if cells > max(_MOST_CELLS, _MOST_CELLS_IN_BYTE * path.stat().st_size) or size > most_unpacked(path):
        raise _too_large(path)


def _columns(about: pyarrow.parquet.FileMetaData) -> Iterator[pyarrow.parquet.ColumnChunkMetaData]:
    for group in map(about.row_group, range(about.num_row_groups)):
        yield from map(group.column, range(group.num_columns))


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


ENDINGS: Final = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".xlsx", ".parquet")
"""File endings of tables, in small letters."""

PLAIN: Final = TableSettings()
"""The form of a table without settings."""

NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")
"""A number as a file may have it in a cell."""
NO_HEADER: Final = "the first line of {} holds {}: write the columns' names there, and take titles above it out"
_NO_FILE: Final = {
    errno.ENOENT: "there is no such file",
    errno.EACCES: "this user may not enter its folder, so change the folder's permissions",
    errno.EISDIR: "it is a folder, so name the table in it",
    errno.EINVAL: "it is a pipe or a device, so save the table as a file",
}
LARGEST: Final = 2.0**53
"""Floats from here on each stand for several whole numbers."""
_ROUNDED: Final = r"^\s*[+-]?[0-9]+([.,][0-9]+)?[eE]\+[0-9]+\s*$"
"""As spreadsheets write long numbers."""
_WITH_ZEROS: Final = r"^([+-]?[0-9]+)[.,]0*$"


def read_table(
    path: Path, text: Collection[str] = (), tables: TableSettings = PLAIN, held: pa.Table | None = None
) -> pa.Table:
    """Read a table with its header in the first line, as ``tables`` says. Empty fields are missing values.

    In CSV and Excel files the columns named in ``text`` are text whatever they look like. Files of another ending than
    ``ENDINGS`` are CSV. Dates are numbers, if the settings name their form. Columns to be left out, those with neither
    a name nor any value, and empty records at the end are dropped. ``held`` is what a query at ``path`` has given.
    Raises DataError, which quotes no record.
    """
    as_text = [*text, *tables.categories, *tables.text, *([tables.group] if tables.group else [])]
    table = _read(path, as_text, tables) if held is None else held
    # One list of each: a table makes a new one whenever it is asked.
    table = table.slice(0, _records_of(table.columns))
    everything = list(zip(table.column_names, table.columns, strict=True))
    kept = [(name, values) for name, values in everything if name not in tables.leave_out and _is_there(name, values)]
    names = [name for name, _ in kept]
    if repeated := repeated_names(names):
        raise _same_name(path, repeated)
    columns = [_as_settings_say(values, name, as_text, tables, path) for name, values in kept]
    fields = [
        marked(name, values.type) if was_date else pa.field(name, values.type)
        for name, (values, was_date) in zip(names, columns, strict=True)
    ]
    return pa.Table.from_arrays([values for values, _ in columns], schema=pa.schema(fields))


def _check_regular(path: Path) -> None:
    """Raise KindError unless a file with contents is at ``path``, which this process may read."""
    try:
        check_is_file(path)
        size = path.stat().st_size
    except OSError as error:
        raise KindError(f"cannot read {path}: {_NO_FILE.get(error.errno or 0, error.strerror)}") from None
    if not size:
        raise KindError(f"cannot read {path}: it is empty, so export the table again")
    if not os.access(path, os.R_OK):
        raise KindError(f"cannot read {path}: this user may not read it, so change its owner or its permissions")


def _records_of(columns: Sequence[pa.ChunkedArray]) -> int:
    """How many records there are without the empty ones at the end, which spreadsheets write of lines once in use."""
    records = len(columns[0]) if columns else 0
    while records and not any(column[records - 1].is_valid for column in columns):
        records -= 1
    return records


def _is_there(name: str, values: pa.ChunkedArray) -> bool:
    """Whether a column has a name or a value: a sign at the end of each line makes one without either."""
    return bool(name.strip()) or values.null_count < len(values)


def _read(path: Path, text: Collection[str] | None, tables: TableSettings) -> pa.Table:
    """The table as its file has it; the columns named in ``text`` are text, None: all of a CSV file are."""
    _check_regular(path)
    ending = path.name.lower()
    if ending.endswith(".xlsx"):
        return read_excel(path, text or (), tables)
    if not ending.endswith(".parquet"):
        return read_delimited(path, text, tables)
    # Before reading: a table with columns of the same name cannot be read.
    if repeated := repeated_names(names_in_parquet(path)):
        raise _same_name(path, repeated)
    return read_parquet(path)


def repeated_names(names: list[str]) -> list[str]:
    """Names that occur more than once."""
    return sorted(name for name, times in Counter(names).items() if times > 1)


def _same_name(where: object, names: Sequence[str]) -> DataError:
    """The error that a table has several columns of each of these names."""
    if not all(name.strip() for name in names):
        fix = "if a title stands above the header, take its line out, otherwise name them"
        return DataError(f"{where} has columns without a name: {fix}")
    if all(NUMBER.fullmatch(name.strip()) for name in names):
        return DataError(NO_HEADER.format(where, "numbers"))
    return DataError(f"{where} has columns of the same name: {listed(names)}; rename them")


def _as_settings_say(
    values: pa.ChunkedArray, name: str, text: Collection[str], tables: TableSettings, path: Path
) -> tuple[pa.ChunkedArray, bool]:
    """One column as the settings want it, and whether it held dates."""
    values = without_blanks(values)
    if tables.missing:
        values = _without(values, tables.missing)
    if name in tables.categories and (is_number(values.type) or is_text(values.type)):
        return as_names(values, f"column {quoted(name)} of {path}"), False
    if tables.dates and name not in text:
        found = days(values, tables.dates, f"column {quoted(name)} of {path}", tables.missing)
        return (values, False) if found is None else (found, True)
    return values, False


def without_blanks(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column, where text of blanks alone is a missing value."""
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return values
    blank = pc.equal(pc.utf8_trim_whitespace(values), "")
    return pc.if_else(blank, pa.scalar(None, values.type), values) if pc.any(blank).as_py() else values


def _without(values: pa.ChunkedArray, missing: Collection[str]) -> pa.ChunkedArray:
    """The column without the cells that mean a missing value: numbers by value, text by letter."""
    if is_text(values.type):
        values, meant = values.cast(pa.string()), pa.array(missing, pa.string())
    elif pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        numbers = [float(text) for text in missing if NUMBER.fullmatch(text)]
        fit = [number for number in numbers if pa.types.is_floating(values.type) or number.is_integer()]
        meant = pa.array(fit, pa.float64()).cast(values.type, safe=False)
    else:
        return values
    return pc.if_else(pc.is_in(values, value_set=meant), pa.scalar(None, values.type), values)


def read_as_text(path: Path, tables: TableSettings) -> pa.Table:
    """A file's table whose form depends on no record: as text, and of CSV with one record in each line."""
    _check_regular(path)
    plain = path.name.lower().endswith((".xlsx", ".parquet"))
    return _read(path, column_names(path, tables), tables) if plain else read_lines(path, tables)


def as_written(path: Path) -> pa.Table:
    """A file's table with all of its columns, in CSV files as text to the letter; ``data.toml`` next to it tells how.

    Raises DataError like ``read_table``.
    """
    return _read(path, None, TableSettings.of_folder(path.parent).of(path.name))


def column_names(path: Path, tables: TableSettings = PLAIN) -> list[str]:
    """The names in a table's header, without reading the table. Raises DataError like ``read_table``."""
    _check_regular(path)
    ending = path.name.lower()
    if ending.endswith(".parquet"):
        return names_in_parquet(path)
    return names_in_excel(path, tables) if ending.endswith(".xlsx") else names_in_delimited(path, tables)


def check_named(
    named: Mapping[str, Collection[str]], found: Collection[str], tables: TableSettings, lacking: str
) -> None:
    """Raise ConfigError for a column that is ``named``, by key of the settings, and is not among the ``found`` ones.

    ``lacking`` says whose those are: "no file here has".
    """
    known = set(found)
    for key, names in named.items():
        if unknown := [name for name in names if name not in known]:
            nearest = suggest(unknown[0], dict.fromkeys(found))
            raise ConfigError(f"{key} in {tables.place} names {listed(unknown)}, which {lacking}: {nearest}")


def usual(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column in the type that pyarrow can compute with, of those that hold the same: dictionaries, halves, views."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        # pyarrow has no way from a dictionary of views, which polars makes, to its values.
        held = pa.string() if pa.types.is_string_view(kind.value_type) else kind.value_type
        return usual(values.cast(pa.dictionary(kind.index_type, held)).cast(held))
    if pa.types.is_float16(kind):
        return values.cast(pa.float32())
    return values.cast(pa.string()) if pa.types.is_string_view(kind) else values


def as_names(values: pa.ChunkedArray, where: str) -> pa.ChunkedArray:
    """Patients' numbers, codes and other names as text of one form, whatever type holds them; none is rounded.

    Raises DataError for numbers that a float has rounded somewhere, and for a type that holds no names.
    """
    values, kind = usual(values), values.type
    if isinstance(kind, pa.BaseExtensionType):
        values = pa.chunked_array([piece.storage for piece in values.chunks], kind.storage_type)
    try:
        if re.match("(large_|fixed_size_)?binary", str(values.type)):
            raw = values.to_pylist()
            return pa.chunked_array([[None if each is None else str(UUID(bytes=each)) for each in raw]], pa.string())
        if pa.types.is_floating(values.type):
            values = pc.if_else(pc.is_nan(values), None, values)
            # The largest number up to which all whole ones are there.
            held = kind if pa.types.is_floating(kind) else values.type
            rounded = pc.greater_equal(pc.abs(values), 2 / float(np.finfo(held.to_pandas_dtype()).eps))
            whole = pc.cast(values, pa.int64(), safe=False).cast(pa.string())
            text = pc.if_else(pc.equal(pc.floor(values), values), whole, values.cast(pa.string()))
        else:
            text = values.cast(pa.string())
            rounded = pc.match_substring_regex(text, _ROUNDED)
    except (pa.ArrowException, ValueError):
        raise DataError(f"{where} holds {quoted(str(kind))}: it must hold numbers or text") from None
    if pc.any(rounded).as_py():
        raise DataError(f"{where} holds numbers that were rounded as they are too long: write them as text")
    # A column of whole numbers with gaps went through floats somewhere.
    return pc.replace_substring_regex(text, _WITH_ZEROS, r"\1")


def is_number(kind: pa.DataType) -> bool:
    """Whether a column is numeric by its type; truth values and columns without any value are."""
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_null, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def is_text(kind: pa.DataType) -> bool:
    """Whether a column is text by its type."""
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_dictionary)
    return any(test(kind) for test in tests)


def no_column(where: object, name: str, names: Sequence[str], what: str = "column") -> DataError:
    """The error that a table lacks a column which it needs, with what may be the reason. ``names`` are those it has."""
    lacking = f"{where} has no {what} {quoted(name)}"
    if not any(other.strip() for other in names):
        return DataError(NO_HEADER.format(where, "nothing"))
    if alike := [other for other in names if without_accents(other) == without_accents(name)]:
        return DataError(f"{lacking}, but {quoted(alike[0])}: give it the same name in all tables, to the letter")
    if len(names) == 1 and name in names[0]:
        remedy = "check the separator, and take quotation marks around whole lines out"
        return DataError(f"{lacking}, but one column whose name holds {quoted(name)}: {remedy}")
    if sum(bool(NUMBER.fullmatch(other.strip())) for other in names) > len(names) / 3:
        return DataError(f"{lacking}: {NO_HEADER.format(where, 'numbers')}")
    return DataError(f"{lacking}: it has {listed(names)}")
