"""New records, for a model to say the class of: a table with a model's columns among others, or a folder of images."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from fedct_flwr.config import TableSettings
from fedct_flwr.datasets.image_folder import images_in, read_images
from fedct_flwr.datasets.inspection.cells import Cells, Kind
from fedct_flwr.datasets.inspection.cells import Column as Inspected
from fedct_flwr.datasets.inspection.columns import of_silo
from fedct_flwr.datasets.inspection.finding import Finding, Severity, Words, refuse, with_accepted
from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.datasets.table_files import read_table
from fedct_flwr.datasets.tables import encode
from fedct_flwr.types import DataError, Features


class Unlabeled(NamedTuple):
    """Records without labels: a name for each (its number from 1, or the image's file name), and their features.

    ``unknown`` counts, by column, values that are no category of the study's; ``table`` is all that was read, of images
    their names. ``findings`` are what the inspection says of them.
    """

    names: list[str]
    X: Features
    unknown: dict[str, int]
    table: pa.Table
    findings: tuple[Finding, ...] = ()


def read_unlabeled(schema: Schema, path: Path, *, accept: Collection[str] = ()) -> Unlabeled:
    """New records as the study numbers columns. Columns that it does not have are left aside.

    ``accept`` names findings that are accepted.

    A ``data.toml`` next to a table tells its form. Raises DataError, which quotes no record, and ConfigError.
    """
    if schema.images:
        paths = images_in(path)
        names = [image.name for image in paths]
        return Unlabeled(names, read_images(paths, *schema.images), {}, pa.table({"image": names}))
    columns = schema.columns
    if not columns:
        raise DataError(f"the model was trained on arrays that no file format here holds, so {path} cannot be read")
    told = TableSettings.of_folder(path.parent).of(path.name)
    table = read_table(path, [column.name for column in columns if column.spelled], told)
    if table.num_rows == 0:
        raise DataError(f"{path} has no records")
    found = inspect_new(table, columns, [*told.accept, *accept])
    refuse(found, {"": path})
    known = [name for name in table.column_names if name in {column.name for column in columns}]
    X = encode(table.select(known), columns, path)
    counts = {
        column.name: int(np.count_nonzero(X[:, position] == len(column.categories)))
        for position, column in enumerate(columns)
        if column.categories is not None
    }
    names = [str(number) for number in range(1, table.num_rows + 1)]
    unknown = {name: count for name, count in counts.items() if count}
    return Unlabeled(names, X, unknown, table, tuple(each for each in found if each.severity is Severity.SAID))


def inspect_new(table: pa.Table, features: Sequence[Column], accept: Collection[str] = ()) -> list[Finding]:
    """Findings on new records for a model of these columns: only unknown values, or text for numbers.

    Other columns are left aside. Raises ConfigError for names in ``accept`` that no finding has.
    """
    say = Words(place="in the new records", settings="")
    found: list[Finding] = []
    for column in features:
        if not column.text and column.name in table.column_names:
            # Twice each: the public set's counts are not known, and a value that occurs once would make others likely.
            words = np.arange(2 * len(column.categories or ()), dtype=np.float64) // 2
            known = Cells(Kind.NUMBERS if column.categories is None else Kind.TEXT, words, column.categories or ())
            new = Inspected(column.name, known, {"": Cells.of(table.column(column.name))})
            found += of_silo(new, "", say)
    return with_accepted(found, accept)
