"""A line of means, medians or sums, which a spreadsheet or a program has written below the records, or above them.

Each number of such a line is that of its whole column. One may be so by chance, as often as the column's cells are.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.profile import QUANTILES, Profile
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.types import SiloName

_FEWEST: Final = 20
_FEW_NUMBERS: Final = 5
_MOST_COLUMNS: Final = 60
_LAST: Final = 4
"""Lines at the end, such as of means, medians, deviations and sums."""
_FEWEST_COLUMNS: Final = 2
_NEARLY_ALL: Final = 0.8
_SELDOM: Final = 0.1
_BY_CHANCE: Final = 1e-6
_DECIMALS: Final = 6
_NEAR: Final = 0.2
_MEDIAN: Final = QUANTILES.index(0.5)
_WHAT: Final[dict[str, Callable[..., Any]]] = {
    "means": np.nanmean,
    "medians": np.nanmedian,
    "sums": np.nansum,
    "standard deviations": np.nanstd,
}

_Floats = NDArray[np.float64]


def summary_rows(table: Profile, silo: SiloName, say: Words) -> Iterator[Finding]:
    """The first and the last records of a table that sum it up."""
    numbers = table.numbers
    chosen = np.flatnonzero((numbers.distinct > _FEW_NUMBERS) & (numbers.valid >= _FEWEST))[:_MOST_COLUMNS]
    if table.records < _FEWEST + _LAST or len(chosen) < _FEWEST_COLUMNS:
        return
    cells = np.array([table.cells(numbers.names[at]) for at in chosen])
    cells[np.isinf(cells)] = np.nan
    others = cells[:, 1:-_LAST]
    rough, spread = _rough(others, numbers.quantiles[chosen, _MEDIAN])
    for row in (0, *range(table.records - _LAST, table.records)):
        for what, of in _WHAT.items():
            # Few records are near what sums all of them up, and only these are looked at closely.
            near = np.abs(cells[:, row] - rough[what]) <= _NEAR * (np.abs(rough[what]) if of is np.nansum else spread)
            if near.mean() < 1 / 2 or not _sums_up(cells, others, row, of):
                continue
            place = f"record {row + 1:,} {say.at(silo)}"
            said = f"{place} holds the {what} of its columns"
            yield Finding("summary-row", Severity.SAID, said, "take this line out: it is no record", silo=silo)
            break


def _rough(cells: _Floats, medians: _Floats) -> tuple[dict[str, _Floats], _Floats]:
    """What nearly sums up columns ``(columns, records)``, and their standard deviations."""
    with np.errstate(all="ignore"):
        known = np.maximum(1, np.count_nonzero(~np.isnan(cells), axis=1))
        totals = np.nansum(cells, axis=1)
        means = totals / known
        spread = np.sqrt(np.nansum(np.square(cells - means[:, None]), axis=1) / known)
    return {"means": means, "medians": medians, "sums": totals, "standard deviations": spread}, spread


def _sums_up(cells: _Floats, others: _Floats, row: int, of: Callable[..., Any]) -> bool:
    """Whether a record's numbers are those of whole columns, as no record's are by chance. Cells ``(columns, n)``."""
    line = cells[:, row]
    known = np.isfinite(line) & np.isfinite(others).any(axis=1)
    if np.count_nonzero(known) < _FEWEST_COLUMNS:
        return False
    line, others = line[known], others[known]
    # Other lines at the ends may be more such lines, or records.
    with np.errstate(over="ignore", invalid="ignore"):
        together = np.concatenate([others, cells[known][:, [0]], cells[known][:, -_LAST:row]], axis=1)
        totals = np.stack([of(others, axis=1), of(together, axis=1), of(np.delete(cells[known], row, axis=1), axis=1)])
    near = _half_a_digit(line)
    same: NDArray[np.bool_] = np.asarray((np.abs(totals - line) <= near).any(axis=0))
    # Where most cells are zero, so is their median, and a record of zeros sums nothing up.
    alike = np.count_nonzero(np.abs(others - totals[0][:, None]) <= near[:, None], axis=1) / others.shape[1]
    telling = alike <= _SELDOM
    if np.count_nonzero(telling) < _FEWEST_COLUMNS or same[telling].mean() < _NEARLY_ALL:
        return False
    return bool(np.log(alike[telling & same] + 1 / others.shape[1]).sum() < np.log(_BY_CHANCE))


def _half_a_digit(line: _Floats) -> _Floats:
    """By how much numbers may differ that are written so."""
    near = np.full(len(line), 0.5 * 10.0**-_DECIMALS)
    for decimals in range(_DECIMALS - 1, -1, -1):
        near[np.abs(np.round(line, decimals) - line) < 1e-9 * np.maximum(1, np.abs(line))] = 0.5 * 10.0**-decimals
    return near * (1 + 1e-6)
