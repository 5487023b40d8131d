"""Records read one by one, where a promise forbids that any of them decides whether the silo answers.

Formal guarantee: whether a record is read, and as what, depends on that record and the settings alone. What fails
without any record, such as a column that is missing, is raised, and so is a file or a query that gives no table.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedct_flwr.config import DataSettings, TableSettings
from fedct_flwr.datasets.delimited import read_delimited
from fedct_flwr.datasets.federated import column_of_groups
from fedct_flwr.datasets.image_folder import LabeledImages
from fedct_flwr.datasets.query import read_query
from fedct_flwr.datasets.study_folder import StudyFolder, form_of, labeled, labeled_images, spelled_in
from fedct_flwr.datasets.table_files import column_names, is_text, read_table
from fedct_flwr.types import DataError, Examples, Groups


def read_each(data: DataSettings, study: StudyFolder, path: Path | None = None) -> tuple[Examples, Groups | None]:
    """The records of ``read_grouped`` that can be read each by itself. Raises DataError or ConfigError."""
    path = path or data.source
    if study.schema.images:
        images = LabeledImages.of(path)
        blocks = _readable(lambda rows: labeled_images(images.take(rows), data, study), len(images.paths))
        return labeled_images(images.take(np.concatenate(blocks)), data, study)
    form = form_of(data, study)
    raw = read_query(data) if path == data.query else _as_text(path, column_names(path, form), form)
    numbers = {column.name for column in study.schema.columns if not column.spelled}
    numbers |= {data.label} if study.schema.grid else set()

    def plain(rows: NDArray[np.intp]) -> pa.Table:
        """These records in types that depend on none of them."""
        table = read_table(path, spelled_in(data.label, study), form, raw.take(rows))
        columns = {name: _plain(table.column(name), form.decimal, name in numbers) for name in table.column_names}
        if group := data.tables.group:
            columns[group] = column_of_groups(table, group, path)
            if columns[group].null_count:
                raise DataError("it may be any patient's")
        return pa.table(columns)

    blocks = _readable(lambda rows: labeled(plain(rows), path, data.label, study, data), raw.num_rows)
    return labeled(pa.concat_tables(map(plain, blocks)), path, data.label, study, data)


def _readable(read: Callable[[NDArray[np.intp]], Any], size: int) -> list[NDArray[np.intp]]:
    """Blocks of the records that can be read, the first without any. Raises what reading that one raises."""
    blocks, left = [np.arange(0)], [np.arange(size)]
    read(blocks[0])
    while left:
        rows = left.pop()
        try:
            read(rows)
            blocks.append(rows)
        except (DataError, pa.ArrowException):
            left += np.array_split(rows, 2)[::-1] if len(rows) > 1 else []
    return blocks


def _as_text(path: Path, names: list[str], form: TableSettings) -> pa.Table:
    """A file's table, whose columns are text where the file gives no types."""
    if path.name.lower().endswith((".xlsx", ".parquet")):
        return read_table(path, names, form)
    return read_delimited(path, names, form, skip=True)


def _plain(values: pa.ChunkedArray, decimal: str, number: bool) -> pa.ChunkedArray:
    """A column as float64 or as text. Raises pyarrow's errors."""
    if number and is_text(values.type):
        values = pc.replace_substring(pc.utf8_trim_whitespace(values.cast(pa.string())), decimal, ".")
        for word, digit in (("(?i)^true$", "1"), ("(?i)^false$", "0")):
            values = pc.replace_substring_regex(values, word, digit)
    return values.cast(pa.float64() if number else pa.string())
