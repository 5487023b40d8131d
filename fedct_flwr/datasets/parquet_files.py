"""Parquet files, of which a few bytes must not fill all memory.

Parquet writes a value that repeats once. So a file of 14 kB holds 5 GB of text, which its own account of sizes leaves
out: text is read as numbers that stand for the different texts, and spelled out once it is known to be no more than a
table has.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from fedct_flwr.datasets.delimited import MOST_COLUMNS, TOO_LARGE, KindError, most_unpacked

_MOST_CELLS: Final = 1 << 24
"""In a file of any size. Each takes 8 bytes of memory."""
_MOST_CELLS_IN_BYTE: Final = 64
"""Cells, at most, of which a file has one byte, in files with more cells."""
_ROWS_AT_ONCE: Final = 1 << 16
_FEW_ROWS: Final = 64
"""So many are read at a time where text cannot be read as numbers."""
_TEXTS: Final = ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_IN_PLACE: Final = "DELTA_BYTE_ARRAY"
"""An encoding of text that pyarrow spells out at once."""


def read_parquet(path: Path) -> pa.Table:
    """The whole table. Raises DataError, which quotes no record."""
    try:
        about = pyarrow.parquet.read_metadata(path)
        _check_account(about, path)
        schema = pyarrow.parquet.read_schema(path)
        if _is_plain(schema, about):
            return _spelled_out(path, schema)
        return pa.Table.from_batches(_checked(path), schema)
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
        return KindError(f"cannot read {path}: it is encrypted, so save the table anew without a key")
    return KindError(f"cannot read {path}: it is damaged or no Parquet file, so save the table anew")


def _check_account(about: pyarrow.parquet.FileMetaData, path: Path) -> None:
    """Raise DataError for more than a table has by the file's own account."""
    if about.num_columns > MOST_COLUMNS:
        raise KindError(f"cannot read {path}: it has more than {MOST_COLUMNS:,} columns, so export the table anew")
    columns = list(_columns(about))
    # A list in a column has several values in a row.
    cells = max(about.num_rows * about.num_columns, sum(column.num_values for column in columns))
    size = sum(column.total_uncompressed_size for column in columns if column.physical_type in _TEXTS)
    if cells > max(_MOST_CELLS, _MOST_CELLS_IN_BYTE * path.stat().st_size) or size > most_unpacked(path):
        raise _too_large(path)


def _is_plain(schema: pa.Schema, about: pyarrow.parquet.FileMetaData) -> bool:
    """Whether text stands in columns of its own, in an encoding that can be read as numbers."""
    odd = (pa.types.is_nested, pa.types.is_string_view, pa.types.is_binary_view)
    return not any(test(kind) for kind in schema.types for test in odd) and not any(
        _IN_PLACE in column.encodings for column in _columns(about)
    )


def _columns(about: pyarrow.parquet.FileMetaData) -> Iterator[pyarrow.parquet.ColumnChunkMetaData]:
    for group in map(about.row_group, range(about.num_row_groups)):
        yield from map(group.column, range(group.num_columns))


def _spelled_out(path: Path, schema: pa.Schema) -> pa.Table:
    texts = [field.name for field in schema if _is_text(field.type)]
    table = pyarrow.parquet.read_table(path, read_dictionary=texts)
    room = most_unpacked(path)
    for column in table.columns:
        for piece in column.chunks if pa.types.is_dictionary(column.type) else ():
            room -= _length(piece)
        if room < 0:
            raise _too_large(path)
    columns = [_plain(column, field.type) for column, field in zip(table.columns, schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)


def _length(piece: pa.DictionaryArray) -> int:
    """Bytes of the texts that numbers stand for."""
    if not _is_text(piece.type.value_type):
        return 0
    lengths = pc.binary_length(piece.dictionary).cast(pa.int64())
    return int(pc.sum(lengths.take(piece.indices)).as_py() or 0)


def _plain(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """The column in its own type, some rows at a time: one piece of text has at most 2 GB."""
    if column.type == kind:
        return column
    starts = ((piece, start) for piece in column.chunks for start in range(0, len(piece), _ROWS_AT_ONCE))
    return pa.chunked_array([piece.slice(start, _ROWS_AT_ONCE).cast(kind) for piece, start in starts], kind)


def _checked(path: Path) -> Iterator[pa.RecordBatch]:
    """All rows, few at a time. Raises DataError as soon as they are too much."""
    room = max(most_unpacked(path), 8 * _MOST_CELLS)
    with pyarrow.parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(_FEW_ROWS):
            room -= batch.nbytes
            if room < 0:
                raise _too_large(path)
            yield batch


def _is_text(kind: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(test(kind) for test in tests)


def _too_large(path: Path) -> KindError:
    return KindError(f"cannot read {path}: {TOO_LARGE}")
