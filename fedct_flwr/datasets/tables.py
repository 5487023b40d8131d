"""Tables in files (CSV, Parquet) to numbers: what the columns are is read from the public set alone."""

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from fedct_flwr.datasets.schema import Column, check_names
from fedct_flwr.text.plural import count
from fedct_flwr.text.printable import listed, quoted
from fedct_flwr.text.suggest import suggest
from fedct_flwr.types import DataError, Features, Values

SUFFIXES: Final = (".csv", ".parquet")


# What a CSV reader says about a row goes no further than this: the rest of its message quotes the row.
_SAFE: Final = re.compile(r"CSV parse error: (Row #\d+: )?Expected \d+ columns, got \d+|Empty CSV file")


_NOT_UTF8: Final = "the text of {} is not in UTF-8: save it as CSV UTF-8"
_LONGEST_HEADER: Final = 1_000_000


def read_table(path: Path, text: Collection[str] = ()) -> pa.Table:
    """Read a CSV (header in the first line, empty fields are missing) or Parquet file.

    In a CSV file the columns named in ``text`` are text whatever they look like. Raises DataError, which quotes
    no record.
    """
    try:
        if path.suffix.lower() == ".parquet":
            # Before reading: a table with columns of the same name cannot be read.
            names = pyarrow.parquet.read_schema(path).names
            table = pyarrow.parquet.read_table(path) if len(set(names)) == len(names) else None
        else:
            convert = pyarrow.csv.ConvertOptions(
                strings_can_be_null=True, column_types=dict.fromkeys(text, pa.string())
            )
            _check_separator(path)
            table = pyarrow.csv.read_csv(path, convert_options=convert)
            names = table.column_names
            if any(pa.types.is_binary(column.type) for column in table.columns):
                raise DataError(_NOT_UTF8.format(path))
    except UnicodeDecodeError:
        raise DataError(_NOT_UTF8.format(path)) from None
    except (pa.ArrowException, OSError, ValueError) as error:
        if "invalid UTF8" in str(error):
            raise DataError(_NOT_UTF8.format(path)) from None
        safe = _SAFE.search(str(error))
        reason = safe[0] if safe else "it is missing, damaged or of another kind"
        raise DataError(f"cannot read {path}: {reason}") from None
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise DataError(f"{path} has columns of the same name: {listed(repeated)}; rename them")
    return table


def _check_separator(path: Path) -> None:
    # Unpacks a .gz file, as the reader does.
    with pa.input_stream(path) as file:
        header = file.read(_LONGEST_HEADER).partition(b"\n")[0]
    if header.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(_NOT_UTF8.format(path))
    for separator, name in ((b";", "semicolons"), (b"\t", "tabs")):
        if separator in header and b"," not in header:
            raise DataError(f"the fields of {path} are separated by {name}: save it with commas")


def columns_of(table: pa.Table, path: object, texts: Collection[str] = ()) -> tuple[Column, ...]:
    """What each column of the public table is: numeric, or categorical with the values found in it, sorted.

    Those named in ``texts`` hold text, which stays text. A column without any value counts as numeric. Raises DataError
    for dates, lists and the like, for names or values that hide something, and for a column of text that is not there.
    """
    if missing := next((name for name in texts if name not in table.column_names), None):
        raise DataError(f"{path} has no column of text {quoted(missing)}: {suggest(missing, table.column_names)}")
    columns = []
    for name in table.column_names:
        values = table.column(name)
        if name in texts:
            columns.append(Column(name, text=True))
        elif _is_text(values.type):
            columns.append(Column(name, tuple(sorted(map(str, pc.unique(values.drop_null()).to_pylist())))))
        elif _is_number(values.type):
            columns.append(Column(name))
        else:
            raise DataError(
                f"column {quoted(name)} of {path} holds {quoted(str(values.type))}: turn it into numbers or text"
            )
    check_names(columns, path)
    return tuple(columns)


