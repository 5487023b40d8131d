"""Table 1 by site: what each column holds in each table, and how far apart the tables are.

A cell is compared with all other tables by the standardized mean difference (SMD): the difference of means by the
pooled standard deviation, the root of the mean of both variances. Of a share ``p`` the variance is ``p(1-p)`` (Yang &
Dalton 2012); of several words the largest SMD counts, and of a column also that of its missing cells.

One rule marks a cell: its SMD is above 1, and its median lies outside of the middle half of every other table, or its
share outside of all other tables' shares. Columns of at most five different whole numbers count as words.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from fedct_flwr.datasets.inspection.cells import FEWEST, TESTED, Cells, Column, Kind
from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.text.plural import count
from fedct_flwr.text.printable import quoted
from fedct_flwr.types import SiloName

FILE: Final = "table_one.json"
"""In the folder of a simulated run."""
MARKED: Final = 1.0
"""SMD above which a cell is marked."""
NOTE: Final = (
    "Median [quartiles], or shares of the most frequent values. SMD is the standardized mean difference from all other "
    "tables. A ! marks an SMD above 1 where the median lies outside the middle half of every other table, or the share "
    "outside all others."
)
SENTENCE: Final = "largest differences; check unit, coding and join"
_MOST: Final = 99.9
_FEW_NUMBERS: Final = 5
_MOST_WORDS: Final = 50
_SHOWN_WORDS: Final = 4
_PRINTED: Final = 3


@dataclass(frozen=True)
class Site:
    """One cell of the table: a column at a silo, or in the public set if ``silo`` is empty.

    ``numbers`` are the lower quartile, the median and the upper quartile; ``words`` count the most frequent values.
    ``what`` differs most from the other tables: median, missing, or a value; ``here`` and ``there`` are that of this
    table and the range of the others'. ``smd`` is None where there are fewer than 20 cells to compare.
    """

    silo: SiloName
    records: int
    missing: int
    numbers: tuple[float, float, float] | None = None
    words: Mapping[str, int] | None = None
    smd: float | None = None
    what: str = ""
    here: float = 0.0
    there: tuple[float, float] = (0.0, 0.0)
    marked: bool = False

    @property
    def shown(self) -> str:
        """Median and quartiles, or the most frequent words with their shares."""
        valid = self.records - self.missing
        if not valid:
            return ""
        if self.numbers:
            low, middle, high = self.numbers
            return f"{middle:.4g} [{low:.4g}, {high:.4g}]"
        return ", ".join(f"{word} {number / valid:.0%}" for word, number in (self.words or {}).items())


@dataclass(frozen=True)
class Row:
    """A column by site; ``label`` for the one that is predicted."""

    column: str
    sites: tuple[Site, ...]
    label: bool = False

    @property
    def furthest(self) -> tuple[float, Site | None]:
        """The largest SMD without its sign, and where it is."""
        known = [site for site in self.sites if site.smd is not None]
        site = max(known, key=lambda site: abs(site.smd or 0), default=None)
        return abs(site.smd or 0) if site else 0.0, site


@dataclass(frozen=True)
class TableOne:
    """Table 1 by site, the label on top."""

    rows: tuple[Row, ...] = ()

    @property
    def silos(self) -> list[SiloName]:
        """All tables; the public set's name is empty."""
        return list(dict.fromkeys(site.silo for row in self.ordered[::-1] for site in row.sites))

    @property
    def ordered(self) -> list[Row]:
        """The label, then the largest differences first."""
        return sorted(self.rows, key=lambda row: (not row.label, -row.furthest[0]))

    def differences(self, say: Words, most: int = _PRINTED) -> list[str]:
        """The largest differences, one a column. At a real silo without values: the SMD alone, to one decimal."""
        found = []
        for row in sorted(self.rows, key=lambda row: -row.furthest[0])[:most]:
            smd, site = row.furthest
            if site is None:
                continue
            where = quoted(row.column) + ("" if say.private else f" {say.at(site.silo)}")
            value = site.what == "median"
            what = site.what if not say.private or site.what in ("median", "missing") else "shares"
            if say.private:
                found.append(f"{where}: {what} (SMD {smd:.1f})")
                continue
            low, high = site.there
            here, others = _shown(site.here, value), _range(low, high, value)
            found.append(f"{where}: {what} {here}, elsewhere {others} (SMD {smd:.2g})")
        return found

    def document(self) -> list[dict[str, Any]]:
        """As JSON takes it."""
        return [{**asdict(row), "sites": [asdict(site) for site in row.sites]} for row in self.ordered]

    @classmethod
    def of_document(cls, rows: Iterable[Mapping[str, Any]]) -> "TableOne":
        """From ``document``."""
        return cls(tuple(Row(**{**row, "sites": tuple(Site(**site) for site in row["sites"])}) for row in rows))


