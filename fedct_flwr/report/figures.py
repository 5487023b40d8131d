"""Tables, sections, and figures as Plotly's JSON; how numbers are said. Colors of paper and text are the page's."""

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedct_flwr.report.summary import RoundHistory
from fedct_flwr.text.printable import printable

COLORS: Final = (
    "#2f7fdb", "#d4680f", "#149568", "#c44a9c", "#8b66d9", "#a37b0c", "#0c8fa3", "#d64a44", "#71829a", "#9a6f52",
)  # fmt: skip
"""Of silos in their order; each is seen on white and on the dark page."""
MUTED: Final = "#7f8ea3"
UNKNOWN: Final = "–"
_DASHES: Final = ("dash", "dot", "dashdot", "longdash")
_MOST_LINES: Final = 8

Values: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class PageTable:
    """Cells are text. Columns after ``words`` are numbers; ``groups`` are headings, ``foot`` are rows that sum up."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1
    foot: Sequence[Sequence[str]] = ()
    groups: Sequence[tuple[str, int]] = ()


@dataclass(frozen=True)
class Figure:
    """``note`` is a sentence or two on the values; ``table`` has them as text."""

    id: str
    title: str
    note: str
    traces: Sequence[dict[str, Any]]
    layout: dict[str, Any]
    table: PageTable | None = None
    height: int = 330


@dataclass(frozen=True)
class Section:
    """All below one heading. ``notes`` are sentences for facts that cannot be drawn."""

    id: str
    title: str
    figures: Sequence[Figure] = ()
    tables: Sequence[tuple[str, PageTable]] = ()
    notes: Sequence[str] = ()


def formatted(value: float, form: str = ".3f") -> str:
    """A number by Python's format specification, as a score without one; with a dash for an unknown one."""
    return UNKNOWN if np.isnan(value) else f"{value:{form}}"


def size(value: float) -> str:
    """Bytes, in the unit that leaves three digits or so.

    >>> size(605), size(25_000), size(1_650_000)
    ('605 bytes', '25.0 kB', '1.65 MB')
    """
    if np.isnan(value):
        return UNKNOWN
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if value >= unit:
            return f"{value / unit:.2f} {name}"
    return f"{value / 1e3:.1f} kB" if value >= 10_000 else f"{value:,.0f} bytes"


def numbers(values: ArrayLike) -> list[Any]:
    """Numbers for a trace, with None for NaN; six digits are more than a figure shows."""
    array = np.asarray(values, dtype=np.float64)
    return [None if np.isnan(value) else float(f"{value:.6g}") for value in array]


def plain(name: str) -> str:
    """A name as Plotly shows it: unescaped, it would read some HTML."""
    return html.escape(printable(name), quote=False)


def layout(x_title: str, y_title: str, x: dict[str, Any], y: dict[str, Any], **other: Any) -> dict[str, Any]:
    """The layout of a figure, with what is particular about its axes ``x`` and ``y``."""
    legend = {"orientation": "h", "x": 0, "y": 1.02, "xanchor": "left", "yanchor": "bottom", "traceorder": "normal"}
    margin = {"l": 64, "r": 16, "t": 8, "b": 48}
    axes = {
        axis: {"automargin": True, "title": {"text": plain(title)}, **own}
        for axis, title, own in (("xaxis", x_title, x), ("yaxis", y_title, y))
    }
    return {"margin": margin, "hovermode": "closest", "legend": legend, **axes, **other}


def line(name: str, x: ArrayLike, y: ArrayLike, place: int, **look: Any) -> dict[str, Any]:
    """The trace of a silo or another part at this ``place``, which gives it its color."""
    color = COLORS[place % len(COLORS)]
    return {
        "type": "scatter", "mode": "lines+markers", "name": plain(name), "x": numbers(x), "y": numbers(y),
        "line": {"color": color, "width": 2}, "marker": {"color": color, "size": 7}, **look,
    }  # fmt: skip


def levels_at(
    levels: Iterable[tuple[str, float]], x: Sequence[Any] = (), y: Sequence[Any] = ()
) -> list[dict[str, Any]]:
    """Named dashed lines, each at a value: over the span ``x``, or up the span ``y``."""
    return [
        {
            "type": "scatter", "mode": "lines", "name": plain(name), "x": x or [value, value], "y": y or [value, value],
            "line": {"color": MUTED, "width": 1.5, "dash": _DASHES[place % len(_DASHES)]},
        }
        for place, (name, value) in enumerate(levels)
    ]  # fmt: skip


def over_rounds(
    ident: str,
    title: str,
    course: RoundHistory,
    values: Values,
    form: str,
    note: str,
    levels: Sequence[tuple[str, float]] = (),
) -> Iterable[Figure]:
    """A line over the rounds for each silo, or for mean and spread of many; nothing where no value is known.

    ``values`` are a column of the round log, ``(rounds, silos)``, or ``(rounds,)`` for one line. ``levels`` are named
    dashed lines.
    """
    if not np.isfinite(values).any():
        return
    names: Sequence[str] = course.silos
    if values.ndim == 1:
        names, values = ["global model"], values[:, None]
    elif len(names) > _MOST_LINES:
        names, values = ("mean of silos", "10% quantile", "90% quantile"), np.array([_spread(row) for row in values])
    span = [0.8, 1.01 * int(course.number[-1]) + 0.2]
    traces = [line(name, course.number, values[:, place], place) for place, name in enumerate(names)]
    axes = layout("Round", "", {"tickformat": "d", "range": span}, {"tickformat": form}, hovermode="x unified")
    rows = [
        [str(number), *(formatted(v, form) for v in row)] for number, row in zip(course.number, values, strict=True)
    ]
    table = PageTable(["Round", *names], rows, words=0)
    yield Figure(ident, title, note, [*traces, *levels_at(levels, x=span)], axes, table)


def _spread(row: Values) -> list[float]:
    """Mean, 10% and 90% quantile of the known values."""
    known = row[np.isfinite(row)]
    return [known.mean(), *np.quantile(known, [0.1, 0.9])] if known.size else [np.nan] * 3
