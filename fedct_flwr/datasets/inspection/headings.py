"""A line of headings among the records, as files have them that were put together of several.

Among numbers it makes a column text, which is refused. Among words alone it would be a record like any other.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.profile import Profile, as_text
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.types import SiloName

_FEWEST: Final = 2
_MOST_CELLS: Final = 5
"""A word that more cells hold is a value, such as 'airbag' of a column of that name."""


def headings(table: Profile, silo: SiloName, say: Words) -> Iterator[Finding]:
    """Records that hold the names of their columns."""
    named = [
        name
        for name, text in table.texts.items()
        if (at := pc.index(text.values, pa.scalar(name, text.values.type)).as_py()) >= 0
        and text.counts[at] <= _MOST_CELLS
    ]
    if len(named) < _FEWEST:
        return
    own = np.sum([pc.equal(as_text(table.columns[name]), name).fill_null(False).to_numpy() for name in named], axis=0)
    rows = np.flatnonzero(own >= max(_FEWEST, len(named) / 2))
    if len(rows):
        where = say.at(silo)
        said = (
            f"{say.number(len(rows), 'record')} {where} hold the names of columns{say.example(None, int(rows[0]) + 1)}"
        )
        yield Finding("heading-row", Severity.SAID, said, "take these lines out: they are headings", silo=silo)
