"""Tables in files: CSV, Excel and Parquet, whose columns are numbers or text whichever file they come from."""

import errno
import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from fedct_flwr import datasets
from fedct_flwr.config.tables import PLAIN, TableSettings
from fedct_flwr.datasets.dates import days, marked
from fedct_flwr.datasets.delimited import (
    KindError,
    names_in_delimited,
    read_delimited,
    read_lines,
)
from fedct_flwr.datasets.tables import (
    CATEGORY,
    NO_HEADER,
    NUMBER,
    as_category,
    as_names,
    is_number,
    is_text,
    repeated_names,
    without_blanks,
)
from fedct_flwr.files import check_is_file
from fedct_flwr.text.printable import listed, quoted, suggest
from fedct_flwr.types import ConfigError, DataError

ENDINGS: Final = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".xlsx", ".parquet")
"""File endings of tables, in small letters."""

_NO_FILE: Final = {
    errno.ENOENT: "there is no such file",
    errno.EACCES: "this user may not enter its folder, so change the folder's permissions",
    errno.EISDIR: "it is a folder, so name the table in it",
    errno.EINVAL: "it is a pipe or a device, so save the table as a file",
}
_WHOLE: Final = re.compile("0|-?[1-9][0-9]{0,17}")


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
    before = table.schema
    fields = [
        marked(name, values.type) if was_date else _field(before.field(name), values, tables)
        for name, (values, was_date) in zip(names, columns, strict=True)
    ]
    return pa.Table.from_arrays([values for values, _ in columns], schema=pa.schema(fields))


def _field(before: pa.Field, values: pa.ChunkedArray, tables: TableSettings) -> pa.Field:
    """The field of a column as it is read. Codes of whole numbers are numbers to a user's own code."""
    if before.name in tables.categories and is_text(values.type):
        codes = pc.unique(values.cast(pa.string()).drop_null()).to_pylist()
        if all(map(_WHOLE.fullmatch, codes)):
            return as_category(before.name, values, pa.array(sorted(map(int, codes)), pa.int64()))
    told = (before.metadata or {}).get(CATEGORY)
    return pa.field(before.name, values.type, metadata={CATEGORY: told} if told else None)


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
    """The table as its file has it; the columns named in ``text`` are text, None: all but of a Parquet file."""
    _check_regular(path)
    ending = path.name.lower()
    if ending.endswith(".xlsx"):
        return datasets.read_excel(path, text, tables)
    if not ending.endswith(".parquet"):
        return read_delimited(path, text, tables)
    # Before reading: a table with columns of the same name cannot be read.
    if repeated := repeated_names(datasets.names_in_parquet(path)):
        raise _same_name(path, repeated)
    return datasets.read_parquet(path)


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
    values, where = without_blanks(values), f"column {quoted(name)} of {path}"
    if tables.missing:
        values = without_codes(values, tables.missing)
    if name in tables.categories and (is_number(values.type) or is_text(values.type)):
        return _codes(values, where), False
    if tables.dates and name not in text:
        found = days(values, tables.dates, where, tables.missing)
        return (values, False) if found is None else (found, True)
    return values, False


def _codes(values: pa.ChunkedArray, where: str) -> pa.ChunkedArray:
    """A column of categories as text. Raises DataError where different text becomes one code."""
    codes = as_names(values, where)
    if is_text(values.type) and len(codes.unique()) < len(values.unique()):
        raise DataError(
            f"{where} holds codes with and without '.0': write equal codes alike, and put a letter in front of others"
        )
    return codes


def without_codes(values: pa.ChunkedArray, missing: Collection[str]) -> pa.ChunkedArray:
    """The column without the cells that mean a missing value: numbers by value, text by letter."""
    if is_text(values.type):
        compared = values = values.cast(pa.string())
        meant = pa.array(missing, pa.string())
    elif is_number(values.type) and not pa.types.is_boolean(values.type):
        # As floats: in a column of uint8, -99 would become 157.
        compared = values.cast(pa.float64(), safe=False)
        meant = pa.array([float(text) for text in missing if NUMBER.fullmatch(text)], pa.float64())
        if pa.types.is_floating(values.type):
            meant = meant.cast(values.type).cast(pa.float64())
    else:
        return values
    return pc.if_else(pc.is_in(compared, value_set=meant), pa.scalar(None, values.type), values)


def read_as_text(path: Path, tables: TableSettings) -> pa.Table:
    """A file's table whose form depends on no record: as text, and of CSV with one record in each line."""
    _check_regular(path)
    plain = path.name.lower().endswith((".xlsx", ".parquet"))
    return _read(path, column_names(path, tables), tables) if plain else read_lines(path, tables)


def as_written(path: Path) -> pa.Table:
    """A file's table with all of its columns, as text to the letter but in Parquet; ``data.toml`` next to it tells how.

    Raises DataError like ``read_table``.
    """
    return _read(path, None, TableSettings.of_folder(path.parent).of(path.name))


def column_names(path: Path, tables: TableSettings = PLAIN) -> list[str]:
    """The names in a table's header, without reading the table. Raises DataError like ``read_table``."""
    _check_regular(path)
    ending = path.name.lower()
    if ending.endswith(".parquet"):
        return datasets.names_in_parquet(path)
    return datasets.names_in_excel(path, tables) if ending.endswith(".xlsx") else names_in_delimited(path, tables)


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
