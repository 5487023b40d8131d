"""Cells that somebody has filled down in a spreadsheet: one number over many rows, or numbers that count up.

In a column whose neighbors otherwise differ, fifteen equal numbers in a row are no chance, nor are 1, 2, 3 and so on.
Columns in order, and those that repeat for each visit of a patient, have such rows everywhere, and nothing is said.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.profile import Profile
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.types import SiloName

_FEWEST: Final = 60
_FEW_NUMBERS: Final = 20
_LONG: Final = 14
"""Steps, at least, from each of the cells to the next."""
_SELDOM: Final = 0.1
_HARDLY: Final = 0.05
_IN_ORDER: Final = 0.7
"""Steps in one direction, of all: with more, the column is nearly in order."""
_BY_CHANCE: Final = 1e-9

_Floats = NDArray[np.float64]


def filled_down(table: Profile, silo: SiloName, say: Words) -> Iterator[Finding]:
    """Columns of numbers with many cells in a row that are equal, or count up or down by the same step."""
    numbers = table.numbers
    for at in np.flatnonzero((numbers.valid >= _FEWEST) & (numbers.distinct > _FEW_NUMBERS)):
        name = numbers.names[at]
        values = table.cells(name)
        with np.errstate(invalid="ignore", over="ignore"):
            steps = np.diff(values)
        for what, found in (("are equal", _run(steps == 0)), ("count on by one step", _run(_same_steps(steps)))):
            first, length = found
            # Two cells are a step, three are two steps that may be the same.
            cells = slice(first, first + length + (1 if what == "are equal" else 2))
            if length < _LONG or _is_one_patient(table, name, cells):
                continue
            if _stands_out(values, steps, cells, length, equal=what == "are equal"):
                amount = say.number(cells.stop - cells.start, "cell")
                said = f"{say.column(name, silo)} has {amount} in a row that {what}, from record {first + 1:,} on"
                fix = "check whether somebody has filled them down"
                yield Finding("filled-down", Severity.SAID, said, fix, name, silo)
                break


def _same_steps(steps: _Floats) -> NDArray[np.bool_]:
    """Whether each step, but for none, is as long as the one before."""
    one, other = steps[:-1], steps[1:]
    with np.errstate(invalid="ignore"):
        same: NDArray[np.bool_] = (one != 0) & (np.abs(other - one) <= 1e-9 * np.abs(one))
    return same


def _run(mask: NDArray[np.bool_]) -> tuple[int, int]:
    """Where the longest run of true values begins, and how long it is."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    if not len(edges):
        return 0, 0
    lengths = edges[1::2] - edges[::2]
    longest = int(lengths.argmax())
    return int(edges[2 * longest]), int(lengths[longest])


def _is_one_patient(table: Profile, name: str, cells: slice) -> bool:
    """Whether another column has one number in these rows, too: records of one patient, or the same record again."""
    numbers = table.numbers
    for at in np.flatnonzero(numbers.distinct > _FEW_NUMBERS):
        if numbers.names[at] != name:
            others = table.columns[numbers.names[at]].slice(cells.start, cells.stop - cells.start)
            if others.null_count < len(others) and len(others.unique()) == 1:
                return True
    different = len(np.unique(table.keys[cells]))
    return bool(different < (cells.stop - cells.start) / 2)


def _stands_out(values: _Floats, steps: _Floats, cells: slice, length: int, *, equal: bool) -> bool:
    """Whether a run is no chance in its column, where others are seldom equal, or count on."""
    rest = np.concatenate([steps[: cells.start], steps[cells.stop :]])
    moving = rest[np.isfinite(rest) & (rest != 0)]
    if len(moving) < _FEWEST / 2 or not 1 - _IN_ORDER <= (moving > 0).mean() <= _IN_ORDER:
        return False
    again = rest == 0 if equal else _same_steps(rest)
    share = (np.count_nonzero(again) + 1) / (len(rest) + 1)
    if share > _SELDOM or len(values) * float(share) ** length >= _BY_CHANCE:
        return False
    if not equal:
        return True
    value, others = values[cells.start], np.concatenate([values[: cells.start], values[cells.stop :]])
    # The lowest number often means none, and the highest is where a scale ends.
    inside = np.nanmin(others) < value < np.nanmax(others)
    return bool(inside and (others == value).mean() <= _HARDLY)
