"""One line for each figure and claim of the papers: theirs, ours, whether they agree, the command, and its commit."""

import math
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks import report
from benchmarks.__main__ import TABLES, table
from benchmarks.harness import Asked, Table, Words

_NEAR: Final = 0.02
"""Figures that differ by less agree; larger ones, such as epsilons, in proportion."""
_NUMBER: Final = re.compile(r"([+-]?[\d.,]*\d)(?: ± ([\d.]+))?")
_FOOT: Final = re.compile(r"Measured by `([^`]*)` in (\d+) s.*?(?:commit ([0-9a-f]{7,}(?:-dirty)?))?\)\.")


class Number(NamedTuple):
    """A figure as it is written, its value, and its standard error, which may be unknown: 0."""

    text: str
    value: float
    error: float

    def __str__(self) -> str:
        return self.text


class Result(NamedTuple):
    """A committed file: its cells by row and column, the commit that it names, and the seconds that it took."""

    cells: dict[tuple[str, str], str]
    commit: str
    seconds: int

    def number(self, row: str, column: str) -> Number | None:
        """The figure of a cell; None where there is none."""
        return _number(self.cells.get((row, column), ""))


def _number(text: str) -> Number | None:
    found = _NUMBER.match(text)
    return Number(found[0], float(found[1].replace(",", "")), float(found[2] or 0)) if found else None


def read(path: Path) -> Result:
    """Read a file of results; rows are known by their first cell, by their first two, and after their heading."""
    text = path.read_text("utf-8")
    cells: dict[tuple[str, str], str] = {}
    header: list[str] = []
    section = ""
    for line in text.splitlines():
        if not line.startswith("|"):
            header, section = [], line.removeprefix("## ") if line.startswith("## ") else section
        elif not header:
            header = _cells(line)
        else:
            values = _cells(line)
            rows = (values[0], ", ".join(values[:2]))
            for row in (*rows, *(f"{section}: {row}" for row in rows)):
                for title, value in zip(header, values, strict=True):
                    cells.setdefault((row, title), value)
    foot = _FOOT.search(text)
    return Result(cells, (foot[3] if foot else "") or "–", int(foot[2]) if foot else 0)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def run(asked: Asked) -> None:
    """Every figure and claim of the papers next to ours, from the committed results; takes seconds."""
    lines = [*_declared()]
    agree = [line[4] for line in lines]
    spent = [found.seconds for path in sorted(report.RESULTS.glob("*.md")) if (found := read(path)).seconds]
    told = [line for line in agree if line in ("yes", "no")]
    text = (
        f"# The papers' figures and ours\n\nWritten by `python -m benchmarks papers --commit` from the committed "
        f"results. {agree.count('yes')} of {len(told)} agree: figures within {_NEAR:g} (of more than 1: within 2%) or "
        "within two standard errors of both; claims in words if the first is above the second by more than their "
        "errors, and level if neither is. Figures of other data sets than the paper's cannot be compared. FedCT: "
        "Abourayya et al., arXiv:2310.05696. FedKT: Li, He, Song, IJCAI 2021. Prediction consensus: Fan, "
        "Mendler-Dünner, Jaggi, NeurIPS 2023. FedMD: Li, Wang, arXiv:1910.03581. [Remarks](README.md) say why "
        f"figures differ. The {len(spent)} files of results took {sum(spent) / 3600:.1f} hours together, by the "
        "seconds that they name.\n\n"
        + report.table(["paper", "what", "paper's", "ours", "agrees", "command", "commit"], lines)
    )
    report.values_path(asked.name).with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)


def _declared() -> Iterator[list[str]]:
    for names in TABLES.values():
        for name in names:
            declared = table(name)
            assert declared is not None
            if declared.paper:
                yield from _figures(name, declared)
                yield from (_words(name, declared, words) for words in declared.words)


def _figures(name: str, declared: Table) -> Iterator[list[str]]:
    each = declared.grids[0].each
    titles = [row.name for row in declared.rows]
    for row in declared.rows:
        for column, figure in row.paper.items():
            place = (column, declared.grids[0].columns[0].title) if column in each else (row.name, column)
            others = declared.other_data and (row.name == declared.other_data or declared.other_data not in titles)
            yield _line(name, declared.paper, *place, figure, declared.other_data if others else "")


def _line(name: str, paper: str, row: str, column: str, figure: str, other_data: str) -> list[str]:
    found = _result(name)
    ours, theirs = found.number(row, column), _number(figure)
    assert theirs is not None
    agrees = _agrees(ours, theirs, other_data)
    return [paper, f"{row}: {column}", figure, str(ours or "–"), agrees, *_source(name, found)]


def _agrees(ours: Number | None, theirs: Number, other_data: str) -> str:
    if ours is None:
        return "not measured"
    if other_data:
        return f"other data ({other_data})"
    error = 2 * math.hypot(ours.error, theirs.error)
    return "yes" if abs(ours.value - theirs.value) <= max(_NEAR * max(1, abs(theirs.value)), error) else "no"


def _words(name: str, declared: Table, words: Words) -> list[str]:
    found = _result(name)
    more, less = found.number(*words.more), found.number(*words.less)
    if more is None or less is None:
        return [declared.paper, words.says, "in words", "–", "not measured", *_source(name, found)]
    apart, error = more.value - less.value, math.hypot(more.error, less.error)
    agrees = "yes" if apart > error else "no" if apart < -error else "level"
    return [declared.paper, words.says, "in words", f"{more}, {less}", agrees, *_source(name, found)]


def _source(name: str, found: Result) -> list[str]:
    return [f"[`python -m benchmarks {name}`]({name}.md)", found.commit]


@cache
def _result(name: str) -> Result:
    path = report.RESULTS / f"{name}.md"
    return read(path) if path.exists() else Result({}, "–", 0)
