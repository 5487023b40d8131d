"""Table 1 by site: what each column holds in each table, and how far apart the tables are.

A cell is compared with all other tables by the standardized mean difference (SMD): the difference of means by the
pooled standard deviation, the root of the mean of both variances. Of a share ``p`` the variance is ``p(1-p)`` (Yang &
Dalton 2012); of several words the largest SMD counts, and of a column also that of its missing cells.

``NOTE`` is the rule that marks a cell. Columns of at most five different whole numbers count as words.

Middle halves find another unit in a skewed column: of a lognormal one the SMD stays below √2/√(e^σ²-1) under any
factor. False alarms that they add, on twelve tables: none in 432 random splits with 20 to 400 records a silo, none in
1,407 cells by site, and 2 in 5,109 cells by other columns.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection import Finding, Redaction, Severity
from fedct_flwr.datasets.inspection.cells import FEWEST, TESTED, CellKind, Cells, Floats, Inspected, Ints
from fedct_flwr.text.printable import count, quoted
from fedct_flwr.types import SiloName

FILE: Final = "table_one.json"
NOTE: Final = (
    "Median [quartiles], or shares of the most frequent values. SMD is the standardized mean difference from all other "
    "tables. A ! marks a middle half below or above those of all other tables. It also marks an SMD above 1 where the "
    "median lies outside them, or the share outside all others."
)
SENTENCE: Final = "largest differences; check unit, coding and join"
LABELS_FIT: Final = "labels fit (AUC)"
"""The row that is of no column."""
_FEW: Final = 5
_Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class SiteCell:
    """One cell of the table: a column at a silo, or in the public set if ``silo`` is empty.

    ``numbers`` are the quartiles; ``words`` count the most frequent values. ``what`` differs most from other tables:
    median, missing, or a value; ``here`` and ``there`` are that of this table and the range of the others'. ``smd`` is
    None where there are fewer than 20 cells to compare.
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
        if self.numbers:
            return "{1} [{0}, {2}]".format(*map(_figure, self.numbers))
        valid = self.records - self.missing
        return ", ".join(f"{word} {number / valid:.0%}" for word, number in (self.words or {}).items() if valid)


@dataclass(frozen=True)
class Row:
    """A column by site; ``label`` for the one that is predicted."""

    column: str
    sites: tuple[SiteCell, ...]
    label: bool = False

    @property
    def furthest(self) -> tuple[float, SiteCell | None]:
        """The largest SMD without its sign, and where it is."""
        site = max(self.sites, key=lambda site: -1.0 if site.smd is None else abs(site.smd), default=None)
        return (0.0, None) if site is None or site.smd is None else (abs(site.smd), site)


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

    def document(self) -> list[dict[str, Any]]:
        """The table as JSON types."""
        return [{**vars(row), "sites": [vars(site) for site in row.sites]} for row in self.ordered]

    @classmethod
    def of_document(cls, rows: Iterable[Mapping[str, Any]]) -> "TableOne":
        """Read the JSON of ``document``."""
        return cls(tuple(Row(**{**row, "sites": tuple(SiteCell(**site) for site in row["sites"])}) for row in rows))


@dataclass(frozen=True)
class Inspection:
    """Summary of a federation's tables by site, and the suspicious findings."""

    table: TableOne = field(default_factory=TableOne)
    findings: tuple[Finding, ...] = ()

    @property
    def refused(self) -> list[Finding]:
        """Findings with which nothing runs."""
        return [found for found in self.findings if found.severity is Severity.REFUSED]

    @property
    def suspicious(self) -> list[Finding]:
        """Suspicious findings."""
        return [found for found in self.findings if found.severity is Severity.SAID]


