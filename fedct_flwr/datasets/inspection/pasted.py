"""Cells in a row that stand a second time elsewhere: below in the same column, or in that of another table.

Somebody has pasted a block of rows twice, or another hospital's column, and changed what identifies them. Six numbers
that follow each other seldom do so again. Where visits or doses follow a plan, they do so everywhere, and nothing is
said; nor where a whole table repeats itself, as one does that has a line for each of several measurements.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.profile import Profile
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.text.plural import count
from fedct_flwr.text.printable import listed
from fedct_flwr.types import SiloName

_TOGETHER: Final = 6
_FEWEST: Final = 12
"""Cells in a row."""
_FEW_NUMBERS: Final = 20
_MOST_COLUMNS: Final = 30
_MOST_RECORDS: Final = 50_000
_MOST_TABLES: Final = 20
_ONE_WAY: Final = 0.8
_MOSTLY: Final = 0.8
_NEARLY_ALL: Final = 0.9
_MOST_NAMED: Final = 3

_Keys = NDArray[np.uint64]


class _Run(NamedTuple):
    """From which record on cells repeat those from another one on, and how many they are."""

    first: int
    source: int
    cells: int


def pasted(tables: Mapping[SiloName, Profile], say: Words) -> Iterator[Finding]:
    """Runs of cells that occur a second time, by table; the public set has no name."""
    largest = sorted(tables, key=lambda silo: -tables[silo].records)[:_MOST_TABLES]
    # Nothing is said of the table that others were copied from.
    order = [silo for silo in tables if silo in largest]
    names = _columns([tables[silo] for silo in order])
    keys = {silo: {name: _keys(tables[silo], name) for name in names} for silo in order}
    for at, silo in enumerate(order):
        for other in (silo, *order[:at]):
            runs: dict[str, _Run] = {}
            for name in names:
                if name in tables[silo].numbers.position and name in tables[other].numbers.position:
                    run = _repeated(keys[other][name], keys[silo][name], within=other == silo)
                    if run:
                        runs[name] = run
            if runs:
                yield _said(runs, silo, other, say)


def _said(runs: Mapping[str, _Run], silo: SiloName, other: SiloName, say: Words) -> Finding:
    first, longest = max(runs.items(), key=lambda pair: pair[1].cells)
    places = f"from record {longest.first + 1:,} on"
    source = f"from record {longest.source + 1:,} on"
    from_where = source if silo == other else f"{f'at silo {other}' if other else 'in the public set'} {source}"
    where = say.at(silo)
    verb = "repeats" if len(runs) == 1 else "repeat"
    said = f"column{'' if len(runs) == 1 else 's'} {listed([*runs], _MOST_NAMED)} {where} {verb} {places} "
    said += f"{count(longest.cells, 'cell')} in a row that stand {from_where}"
    return Finding("pasted-cells", Severity.SAID, said, "check which of the two was pasted there", first, silo)


def _columns(tables: list[Profile]) -> list[str]:
    """Columns of many numbers in some table, of a wide one some."""
    names = dict.fromkeys(
        table.numbers.names[at] for table in tables for at in np.flatnonzero(table.numbers.distinct > _FEW_NUMBERS)
    )
    every = [*names]
    return [every[at] for at in np.unique(np.linspace(0, len(every) - 1, _MOST_COLUMNS).astype(int))] if every else []


def _keys(table: Profile, name: str) -> _Keys:
    """One key for each cell with those that follow it ``(cells,)``; 0 where they go one way, or are few numbers."""
    if name not in table.numbers.position:
        return np.zeros(0, dtype=np.uint64)
    values = table.cells(name)[:_MOST_RECORDS]
    size = len(values) - _TOGETHER + 1
    steps = np.diff(values)
    moving = np.count_nonzero(steps)
    # A column in order repeats itself.
    if size < _FEWEST or not moving or max((steps > 0).sum(), (steps < 0).sum()) > _ONE_WAY * moving:
        return np.zeros(max(0, size), dtype=np.uint64)
    bits = (values + 0.0).view(np.uint64)
    keys = np.zeros(size, dtype=np.uint64)
    moves = np.zeros(size, dtype=np.int64)
    for at in range(_TOGETHER):
        keys = (keys ^ bits[at : at + size]) * np.uint64(0x9E3779B97F4A7C15)
        keys ^= keys >> np.uint64(29)
        if at:
            with np.errstate(invalid="ignore"):
                moves += steps[at - 1 : at - 1 + size] != 0
    empty = np.convolve(np.isnan(values), np.ones(_TOGETHER), "valid") > 0
    keys[(moves < _TOGETHER - 2) | empty] = 0
    return keys


def _repeated(there: _Keys, here: _Keys, *, within: bool) -> _Run | None:
    """A run of keys in one column that is in the other one as well, and no other of its keys repeats elsewhere."""
    if within:
        order = np.argsort(here, kind="stable")
        same = (here[order][1:] == here[order][:-1]) & (here[order][1:] > 0)
        sources, places = order[:-1][same], order[1:][same]
    else:
        known, where = np.unique(there, return_index=True)
        at = np.minimum(np.searchsorted(known, here), max(0, len(known) - 1))
        found = (here > 0) & (known[at] == here) if len(known) else np.zeros(len(here), dtype=bool)
        places, sources = np.flatnonzero(found), where[at[found]] if len(known) else np.zeros(0, dtype=np.intp)
    if len(places) < _FEWEST - _TOGETHER + 1:
        return None
    shifts, counts = np.unique(places - sources, return_counts=True)
    best = int(counts.argmax())
    mine = np.sort(places[places - sources == shifts[best]])
    length = len(mine)
    is_run = length >= _FEWEST - _TOGETHER + 1 and mine[-1] - mine[0] < length / _NEARLY_ALL
    if not is_run or length < _MOSTLY * len(places):
        return None
    shift, cells = int(shifts[best]), int(mine[-1] - mine[0]) + _TOGETHER
    # What repeats at once follows a plan, and a whole table has a line for each of several measurements.
    whole = cells >= _NEARLY_ALL * shift and cells + shift >= _NEARLY_ALL * (len(here) + _TOGETHER - 1)
    planned = within and (cells > shift or whole)
    return None if planned else _Run(int(mine[0]), int(mine[0]) - shift, cells)
