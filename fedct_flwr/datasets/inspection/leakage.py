"""Columns that tell what is to be predicted: copies of the label, and values known only after it.

The records alone cannot tell whether such a column is a proxy, such as a treatment given after the diagnosis, or an
honest sign: the odor of mushrooms tells 98.5%. It is said in both cases, and accepted by name where it is honest.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from fedct_flwr.datasets.inspection.cells import FEWEST, Cells, Column, Floats, Ints, Kind
from fedct_flwr.datasets.inspection.finding import Finding, Severity, Words
from fedct_flwr.types import SiloName

_TOLD: Final = 0.95
"""Share of all records whose class a column tells, from which it is said."""
_OF_OTHERS: Final = 0.8
"""The same, of records outside of the largest class."""
_HARDLY: Final = 0.5
"""Errors elsewhere, per record outside of the largest class, from which a column tells the label at one silo alone."""
_FEWEST_OF_CLASS: Final = 10
_FEWEST_AT_SILO: Final = 100
_MOST_CLASSES: Final = 30
_BINS: Final = 64
_CORRELATED: Final = 0.99


def telling(column: Column, y: Mapping[SiloName, Ints], classes: int, label: str, say: Words) -> Iterator[Finding]:
    """Whether a column tells the class of 95% of all records, or of one silo's. ``y`` ``(records,)`` are classes."""
    own = {silo: cells for silo, cells in column.silos.items() if silo in y}
    if not own or not 1 < classes <= _MOST_CLASSES:
        return
    bins = _bins(own)
    most = 1 + max(int(each.max(initial=0)) for each in bins.values())
    tables = {
        silo: np.bincount(each * classes + y[silo], minlength=most * classes).reshape(most, classes)
        for silo, each in bins.items()
    }
    every: Ints = np.sum([*tables.values()], axis=0)
    if _is_told(every, FEWEST):
        yield _finding(column.name, "", every, label, say)
        return
    for silo, table in tables.items():
        errors, _, others = _errors(every - table)
        # Elsewhere it hardly tells the label.
        if len(tables) > 1 and _is_told(table, _FEWEST_AT_SILO) and errors > _HARDLY * others > 0:
            yield _finding(column.name, silo, table, label, say)


def following(column: Column, y: Mapping[SiloName, Floats], label: str) -> Iterator[Finding]:
    """Whether a column of numbers has a correlation of 0.99 with the number to predict, or their ranks do."""
    own = [silo for silo, cells in column.silos.items() if silo in y and cells.kind is Kind.NUMBERS]
    if not own:
        return
    pair = np.stack([np.concatenate([column.silos[silo].numbers for silo in own]), np.concatenate([y[s] for s in own])])
    pair = pair[:, np.isfinite(pair).all(axis=0)]
    if pair.shape[1] < FEWEST or pair.std(axis=1).min() == 0:
        return
    ranks = pair.argsort(axis=1).argsort(axis=1)
    found = max(abs(float(np.asarray(np.corrcoef(each))[0, 1])) for each in (pair, ranks))
    if found >= _CORRELATED:
        said = f"column {column.name!r} alone tells {label!r}: their correlation is {found:.3f}"
        fix = f"take it out of all tables if it is known only after {label!r} is"
        yield Finding("tells-the-label", Severity.SAID, said, fix, column.name)


def _bins(own: Mapping[SiloName, Cells]) -> dict[SiloName, Ints]:
    """The number of each record's value, or of a range of numbers; missing is 0."""
    if any(cells.words for cells in own.values()):
        words = {word: at + 1 for at, word in enumerate({word: 0 for cells in own.values() for word in cells.words})}
        numbers = {silo: np.array([*(words[word] for word in cells.words), 0]) for silo, cells in own.items()}
        # Numbers where others have words count as missing.
        codes = {silo: cells.numbers if cells.words else np.full(cells.records, -1) for silo, cells in own.items()}
        return {silo: numbers[silo][codes[silo].astype(np.int64)] for silo in own}
    every = np.sort(np.concatenate([cells.ordered for cells in own.values()]))
    edges = np.unique(every[np.linspace(0, len(every) - 1, _BINS).astype(int)]) if len(every) else every
    bins = {silo: np.searchsorted(edges, cells.numbers, side="right") + 1 for silo, cells in own.items()}
    return {silo: np.where(np.isnan(cells.numbers), 0, bins[silo]) for silo, cells in own.items()}


def _errors(table: Ints) -> tuple[int, int, int]:
    """Errors of the most frequent class of each value, all records, and those outside of the largest class.

    Each record is told by the others of its value.
    """
    ordered, total = np.sort(table, axis=1), table.sum(axis=0)
    first, second = ordered[:, -1], ordered[:, -2]
    right = int(np.where(first > second + 1, first, 0).sum())
    return int(total.sum()) - right, int(total.sum()), int(total.sum() - total.max())


def _is_told(table: Ints, fewest: int) -> bool:
    errors, records, others = _errors(table)
    enough = records >= fewest and sorted(table.sum(axis=0).tolist())[-2] >= _FEWEST_OF_CLASS
    return enough and errors <= (1 - _TOLD) * records and errors <= (1 - _OF_OTHERS) * others


def _finding(name: str, silo: SiloName, table: Ints, label: str, say: Words) -> Finding:
    errors, records, _ = _errors(table)
    share = "" if say.private else f" ({1 - errors / records:.1%})"
    whom = f"most records{share}" if errors else "every record"
    said = f"column {name!r} alone tells the class of {whom}{f' at silo {silo}' if silo else ''}"
    fix = f"take it out of all tables if it is known only after {label!r} is; accept 'tells-the-label:{name}' if not"
    return Finding("tells-the-label", Severity.SAID, said, fix, name, silo)