def row_of(column: Column, label: bool = False) -> Row:
    """A column by site. Tables that silos are tested with are not in it."""
    tables = {silo: cells for silo, cells in column.tables.items() if not silo.endswith(TESTED)}
    few = [cells for cells in tables.values() if cells.kind is Kind.NUMBERS]
    distinct = (
        np.unique(np.concatenate([each.tally[0] for each in few]))
        if few and max(each.distinct for each in few) <= _FEW_NUMBERS
        else np.zeros(0)
    )
    as_words = label or (0 < len(distinct) <= _FEW_NUMBERS and not (distinct % 1).any())
    sites = tuple(_numbers(tables) if column.of_numbers and not as_words else _words(tables))
    return Row(column.name, sites, label)


def said_of(row: Row, say: Words) -> Iterator[Finding]:
    """The findings of a row's marked cells: a silo's numbers, or the shares of its classes."""
    for site in row.sites:
        if not site.marked or not site.silo or site.what == "missing":
            continue
        smd = f"SMD {abs(site.smd or 0):.1f}"
        if row.label:
            shares = f"{_shown(site.here)} of class {quoted(site.what)}, elsewhere {_range(*site.there)}"
            said = f"silo {site.silo} has other class shares than all other silos ({shares}, {smd})"
            fix = "check that the classes mean the same there"
            yield Finding("class-shares", Severity.SAID, said, fix, silo=site.silo)
        elif site.numbers or all(_is_number(word) for word in site.words or ()):
            value = site.what == "median"
            shown = f"{site.what} {_shown(site.here, value)}, elsewhere {_range(*site.there, value)}, "
            said = f"{say.column(row.column, site.silo)} lies apart from {say.elsewhere} "
            said += f"({'' if say.private else shown}{smd})"
            yield Finding("other-scale", Severity.SAID, said, "check unit, coding and join", row.column, site.silo)


def of_classes(counts: Mapping[SiloName, Mapping[str, int]], label: str) -> Row:
    """The row of the classes of each silo's records."""
    cells = {}
    for silo, own in counts.items():
        words = tuple(own)
        cells[silo] = Cells(Kind.TEXT, np.repeat(np.arange(len(words)), [*own.values()]), words)
    return row_of(Column(label, None, cells), label=True)


def largest(table: TableOne, say: Words) -> str:
    """The three largest differences in one sentence; empty where nothing can be compared."""
    found = table.differences(say)
    return f"{SENTENCE}: {'; '.join(found)}" if found else ""


def cells_of(row: Row, silos: Sequence[SiloName]) -> list[str]:
    """A row as text: what it holds at each of these silos, empty for the public set, and the largest SMD."""
    sites = {site.silo: site for site in row.sites}
    found = []
    for silo in silos:
        site = sites.get(silo)
        if site is None:
            found.append("")
            continue
        size = f" (n {site.records:,})" if row.label else ""
        missing = f"{site.missing / site.records:.0%} missing" if site.missing else ""
        found.append(f"{'! ' if site.marked else ''}{', '.join(filter(None, (site.shown, missing)))}{size}")
    smd, furthest = row.furthest
    return [*found, f"{smd:.2g} ({furthest.silo or 'public'})" if furthest else ""]


def caption(table: TableOne) -> str:
    """The table's title."""
    return f"Table 1 by site ({count(len(table.rows), 'column')}): {SENTENCE}"


