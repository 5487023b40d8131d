"""Dates that are still to come, in a column of dates that are past: a birth of '52 that was read as one of 2052."""

from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

import numpy as np
import pyarrow as pa

from fedct_flwr.datasets.dates import dated
from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.types import SiloName

_DAY: Final = 86_400
_AHEAD: Final = 366
"""Days ahead: an appointment may well be nearer."""
_MOST: Final = 0.2
"""Of a column's dates: with more, it is a column of such dates."""


def future_dates(
    tables: Mapping[SiloName, pa.Table], say: Words, known: Collection[tuple[str, SiloName]], now: float | None = None
) -> Iterator[Finding]:
    """Columns in which a table has dates more than a year ahead, as no other table has; but for ``known`` ones.

    ``now`` is in seconds since 1970, by default the clock's.
    """
    limit = (datetime.now(UTC).timestamp() if now is None else now) / _DAY + _AHEAD
    ahead: dict[str, dict[SiloName, tuple[int, int]]] = {}
    for silo, table in tables.items():
        for name in dated(table):
            days = table.column(name).drop_null().to_numpy()
            cells = int(np.count_nonzero(days > limit))
            if cells:
                ahead.setdefault(name, {})[silo] = cells, len(days)
    for name, found in sorted(ahead.items()):
        for silo, (cells, valid) in found.items():
            if len(found) == 1 and cells <= _MOST * valid and (name, silo) not in known:
                said = f"{say.column(name, silo)} has dates more than a year ahead, in {say.number(cells, 'cell')}"
                fix = "correct them, as where a year of two digits was read as one of this century"
                yield Finding("far-number", Severity.SAID, said, fix, name, silo)