def row_of(column: Inspected, label: bool = False) -> Row:
    """A column by site. No table is compared with test tables."""
    tables = column.tables
    trained = np.array([not silo.endswith(TESTED) for silo in tables], dtype=bool)
    few = label or not column.of_numbers or all(cells.distinct <= _FEW for cells in tables.values())
    counts = [Counter(cells.counts if few else {}) for cells in tables.values()]
    total = sum(counts, Counter[str]())
    shown: list[dict[str, Any]]
    if column.of_numbers and not label and not (0 < len(total) <= _FEW and all(map(_is_whole, total))):
        numbers = [cells.ordered for cells in tables.values()]
        quartiles = [np.quantile(each if len(each) else [0.0], (0.25, 0.5, 0.75)) for each in numbers]
        shown = [{"numbers": (*q.tolist(),) if len(n) else None} for n, q in zip(numbers, quartiles, strict=True)]
        own = _of_numbers(numbers, np.array(quartiles), trained)
    else:
        words = [word for word, _ in total.most_common(50)]
        shown = [{"words": {word: each[word] for word in words[:4]}} for each in counts]
        shares = np.array([[each[word] for word in words] for each in counts])
        own = _of_shares(words, shares, [each.total() for each in counts], trained)
    records = [cells.records for cells in tables.values()]
    lacking = [cells.records - cells.valid for cells in tables.values()]
    missing = _of_shares(["missing"], np.array(lacking)[:, None], records, trained)
    sites = []
    for at, (silo, *both) in enumerate(zip(tables, missing, own, strict=True)):
        # A marked value goes before missing cells: the SMD of a skewed column is small in any unit.
        marked = both[1].get("marked", False)
        furthest = both[1] if marked else max(both, key=lambda each: abs(each.get("smd", 0.0)))
        sites.append(SiteCell(silo, records[at], lacking[at], **shown[at], **furthest))
    return Row(column.name, tuple(sites), label)


def of_test_tables(column: Inspected) -> Row:
    """The silos' test tables next to all training tables, if they are marked next to their own silo's alone, too.

    So a silo that is unlike all others may be tested with records like its own.
    """
    trained = column.trained
    apart: dict[SiloName, Cells] = {}
    for silo, own in trained.silos.items():
        name = f"{silo}{TESTED}"
        pair = {silo: own, name: column.silos[name]} if name in column.silos else {}
        if pair and row_of(Inspected(column.name, None, pair)).sites[-1].marked:
            apart[name] = pair[name]
    row = row_of(replace(trained, silos={**trained.silos, **apart})) if apart else Row(column.name, ())
    return replace(row, sites=tuple(site for site in row.sites if site.silo in apart))


def said_of(row: Row, redaction: Redaction) -> Iterator[Finding]:
    """The findings of a row's marked cells: a table's numbers, or the shares of a silo's classes.

    A public set next to a single silo is as far from it as that is from the public set: the silo is named.
    """
    marked = [site for site in row.sites if site.marked and site.what != "missing"]
    # Others may be marked for the furthest one's sake, which is among those that they are compared with.
    for site in sorted(marked, key=lambda site: -abs(site.smd or 0))[:1] if row.label else marked:
        if not site.silo and len(row.sites) == 2:
            continue
        smd = f"SMD {abs(site.smd or 0):.1f}"
        if row.label:
            message = f"silo {site.silo} has other class shares than all other silos ({compared(site)}, {smd})"
            fix = "check that the classes mean the same there"
            yield Finding("class-shares", Severity.SAID, message, fix, silo=site.silo)
        elif site.numbers or all(map(_is_whole, site.words or ())):
            shown = smd if redaction.private else f"{compared(site)}, {smd}"
            what = f"lies apart from {redaction.others} ({shown})"
            yield redaction.finding("other-scale", row.column, site.silo, what, "check unit, coding and join")


def of_classes(counts: Mapping[SiloName, Mapping[str, int]], label: str) -> Row:
    """The row of the classes of each silo's records."""
    words = {silo: np.repeat(np.arange(len(own)), [*own.values()]) for silo, own in counts.items()}
    cells = {silo: Cells(CellKind.TEXT, words[silo], tuple(own)) for silo, own in counts.items()}
    return row_of(Inspected(label, None, cells).trained, label=True)


def largest(table: TableOne, redaction: Redaction) -> str:
    """The three largest differences, one a column, in one sentence; empty where nothing can be compared.

    At a real silo without values: the SMD alone, to one decimal.
    """
    found = []
    for row in sorted(table.rows, key=lambda row: -row.furthest[0])[:3]:
        smd, site = row.furthest
        if site and redaction.private:
            what = site.what if site.what in ("median", "missing") else "shares"
            found.append(f"{quoted(row.column)}: {what} (SMD {smd:.1f})")
        elif site:
            found.append(f"{quoted(row.column)} {redaction.at(site.silo)}: {compared(site)} (SMD {smd:.2g})")
    return f"{SENTENCE}: {'; '.join(found)}" if found else ""


def cells_of(row: Row, silos: Sequence[SiloName]) -> list[str]:
    """A row as text: what it holds at each of these silos, empty for the public set, and the largest SMD."""
    found = dict.fromkeys(silos, "")
    for site in (site for site in row.sites if site.silo in found):
        missing = f"{site.missing / site.records:.0%} missing" if site.missing else ""
        shown = ", ".join(filter(None, (site.shown, missing)))
        found[site.silo] = f"{'! ' if site.marked else ''}{shown}{f' (n {site.records:,})' if row.label else ''}"
    smd, furthest = row.furthest
    return [*found.values(), f"{smd:.2g} ({furthest.silo or 'public'})" if furthest else ""]


