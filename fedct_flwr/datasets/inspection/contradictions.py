"""Two numbers of one record that contradict each other: one that elsewhere is never smaller than another is smaller.

The upper blood pressure is above the lower one, and the worst nucleus of a biopsy is larger than the mean one. Where
such an order holds in all other records, and not in some of one silo's, cells have changed places there.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.profile import Profile
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.text.printable import quoted
from fedct_flwr.types import SiloName

_MOST_COLUMNS: Final = 40
_MOST_RECORDS: Final = 4000
"""Of one table."""
_MOST_TABLES: Final = 20
_FEWEST_KNOWN: Final = 200
_FEWEST: Final = 5
_FEW_NUMBERS: Final = 10
"""Distinct numbers, at most, that may be names of categories."""
_BY_CHANCE: Final = 1e-6
_LESS_THAN_USUAL: Final = 0.25
"""Quantile of the differences elsewhere."""
_MOSTLY: Final = 0.5
"""Of a silo's records: with more, it is the columns that are others, which is said elsewhere."""

_Floats = NDArray[np.float64]


def contradicting(public: Profile, silos: Mapping[SiloName, Profile], say: Words) -> Iterator[Finding]:
    """Pairs of columns whose order, which holds in all other tables, some records of a silo break."""
    numbers = public.numbers
    names = [
        name
        for name, distinct in zip(numbers.names, numbers.distinct, strict=True)
        if distinct > _FEW_NUMBERS and all(name in own.numbers.position for own in silos.values())
    ]
    names = [names[at] for at in np.unique(np.linspace(0, len(names) - 1, _MOST_COLUMNS).astype(int))] if names else []
    if len(names) < 2:
        return
    largest = sorted(silos, key=lambda silo: -silos[silo].records)[:_MOST_TABLES]
    tables = {"": _cells(public, names)} | {silo: _cells(silos[silo], names) for silo in largest}
    below = {silo: _below(X) for silo, X in tables.items()}
    for silo in largest:
        others = [below[other] for other in below if other != silo]
        broken, known = (np.sum([each[at] for each in others], axis=0) for at in range(2))
        mine, both = below[silo]
        found = (broken == 0) & (known >= _FEWEST_KNOWN) & (mine >= _FEWEST) & (mine <= _MOSTLY * both)
        said: set[str] = set()
        for a, b in sorted(np.argwhere(found).tolist(), key=lambda pair: -mine[*pair]):
            if said & {names[a], names[b]} or not _is_unlikely(int(mine[a, b]), int(both[a, b]), int(known[a, b])):
                continue
            if not _are_swapped(tables, silo, a, b):
                continue
            said |= {names[a], names[b]}
            share = say.share(int(mine[a, b]), int(both[a, b]), "record")
            what = (
                f"{say.column(names[a], silo)} is smaller than {quoted(names[b])} in {share}, and never in the other "
                "tables"
            )
            fix = "check whether cells of these records have changed places"
            yield Finding("contradicting-columns", Severity.SAID, what, fix, names[a], silo)


def _cells(table: Profile, names: list[str]) -> _Floats:
    """Some records of a table ``(columns, records)``."""
    step = max(1, -(-table.records // _MOST_RECORDS))
    return np.array([table.cells(name)[::step] for name in names])


def _below(X: _Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each pair of columns, in how many records the first is smaller than the second, and both are known."""
    with np.errstate(invalid="ignore"):
        smaller = np.array([np.count_nonzero(x < X, axis=1) for x in X])
    there = (~np.isnan(X)).astype(np.float64)
    return smaller, np.rint(there @ there.T).astype(np.int64)


def _are_swapped(tables: Mapping[SiloName, _Floats], silo: SiloName, a: int, b: int) -> bool:
    """Whether two columns differ in the broken records by as much as elsewhere, and not just a little."""
    usual = np.concatenate([X[a] - X[b] for other, X in tables.items() if other != silo])
    apart = tables[silo][b] - tables[silo][a]
    return bool(np.median(apart[apart > 0]) >= np.nanquantile(usual, _LESS_THAN_USUAL))


def _is_unlikely(broken: int, records: int, known: int) -> bool:
    """Whether so many records are no chance, where none of the ``known`` others is such a one."""
    # scipy takes its time to import.
    from scipy.stats import binom

    # The share which none of the others shows, but for once in a thousand.
    share = -np.log(1e-3) / known
    return bool(binom.sf(broken - 1, records, min(1.0, share)) < _BY_CHANCE)
