"""A table as a declaration, and the one runner that measures it, goes on where it was stopped, and writes it."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import typer

from benchmarks import progress, report
from benchmarks.report import Runs
from fedct_flwr.datasets import LOADERS
from fedct_flwr.types import DataError

Settings: TypeAlias = dict[str, Any]
Method: TypeAlias = Callable[[Settings], Mapping[str, float]]
"""Measures by name, of one row with one seed: the settings are those of the table, of the row, and ``seed``."""
FULL, FAST, SMOKE = "full", "fast", "smoke"
_T = TypeVar("_T")


class Asked(NamedTuple):
    """What a command asks of an experiment: how large, how many seeds, and which rows (none: the experiment's own)."""

    name: str
    size: str = FULL
    number: int | None = None
    rows: tuple[str, ...] = ()
    jobs: int = 1
    """Processes that measure."""

    def of(self, full: _T, fast: _T, smoke: _T) -> _T:
        """The value for the size that is asked for."""
        return {FULL: full, FAST: fast, SMOKE: smoke}[self.size]

    def seeds(self, full: int) -> int:
        """Number of seeds: as the command says, else 2 for a first look and 1 to see that all works."""
        return self.number or self.of(full, min(full, 2), 1)

    def chosen(self, full: Sequence[str], fast: Sequence[str], smoke: Sequence[str]) -> Sequence[str]:
        """The rows that the command names, whole or by their first part, or those of its size.

        Raises BadParameter for one that is not there.
        """
        found: list[str] = []
        for asked in self.rows:
            fitting = [row for row in full if row == asked or row.startswith((f"{asked}, ", f"{asked}: "))]
            if not fitting:
                raise typer.BadParameter(f"no row {asked!r}: there are {'; '.join(full)}", param_hint="--row")
            found += fitting
        return found or self.of(full, fast or full, smoke or fast or full)


@dataclass(frozen=True)
class Row:
    """One line: settings next to the table's, methods (none: all), the paper's figures by column, its own ``seeds``."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    methods: Sequence[str] = ()
    paper: Mapping[str, str] = field(default_factory=dict)
    seeds: int = 0


class Column(NamedTuple):
    """``key``: of the values, ``METHOD: MEASURE``; ``form``: of their mean, or what makes the cell of all values.

    Without a form it is the mean with its standard error.
    """

    title: str
    key: str
    form: str | Callable[[Runs], str] = ""


@dataclass(frozen=True)
class Grid:
    """Columns of a Markdown table; with ``each``, a row has a line for each of these, which keys have as ``{}``."""

    head: str
    columns: Sequence[Column]
    each: Sequence[str] = ()


class Words(NamedTuple):
    """What a paper says in words: the cell ``more`` is above the cell ``less``, each a row and a column."""

    says: str
    more: tuple[str, str]
    less: tuple[str, str]


@dataclass(frozen=True)
class Table:
    """What is measured; ``paper`` names the paper's table, ``other_data`` that ours is of other data.

    ``fast`` and ``smoke`` replace settings of the table, ``fast_rows`` and ``smoke_rows`` its rows. ``after`` gives a
    last paragraph.
    """

    title: str
    about: str
    rows: Sequence[Row]
    methods: Mapping[str, Method]
    grids: Sequence[Grid]
    seeds: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    fast: Mapping[str, Any] = field(default_factory=dict)
    smoke: Mapping[str, Any] = field(default_factory=dict)
    fast_rows: Sequence[str] = ()
    smoke_rows: Sequence[str] = ()
    paper: str = ""
    other_data: str = ""
    words: Sequence[Words] = ()
    loaders: Mapping[str, Any] = field(default_factory=dict)
    after: Callable[[Mapping[str, Runs]], str] = lambda runs: ""


def by_method(methods: Sequence[str], measure: str = "accuracy", form: str = "") -> list[Column]:
    """A column of one measure for each method."""
    return [Column(method, f"{method}: {measure}", form) for method in methods]


COSTS: Final = {"bytes a silo sends in a round": "bytes_per_silo_and_round", "seconds": "seconds"}


def run(table: Table, asked: Asked) -> dict[str, Runs]:
    """Measure every row with every method for each seed, and write what was found; DataError where that is nothing."""
    LOADERS.update(table.loaders)
    names = [row.name for row in table.rows]
    rows = asked.chosen(names, table.fast_rows, table.smoke_rows)
    there = [row for row in table.rows if row.name in rows]
    if asked.jobs > 1:
        # Methods of one row and seed may share what they begin with: they stay in one process.
        pairs = [(row, seed) for row in there for seed in _seeds(table, row, asked)]
        progress.ahead(asked.jobs, [partial(_elsewhere, table, *pair, asked, dict(LOADERS)) for pair in pairs])
    runs = {row.name: measured(table, row, asked) for row in there}
    number = max((len(values) for found in runs.values() for values in found.values.values()), default=0)
    if not number:
        raise DataError(f"nothing to measure in {'; '.join(runs)}: name other rows with --row")
    seeds = f"{number} seed{'s' if number > 1 else ''}"
    shared = settings_of(table, asked)
    text = f"# {table.title.format(**shared)}, {seeds}\n\n{table.about.format(**shared)}\n"
    for number, grid in enumerate(table.grids):
        text += f"\n{shown}" if (shown := written(grid, there, runs, papers=number == 0)) else ""
    if any(row.paper for row in there):
        text += "\nMean ± standard error; in brackets the paper's figure.\n"
    # A part of the rows does not replace the table.
    name = re.sub(r"[^\w.-]+", "-", "-".join([asked.name, *asked.rows]))
    report.write(name, text + table.after(runs), runs, {**shared, "rows": {row.name: row.settings for row in there}})
    return runs


def settings_of(table: Table, asked: Asked) -> Settings:
    """The table's settings at the size that is asked for."""
    return {**table.settings, **(_smaller(table, asked) if table.settings else {})}


def _smaller(table: Table, asked: Asked) -> Settings:
    return asked.of({}, {**table.fast}, {**table.fast, **table.smoke})


def measured(table: Table, row: Row, asked: Asked) -> Runs:
    """Each method of a row, for each seed."""
    runs = Runs()
    for seed in _seeds(table, row, asked):
        for method, found in _measured(table, row, seed, asked).items():
            runs.add(**{f"{method}: {name}" if method else name: value for name, value in found.items()})
    return runs


def _seeds(table: Table, row: Row, asked: Asked) -> range:
    return range(asked.seeds(row.seeds or table.seeds))


def _measured(table: Table, row: Row, seed: int, asked: Asked) -> dict[str, dict[str, float]]:
    """The values of each method of a row with one seed."""
    smaller = _smaller(table, asked)
    # Sizes of rows give way too.
    settings = {**settings_of(table, asked), **row.settings}
    settings |= {key: value for key, value in smaller.items() if key in row.settings}
    given = {**settings, "seed": seed}
    return {
        method: progress.once(f"{row.name}, {method}, {given}", partial(_values, table.methods[method], given))
        for method in row.methods or table.methods
    }


def _elsewhere(table: Table, row: Row, seed: int, asked: Asked, loaders: Mapping[str, Any]) -> None:
    """The same in another process, which has this command's data sets."""
    LOADERS.update(loaders)
    _measured(table, row, seed, asked)


def _values(method: Method, settings: Settings) -> dict[str, float]:
    return dict(method(settings))


def written(grid: Grid, rows: Sequence[Row], runs: Mapping[str, Runs], *, papers: bool) -> str:
    """One Markdown table, with the paper's figures or without; empty lines and columns, or all of it, are left out."""
    lines = []
    for row in rows:
        for each in grid.each or ("",):
            keys = [column.key.format(each) for column in grid.columns]
            if any(not key or key in runs[row.name].values for key in keys):
                label = ", ".join(filter(None, (row.name if len(rows) > 1 or not each else "", each)))
                cells = [
                    _cell(runs[row.name], key, column, row.paper.get(each or column.title, "") if papers else "")
                    for key, column in zip(keys, grid.columns, strict=True)
                ]
                lines.append([label, *cells])
    kept = [n for n in range(len(grid.columns) + 1) if n == 0 or any(line[n] != "–" for line in lines)]
    header = [grid.head, *(column.title for column in grid.columns)]
    return report.table([header[n] for n in kept], [[line[n] for n in kept] for line in lines]) if lines else ""


def _cell(runs: Runs, key: str, column: Column, paper: str) -> str:
    if callable(column.form):
        shown = column.form(runs)
    elif key not in runs.values:
        shown = "–"
    else:
        shown = format(runs.mean(key), column.form) if column.form else report.cell(runs, key)
    return f"{shown} (paper {paper})" if paper else shown
