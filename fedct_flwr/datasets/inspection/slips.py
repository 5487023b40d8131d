"""Cells that stand next to the wrong record: a column, or the labels, that slipped by some rows in one table.

Measurements of one patient go together. Where a column has nothing to do with the others of its own record, and much
with those of the record before or after it, it has slipped. Each shift is judged by how well all other columns
together tell the column (Hotelling's T-squared, by Wilks' approximation chi-squared), next to shifts that nobody
makes: records that follow each other, such as visits of a patient, are like each other at all of these.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.scores import Scores, correlated, precision
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.text.plural import count
from fedct_flwr.types import SiloName

_FEWEST: Final = 40
_SHIFTS: Final = (1, 2, 3)
_OTHER_SHIFTS: Final = tuple(range(5, 15))
_BY_CHANCE: Final = 1e-7
_TIMES: Final = 2.0
"""So many times as much as without a shift, and as with shifts that nobody makes."""
_TOGETHER: Final = 5.0
"""So often, by chance, two flags stand next to each other in a table that tells whether they go together."""


def slipped(scores: Scores, silo: SiloName, say: Words) -> Iterator[Finding]:
    """Columns of one table that slipped by a few rows, all of them or those of its first or last half."""
    half = len(scores.values) // 2
    said: set[str] = set()
    for rows, where in ((slice(None), ""), (slice(0, half), "first"), (slice(half, None), "last")):
        # What goes with a column that slipped did so for that reason alone.
        left = ~np.isin(scores.owner, [scores.names.index(name) for name in said])
        for name, shift in _slipped(scores.names, scores.owner[left], scores.values[rows, left]):
            said.add(name)
            part = f" in the {where} half of its records" if where else ""
            way = f"{count(abs(shift), 'record')} {'before' if shift > 0 else 'after'} its own"
            what = f"{say.column(name, silo)}{part} goes with the other columns of the record {way}, not with its own"
            fix = "its cells have slipped: put each next to its own record"
            yield Finding("slipped-rows", Severity.SAID, what, fix, name, silo)


def _slipped(names: tuple[str, ...], owner: NDArray[np.intp], values: NDArray[np.float64]) -> Iterator[tuple[str, int]]:
    """Columns with their shift: 1 where a cell stands one row below its record, -1 where it stands one above."""
    # scipy takes its time to import.
    from scipy.stats import chi2

    left = np.ptp(values, axis=0) > 0 if len(values) else np.zeros(0, dtype=bool)
    while len(values) >= _FEWEST and len(np.unique(owner[left])) > 1:
        of, some = owner[left], values[:, left]
        heavy = _fourth_moments(some)
        here = correlated(some, some)
        lagged = {shift: correlated(some[:-shift], some[shift:]) for shift in (*_SHIFTS, *_OTHER_SHIFTS)}
        most, worst = 0.0, None
        for column in np.unique(of).tolist():
            mine = of == column
            others = (of != column) & (heavy * heavy[mine].max() <= len(some) / _TOGETHER)
            if not others.any():
                continue
            inverse = precision(here[np.ix_(others, others)])
            own = _explained(here[np.ix_(others, mine)], inverse, len(some))
            at = {
                sign * shift: _explained(matrix[np.ix_(others, mine)], inverse, len(some) - shift)
                for shift, down in lagged.items()
                for sign, matrix in ((1, down), (-1, down.T))
            }
            usual = max(value for shift, value in at.items() if abs(shift) in _OTHER_SHIFTS)
            best = max((shift for shift in at if abs(shift) in _SHIFTS), key=at.__getitem__)
            needed = float(chi2.isf(_BY_CHANCE, np.count_nonzero(others) * np.count_nonzero(mine)))
            if at[best] >= max(needed, _TIMES * own, _TIMES * usual) and at[best] - own > most:
                most, worst = at[best] - own, (column, best)
        if worst is None:
            return
        yield names[worst[0]], worst[1]
        left = left & (owner != worst[0])


def _fourth_moments(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of scores in units of their deviation: one by the share of a rare flag, less than 2 for ranks."""
    squares = np.square(values)
    found: NDArray[np.float64] = np.square(squares).mean(axis=0) / np.square(squares.mean(axis=0))
    return found


def _explained(correlations: NDArray[np.float64], inverse: NDArray[np.float64], records: int) -> float:
    """How much others tell of some scores ``(others, scores)``: chi-squared, where they tell nothing."""
    return float(records * (correlations * (inverse @ correlations)).sum())
