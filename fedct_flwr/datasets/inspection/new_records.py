"""Findings on new records, for a trained model to judge: columns with only unknown values, or with text for numbers."""

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa

from fedct_flwr.datasets.inspection import refused
from fedct_flwr.datasets.inspection.cells import Cells, Column, Kind
from fedct_flwr.datasets.inspection.finding import Finding, with_accepted
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.datasets.schema import Column as Feature


def inspect_new(table: pa.Table, columns: Sequence[Feature], accept: Collection[str] = ()) -> list[Finding]:
    """Findings on a table of new records whose model has these columns; others in it are left aside.

    Raises ConfigError for names in ``accept`` that no finding has.
    """
    say = Words(place="in the new records", settings="")
    found: list[Finding] = []
    for column in columns:
        if column.text or column.name not in table.column_names:
            continue
        known = Cells(Kind.NUMBERS, np.zeros(1))
        if (words := column.categories) is not None:
            # Twice each: the public set's counts are not known, and a value that occurs once would make others likely.
            known = Cells(Kind.TEXT, np.arange(2 * len(words)) // 2, words)
        new = Column(column.name, known, {"": Cells.of(table.column(column.name))})
        found += refused.of_silo(new, "", say)
    return with_accepted(found, accept)
