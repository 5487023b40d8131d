"""A table in the data folder with named features and one label, as one data set."""

from collections.abc import Collection
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedct_flwr.datasets import cache
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.datasets.table_files import read_table
from fedct_flwr.datasets.tables import columns_of, encode
from fedct_flwr.text.plural import count
from fedct_flwr.types import LABEL_DTYPE, DataError, Examples

_UCI: Final = "https://archive.ics.uci.edu/dataset"


def read(
    name: str,
    file: str,
    uci: str,
    label: str,
    classes: tuple[str, ...],
    *,
    unused: Collection[str] = (),
    distinct: bool = False,
) -> tuple[Schema, Examples]:
    """The table ``file`` in the data folder or in ``NAME`` under it; ``distinct`` drops rows that repeat.

    Every column is a feature but ``label`` and the ``unused`` ones; text is categorical, empty fields are missing.
    ``uci`` is the data set's place in the UCI repository, for whoever lacks it. Raises DataError if the file is not
    there, damaged, or labels something else than ``classes``.
    """
    how = (
        f"write {_UCI}/{uci} there as a table with a header, labels {' and '.join(classes)} in column {label!r}, "
        "and empty fields for what is missing; FEDCT_DATA names the folder"
    )
    (path,) = cache.find(name, [file], [cache.data_folder()], how)
    table = read_table(path, text=[label])
    if label not in table.column_names:
        raise DataError(f"{path} has no column {label!r}: it has {', '.join(table.column_names)}")
    if distinct:
        # One thread keeps the order of the rows, on which the split depends.
        table = table.group_by(table.column_names, use_threads=False).aggregate([])
    y = pc.index_in(table.column(label), value_set=pa.array(classes, pa.string()))
    if y.null_count:
        raise DataError(f"{path} has {count(y.null_count, 'record')} whose {label!r} is none of {', '.join(classes)}")
    features = table.drop_columns([name for name in table.column_names if name == label or name in unused])
    columns = columns_of(features, path)
    return Schema(classes, columns), Examples(encode(features, columns, path), np.asarray(y).astype(LABEL_DTYPE))