def caption(table: TableOne) -> str:
    """The table's title."""
    columns = sum(row.column != LABELS_FIT for row in table.rows)
    return f"Table 1 by site ({count(columns, 'column')}): {SENTENCE}"


def _of_numbers(numbers: Sequence[Floats], quartiles: Floats, trained: _Mask) -> Iterator[dict[str, Any]]:
    """For each table, the standardized difference between its mean of a column and the mean of all others, pooled.

    ``numbers`` are the sorted numbers of each table, ``quartiles`` ``(tables, 3)`` theirs.
    """
    # Around a number of the column, so that equal numbers differ by nothing.
    center = next((own[len(own) // 2] for own in numbers if len(own)), 0.0)
    # An SMD has no unit: by a power of two, which loses no digit, squares neither overflow nor vanish.
    scale = 2.0 ** (np.frexp(max((np.abs(own[[0, -1]]).max() for own in numbers if len(own)), default=0.0))[1] - 1)
    scaled = [own / scale - center / scale if len(own) else np.zeros(1) for own in numbers]
    n, mean, variance = np.array([(len(own), own.mean(), own.var()) for own in scaled]).T
    for at, others in _others([*map(len, numbers)], trained):
        if not len(others):
            yield {}
            continue
        weights = n[others] / n[others].sum()
        pooled = weights @ mean[others]
        spread = weights @ (variance[others] + (mean[others] - pooled) ** 2)
        smd = _standardized(mean[at] - pooled, (variance[at] + spread) / 2)
        (first, here, third), (low, middle, high) = quartiles[at], quartiles[others].T
        apart = first > high.max() or third < low.min()
        yield _difference(smd, "median", here, middle, low.min() <= here <= high.max(), apart)


def _of_shares(names: Sequence[str], counts: Ints, sizes: Sequence[int], trained: _Mask) -> Iterator[dict[str, Any]]:
    """For each table the value whose share differs most from that in all others. ``counts``: ``(tables, names)``."""
    of = np.array(sizes)
    shares = counts / np.maximum(of, 1)[:, None]
    for at, others in _others(sizes, trained):
        if not len(others) or not names:
            yield {}
            continue
        pooled = counts[others].sum(axis=0) / of[others].sum()
        smds = [_standardized(p - q, (p * (1 - p) + q * (1 - q)) / 2) for p, q in zip(shares[at], pooled, strict=True)]
        most = int(np.abs(smds).argmax())
        here, there = shares[at, most], shares[others, most]
        yield _difference(smds[most], names[most], here, there, there.min() <= here <= there.max())


def _others(sizes: Sequence[int], trained: _Mask) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Each table with the ``trained`` ones that it is compared with; with none if it has fewer than 20 values."""
    enough = np.flatnonzero((np.asarray(sizes) >= FEWEST) & trained)
    for at, size in enumerate(sizes):
        yield at, enough[enough != at] if size >= FEWEST else enough[:0]


def _difference(smd: float, what: str, here: float, there: Floats, inside: bool, apart: bool = False) -> dict[str, Any]:
    """The fields of a ``SiteCell`` on its value that differs most, with the range of it at the other tables.

    ``inside``: the others cover ``here`` already, so no SMD marks the cell. ``apart``: its middle half marks it.
    """
    span, marked = (float(there.min()), float(there.max())), bool(apart or (abs(smd) > 1 and not inside))
    return {"smd": smd, "what": what, "here": float(here), "there": span, "marked": marked}


def _standardized(difference: float, variance: float) -> float:
    found = difference / np.sqrt(variance) if variance > 0 else np.sign(difference) * 99.9
    return float(np.clip(found, -99.9, 99.9))


def compared(site: SiteCell) -> str:
    """The value here and elsewhere, such as "m 80%, elsewhere 40% to 50%"."""
    shown = _figure if site.what == "median" else "{:.0%}".format
    here, low, high = map(shown, (site.here, *site.there))
    return f"{site.what} {here}, elsewhere {low if low == high else f'{low} to {high}'}"


def _figure(number: float) -> str:
    """Four digits, or all before the point from 1,000 on; with an exponent only where these would be many."""
    return f"{number:,.0f}" if 1e3 <= abs(number) < 1e12 else f"{number:.4g}"


def _is_whole(word: str) -> bool:
    return word.removeprefix("-").isdecimal()
