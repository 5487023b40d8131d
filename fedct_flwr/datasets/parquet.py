"""Tables in Parquet files, whose sizes are bounded before anything is read."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from fedct_flwr.datasets.delimited import (
    MOST_COLUMNS,
    TOO_LARGE,
    KindError,
    most_unpacked,
)
from fedct_flwr.datasets.tables import as_category, as_names, is_number
from fedct_flwr.text.printable import quoted

_MOST_CELLS: Final = 1 << 24
"""Most cells in a file of any size. Each takes 8 bytes of memory."""
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
    columns = list(_columns(about))
    # A list in a column has several values in a row.
    cells = max(about.num_rows * about.num_columns, sum(column.num_values for column in columns))
    size = sum(column.total_uncompressed_size for column in columns if column.physical_type in _TEXTS)
    if cells > max(_MOST_CELLS, _MOST_CELLS_IN_BYTE * path.stat().st_size) or size > most_unpacked(path):
        raise _too_large(path)


def _columns(about: pyarrow.parquet.FileMetaData) -> Iterator[pyarrow.parquet.ColumnChunkMetaData]:
    for group in map(about.row_group, range(about.num_row_groups)):
        yield from map(group.column, range(group.num_columns))


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