def _numbers(tables: Mapping[SiloName, Cells]) -> Iterator[Site]:
    numbers = [cells.ordered for cells in tables.values() if cells.valid]
    # Around a number of the column, as squares of far ones would lose their digits.
    center = float(numbers[0][len(numbers[0]) // 2]) if numbers else 0.0
    # An SMD has no unit: by a power of two, which loses no digit, squares neither overflow nor vanish.
    largest = max((float(np.abs(ordered[[0, -1]]).max()) for ordered in numbers), default=0.0)
    scale = 2.0 ** (math.frexp(largest)[1] - 1)
    moments = {silo: _moments(cells, center, scale) for silo, cells in tables.items()}
    quartiles = {
        silo: np.quantile(cells.ordered, (0.25, 0.5, 0.75)) if cells.valid else None for silo, cells in tables.items()
    }
    for silo, cells in tables.items():
        own = quartiles[silo]
        others = [other for other in tables if other != silo and tables[other].valid >= FEWEST]
        best = _of_missing(silo, tables)
        if own is not None and cells.valid >= FEWEST and others:
            n, mean, square = np.sum([moments[other] for other in others], axis=0)
            size, mine, squares = moments[silo]
            spread = ((squares / size - (mine / size) ** 2) + (square / n - (mean / n) ** 2)) / 2
            smd = _standardized(mine / size - mean / n, max(0.0, float(spread)))
            theirs = np.array([quartiles[other] for other in others])
            outside = bool(own[1] < theirs[:, 0].min() or own[1] > theirs[:, 2].max())
            there = float(theirs[:, 1].min()), float(theirs[:, 1].max())
            best = max(best, (smd, "median", float(own[1]), there, outside), key=_largest)
        shown = None if own is None else (float(own[0]), float(own[1]), float(own[2]))
        yield _site(silo, cells, best, numbers=shown)


def _moments(cells: Cells, center: float, scale: float) -> tuple[float, float, float]:
    """Cells, the sum of their numbers from a center, and the sum of the squares."""
    values = cells.ordered / scale - center / scale
    return float(len(values)), float(values.sum()), float(values @ values)


_Best = tuple[float | None, str, float, tuple[float, float], bool]
"""SMD, what differs, here, there, and whether it lies outside of the others' range."""


def _words(tables: Mapping[SiloName, Cells]) -> Iterator[Site]:
    counts = {silo: _counts(cells) for silo, cells in tables.items()}
    total: dict[str, int] = {}
    for own in counts.values():
        for word, number in own.items():
            total[word] = total.get(word, 0) + number
    words = sorted(total, key=lambda word: -total[word])[:_MOST_WORDS]
    shares = np.array([[own.get(word, 0) for word in words] for own in counts.values()], dtype=float)
    valid = np.array([max(1, sum(own.values())) for own in counts.values()])
    for at, (silo, cells) in enumerate(tables.items()):
        others = [other for other in np.flatnonzero(valid >= FEWEST) if other != at]
        best = _of_missing(silo, tables)
        if valid[at] >= FEWEST and len(others) and words:
            here, there = shares[at] / valid[at], shares[others] / valid[others][:, None]
            pooled = shares[others].sum(axis=0) / valid[others].sum()
            for word, p, q, of in zip(words, here, pooled, there.T, strict=True):
                smd = _of_shares(p, q)
                outside = bool(p < of.min() or p > of.max())
                best = max(best, (smd, word, float(p), (float(of.min()), float(of.max())), outside), key=_largest)
        yield _site(silo, cells, best, words={word: counts[silo].get(word, 0) for word in words[:_SHOWN_WORDS]})


def _counts(cells: Cells) -> dict[str, int]:
    return {word if isinstance(word, str) else f"{word:g}": number for word, number in cells.values.items()}


def _of_missing(silo: SiloName, tables: Mapping[SiloName, Cells]) -> _Best:
    others = [cells for other, cells in tables.items() if other != silo and cells.records >= FEWEST]
    if tables[silo].records < FEWEST or not others:
        return None, "", 0.0, (0.0, 0.0), False
    here = tables[silo].missing / tables[silo].records
    shares = [cells.missing / cells.records for cells in others]
    pooled = sum(cells.missing for cells in others) / sum(cells.records for cells in others)
    outside = not min(shares) <= here <= max(shares)
    return _of_shares(here, pooled), "missing", here, (min(shares), max(shares)), outside


def _site(silo: SiloName, cells: Cells, best: _Best, **shown: Any) -> Site:
    smd, what, here, there, outside = best
    marked = outside and smd is not None and abs(smd) > MARKED
    return Site(silo, cells.records, cells.missing, smd=smd, what=what, here=here, there=there, marked=marked, **shown)


def _largest(best: _Best) -> float:
    return -1.0 if best[0] is None else abs(best[0])


def _of_shares(p: float, q: float) -> float:
    return _standardized(p - q, (p * (1 - p) + q * (1 - q)) / 2)


def _standardized(difference: float, variance: float) -> float:
    if not difference:
        return 0.0
    found = difference / np.sqrt(variance) if variance > 0 else np.sign(difference) * _MOST
    return float(np.clip(found, -_MOST, _MOST))


def _shown(number: float, value: bool = False) -> str:
    return f"{number:.4g}" if value else f"{number:.0%}"


def _range(low: float, high: float, value: bool = False) -> str:
    low_, high_ = _shown(low, value), _shown(high, value)
    return low_ if low_ == high_ else f"{low_} to {high_}"


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
