"""Findings on a column of numbers to predict: text in it, other units at a silo, numbers far from all others."""

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.number_text import number_as_text
from fedct_flwr.datasets.inspection.profile import Kind, Profile, profile
from fedct_flwr.datasets.inspection.shift import of_scales
from fedct_flwr.datasets.inspection.strays import far_numbers, sentinels, two_scales
from fedct_flwr.datasets.inspection.telling import following_columns
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.text.printable import quoted
from fedct_flwr.types import SiloName

_TWO = 2


def of_quantity(
    tables: Mapping[SiloName, pa.Table], features: Mapping[SiloName, Profile], label: str, say: Words
) -> Iterator[Finding]:
    """All findings on the numbers that the silos' tables hold in the column ``label``."""
    found = {silo: profile(table.select([label])) for silo, table in tables.items()}
    for silo, own in found.items():
        if own.kinds[label] is Kind.TEXT and own.texts[label].looks.number.any():
            yield number_as_text(own, label, silo, say, Severity.REFUSED)
        elif own.kinds[label] is Kind.NUMBERS and own.distinct(label) <= _TWO < own.records:
            said = f"column {quoted(label)} at silo {silo} has two values alone, or one"
            fix = "predict classes: leave outcome out"
            yield Finding("few-numbers", Severity.SAID, said, fix, label, silo)
    if any(own.kinds[label] is not Kind.NUMBERS for own in found.values()):
        return
    numbers = {silo: table.column(label).cast(pa.float64(), safe=False) for silo, table in tables.items()}
    for silo, own in found.items():
        suspicious = [*sentinels(own, silo, say), *far_numbers(own, silo, say), *two_scales(own, silo, say)]
        yield from suspicious
        others = [chunk for other, column in numbers.items() if other != silo for chunk in column.chunks]
        if others and not suspicious:
            together = profile(pa.table({label: pa.chunked_array(others)}))
            yield from of_scales(together, own, silo, say, "the other silos'")
    values: dict[SiloName, NDArray[np.float64]] = {silo: column.to_numpy() for silo, column in numbers.items()}
    yield from following_columns(features, values, label)
