"""A folder of tables as a federation: ``public.csv`` and one file for each silo, named after it."""

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset, SiloData, hold_out, pool
from fedct_flwr.datasets.tables import SUFFIXES, columns_of, encode, read_table
from fedct_flwr.public_set import PublicSet
from fedct_flwr.schema import Schema
from fedct_flwr.seeding import generator
from fedct_flwr.types import LABEL_DTYPE, DataError, Examples

PUBLIC: Final = "public"


def load(config: RunConfig) -> FederatedDataset:
    """``data-dir`` holds ``public.csv`` and a CSV or Parquet file per silo with the column ``label-column``.

    Each silo holds ``test-fraction`` of its records out. A label column in the public file is dropped unread.
    Raises DataError that names the file and the columns concerned.
    """
    folder, label = Path(config.data_dir), config.label_column
    if not folder.is_dir():
        raise DataError(f"no folder {folder}: data-dir must hold {PUBLIC}.csv and a file for each silo")
    paths = {path.stem: path for path in sorted(folder.iterdir()) if path.suffix in SUFFIXES}
    if len(paths) < sum(path.suffix in SUFFIXES for path in folder.iterdir()):
        raise DataError(f"{folder} has a CSV and a Parquet file of the same name: keep one of them")
    public_path = paths.pop(PUBLIC, None)
    if public_path is None:
        raise DataError(f"no {PUBLIC}.csv or {PUBLIC}.parquet in {folder}: the public set is what silos label")
    public = read_table(public_path)
    if label in public.column_names:
        public = public.drop_columns([label])
    columns = columns_of(public, public_path)

    tables = {silo: read_table(path) for silo, path in paths.items()}
    for silo, table in tables.items():
        if label not in table.column_names:
            raise DataError(f"{paths[silo]} has no column {label!r}: it has {', '.join(table.column_names)}")
        if table.num_rows == 0:
            raise DataError(f"{paths[silo]} has no records: add records or take the file away")
    classes = _classes([table.column(label) for table in tables.values()])
    schema = Schema(classes, columns)
    silos = []
    for silo, table in tables.items():
        X = encode(table.drop_columns([label]), columns, paths[silo])
        records = Examples(X, _labels(table.column(label), classes, paths[silo]))
        test, private = hold_out(records, (config.test_fraction,), generator(config.seed, "split", silo))
        silos.append(SiloData(silo, private, test))
    return FederatedDataset(
        name=str(folder),
        schema=schema,
        public=PublicSet(encode(public, columns, public_path)),
        silos=tuple(silos),
        test=pool([silo.test for silo in silos]) if silos else Examples(np.empty((0, 0)), np.empty(0, LABEL_DTYPE)),
    )


def _classes(labels: list[pa.ChunkedArray]) -> tuple[str, ...]:
    """All labels found, numbers by value, text by alphabet."""
    names = {str(name) for column in labels for name in pc.unique(column.drop_null()).to_pylist()}
    try:
        return tuple(sorted(names, key=float))
    except ValueError:
        return tuple(sorted(names))


def _labels(values: pa.ChunkedArray, classes: tuple[str, ...], path: Path) -> NDArray[np.int16]:
    if values.null_count:
        raise DataError(f"{path} has {values.null_count} records without a label: fill them in or take them out")
    code = {name: number for number, name in enumerate(classes)}
    return np.array([code[str(name)] for name in values.to_pylist()], dtype=LABEL_DTYPE)