def encode(table: pa.Table, columns: Sequence[Column], path: object) -> Features:
    """The table as float64 ``(rows, columns)`` in the order of ``columns``, see ``schema.Column``.

    With columns of text it is an array of objects: strings in these, floats in all others. Raises DataError that
    lists every column which is missing or of another kind than in the public set.
    """
    missing = [column.name for column in columns if column.name not in table.column_names]
    if len(missing) == len(columns):
        raise DataError(f"{path} shares no column with the public set: it needs {listed(missing)}")
    extra = [name for name in table.column_names if name not in {column.name for column in columns}]
    kinds = [
        f"{quoted(column.name)} must hold {'numbers' if column.categories is None else 'text'}"
        for column in columns
        if column.name in table.column_names and not _fits(table.column(column.name), column)
    ]
    problems = [
        *([f"missing {listed(missing)}"] if missing else []),
        *([f"unknown {listed(extra)}"] if extra else []),
        *kinds,
    ]
    if problems:
        raise DataError(f"the columns of {path} disagree with the public set: {'; '.join(problems)}")
    X = np.full((table.num_rows, len(columns)), np.nan)
    for position, column in enumerate(columns):
        if column.text:
            continue
        try:
            X[:, position] = _numbers(table.column(column.name), column)
        except pa.ArrowInvalid:
            raise DataError(
                f"column {quoted(column.name)} of {path} holds whole numbers too long for a float: turn them into text"
            ) from None
    infinite = [column.name for position, column in enumerate(columns) if np.isinf(X[:, position]).any()]
    if infinite:
        raise DataError(f"{path} has infinite values in {listed(infinite)}: leave the field empty where none is known")
    if not any(column.text for column in columns):
        return X
    objects: Features = X.astype(np.object_)
    for position, column in enumerate(columns):
        if column.text:
            objects[:, position] = _texts(table.column(column.name), column.name, path)
    return objects


def numbers(table: pa.Table, name: str, path: object) -> Values:
    """The column that is to be predicted as float64 ``(rows,)``, finite. Raises DataError, which quotes no record."""
    values = table.column(name)
    if not _is_number(values.type):
        raise DataError(
            f"column {quoted(name)} of {path} holds {quoted(str(values.type))}: with outcome = 'number' it must hold "
            "numbers"
        )
    try:
        found = _numbers(values, Column(name))
    except pa.ArrowInvalid:
        raise DataError(
            f"column {quoted(name)} of {path} holds whole numbers too long for a float: shorten them"
        ) from None
    if missing := int((~np.isfinite(found)).sum()):
        raise DataError(
            f"{path} has {count(missing, 'record')} without a finite {name!r}: fill them in or take them out"
        )
    return found


def _texts(values: pa.ChunkedArray, name: str, path: object) -> list[str]:
    try:
        return [text or "" for text in values.cast(pa.string()).to_pylist()]
    except pa.ArrowException:
        raise DataError(f"column {quoted(name)} of {path} holds {quoted(str(values.type))}: make it text") from None


def _numbers(values: pa.ChunkedArray, column: Column) -> np.ndarray[Any, np.dtype[np.float64]]:
    if values.null_count == len(values):
        return np.full(len(values), np.nan)
    if column.categories is None or not _is_text(values.type):
        floats: np.ndarray[Any, np.dtype[np.float64]] = values.cast(pa.float64()).to_numpy()
        return floats
    positions = pc.index_in(values.cast(pa.string()), value_set=pa.array(column.categories, pa.string()))
    unknown = pc.and_(pc.is_null(positions), pc.is_valid(values))
    codes = pc.if_else(unknown, len(column.categories), positions)
    found: np.ndarray[Any, np.dtype[np.float64]] = codes.cast(pa.float64()).to_numpy()
    return found


def _fits(values: pa.ChunkedArray, column: Column) -> bool:
    # A column without any value fits both kinds: readers cannot know what it would have held. All can be text.
    if column.text or values.null_count == len(values):
        return True
    return _is_number(values.type) if column.categories is None else _is_text(values.type)


def _is_number(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_null)
    return any(test(kind) for test in tests)


def _is_text(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_dictionary))
