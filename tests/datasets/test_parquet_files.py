"""Parquet files: as pyarrow reads them, unless a few bytes hold more than any table."""

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from fedct_flwr.datasets.table_files import read_parquet
from fedct_flwr.types import DataError

TEXT = "x" * 100_000
ROWS = 3000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "public.parquet"


COLUMNS: dict[str, pa.Array] = {
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
    columns = {name: values for name, values in COLUMNS.items() if name not in (left_out, "list" if left_out else "")}
    pyarrow.parquet.write_table(pa.table(columns), path, **options)
    found, expected = read_parquet(path), pyarrow.parquet.read_table(path)
    assert found.schema.metadata == expected.schema.metadata
    assert not any(pa.types.is_dictionary(kind) for kind in found.schema.types)
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
