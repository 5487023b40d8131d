"""Lines at the end of a table that hold hardly anything: totals of words, counts of a pivot table, notes.

All other records have far more cells, so these lines are no records of which little is known.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.profile import Profile
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.types import SiloName

_MOST_COLUMNS: Final = 60
_FEWEST_COLUMNS: Final = 4
_FEWEST: Final = 60
_LAST: Final = 20
_FEW: Final = 1 / 3
"""Of the columns, at most, that such a line fills."""
_TIMES: Final = 2
"""So many times as many cells as such a line has every other record, at least."""


def last_lines(table: Profile, silo: SiloName, say: Words) -> Iterator[Finding]:
    """The last records of a table, if these alone are nearly empty."""
    names = [name for name in table.kinds if table.missing(name) < table.records][:_MOST_COLUMNS]
    if len(names) < _FEWEST_COLUMNS or table.records < _FEWEST:
        return
    filled = np.sum([table.columns[name].is_valid().to_numpy() for name in names], axis=0)
    nearly_empty = filled <= _FEW * len(names)
    lines = int(np.argmin(nearly_empty[::-1])) if not nearly_empty.all() else 0
    if not 0 < lines <= _LAST or filled[:-lines].min() < _TIMES * filled[-lines:].max():
        return
    which = f"{say.number(lines, 'record')} at the end" if lines > 1 else "the last record"
    said = f"{which} {say.at(silo)} {'are' if lines > 1 else 'is'} empty but for a few columns, unlike all others"
    fix = "take lines out that are no records, such as totals and notes"
    yield Finding("summary-row", Severity.SAID, said, fix, silo=silo)
