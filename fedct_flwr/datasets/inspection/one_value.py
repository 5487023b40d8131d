"""Columns of a few words or numbers with one of them alone at a silo, where the public set has several."""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.profile import Profile
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.types import SiloName

_FEWEST: Final = 20
_FEW_VALUES: Final = 10
"""Of more numbers, one that is everywhere stands for a missing one, which is said elsewhere."""
_USUAL: Final = 0.9
"""Of the public set: what is nearly always so may be always so."""
_BY_CHANCE: Final = 1e-6


def one_value(public: Profile, silo: Profile, name: SiloName, say: Words) -> Iterator[Finding]:
    """Columns with the same value in all of a silo's records, in which the public set's differ."""
    for column in silo.kinds:
        valid = silo.records - silo.missing(column)
        if silo.distinct(column) != 1 or valid < _FEWEST or public.kinds.get(column) != silo.kinds[column]:
            continue
        if column in silo.texts:
            value = silo.texts[column].values[0].as_py()
        elif public.distinct(column) <= _FEW_VALUES:
            value = float(silo.numbers.smallest[silo.numbers.position[column]])
        else:
            continue
        known = public.records - public.missing(column)
        there = _number(public, column, value)
        share = (there + 1) / (known + 1)
        # A value that the public set has not is said elsewhere.
        if 0 < there <= _USUAL * known and share**valid < _BY_CHANCE:
            shown = "" if say.private else say.values({str(value): valid})
            said = f"{say.column(column, name)} has one value alone{shown}, and the public set has others in "
            said += f"{1 - there / known:.0%} of its records"
            fix = "nothing, if all records are so there; otherwise write the values"
            yield Finding("constant-column", Severity.SAID, said, fix, column, name)


def _number(public: Profile, column: str, value: str | float) -> int:
    """In how many cells the public set has a value."""
    if isinstance(value, float):
        return int(np.count_nonzero(public.valid(column) == value))
    text = public.texts[column]
    found = pc.index(text.values, pa.scalar(value, text.values.type)).as_py()
    return int(text.counts[found]) if found >= 0 else 0
