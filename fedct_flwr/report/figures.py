"""Tables, sections, and figures as Plotly's JSON; how numbers are said. Colors of paper and text are the page's."""

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedct_flwr.report.summary import Course
from fedct_flwr.text.printable import printable

COLORS: Final = (
    "#2f7fdb", "#d4680f", "#149568", "#c44a9c", "#8b66d9", "#a37b0c", "#0c8fa3", "#d64a44", "#71829a", "#9a6f52",
)  # fmt: skip
"""Of silos in their order; each is seen on white and on the dark page."""
DASHES: Final = ("dash", "dot", "dashdot", "longdash")
"""Of lines that are no silo's."""
MUTED: Final = "#7f8ea3"
UNKNOWN: Final = "–"
_SYMBOLS: Final = ("circle", "square", "diamond", "triangle-up", "cross", "triangle-down", "star", "pentagon")
_MOST_LINES: Final = 8
"""More silos than that are a band."""
_MARKED: Final = 30
_TICKS: Final = 12

Values: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Table:
    """Cells are text. Columns after ``words`` are numbers; ``groups`` are headings, ``foot`` are rows that sum up."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1
    foot: Sequence[Sequence[str]] = ()
    groups: Sequence[tuple[str, int]] = ()


@dataclass(frozen=True)
class Figure:
    """``message`` is a sentence on the values, ``note`` says where they come from; ``table`` has them as text."""

    id: str
    title: str
    message: str
    traces: Sequence[dict[str, Any]]
    layout: dict[str, Any]
    table: Table | None
    note: str = ""
    height: int = 330

    @property
    def plot(self) -> dict[str, Any]:
        """The figure in Plotly's form."""
        return {"data": list(self.traces), "layout": self.layout}


@dataclass(frozen=True)
class Section:
    """All below one heading. ``notes`` are sentences for facts that cannot be drawn."""

    id: str
    title: str
    figures: Sequence[Figure] = ()
    tables: Sequence[tuple[str, Table]] = ()
    notes: Sequence[str] = ()

    @property
    def empty(self) -> bool:
        """Whether there is nothing to say."""
        return not (self.figures or self.tables or self.notes)


@dataclass(frozen=True)
class Scale:
    """How numbers are said: on the axis (d3's format) and in words (Python's)."""

    axis: str
    tick: str
    words: str

    def __call__(self, value: float) -> str:
        """In words, with a dash for an unknown value."""
        return formatted(value, self.words)


def formatted(value: float, form: str) -> str:
    """A number by Python's format specification, with a dash for an unknown one."""
    return UNKNOWN if np.isnan(value) else f"{value:{form}}"


def score(value: float) -> str:
    """A balanced accuracy or R², as the table of a run has it."""
    return formatted(value, ".3f")


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


def mean(values: Values) -> float:
    """The mean of all known values; NaN without any.

    >>> mean(np.array([1.0, np.nan, 3.0])), mean(np.array([np.nan]))
    (2.0, nan)
    """
    there = values[np.isfinite(values)]
    return float(there.mean()) if there.size else float("nan")


def numbers(values: ArrayLike) -> list[Any]:
    """Numbers for a trace, with None for NaN; six digits are more than a figure shows."""
    array = np.asarray(values, dtype=np.float64)
    return [None if np.isnan(value) else float(f"{value:.6g}") for value in array]


def plain(name: str) -> str:
    """A name as Plotly shows it: unescaped, it would read some HTML."""
    return html.escape(printable(name), quote=False)


def layout(*, x: dict[str, Any], y: dict[str, Any], **other: Any) -> dict[str, Any]:
    """The layout that all figures share."""
    legend = {"orientation": "h", "x": 0, "y": 1.02, "xanchor": "left", "yanchor": "bottom", "traceorder": "normal"}
    return {
        "margin": {"l": 64, "r": 16, "t": 8, "b": 48},
        "hovermode": "x unified",
        "legend": legend,
        "xaxis": {"automargin": True, **x},
        "yaxis": {"automargin": True, "rangemode": "tozero", **y},
        **other,
    }


def levels_at(
    levels: Iterable[tuple[str, float]], x: Sequence[Any] = (), y: Sequence[Any] = ()
) -> list[dict[str, Any]]:
    """Named dashed lines, each at a value: over the span ``x``, or up the span ``y``."""
    return [
        {
            "type": "scatter", "mode": "lines", "name": plain(name), "x": x or [value, value], "y": y or [value, value],
            "line": {"color": MUTED, "width": 1.5, "dash": DASHES[place % len(DASHES)]},
        }
        for place, (name, value) in enumerate(levels)
    ]  # fmt: skip


def over_rounds(
    ident: str,
    title: str,
    what: str,
    course: Course,
    values: Values,
    scale: Scale,
    *,
    levels: Sequence[tuple[str, float]] = (),
    note: str = "",
    y: dict[str, Any] | None = None,
) -> Figure | None:
    """Lines over the rounds: one for each silo, or a band of many.

    ``values`` are a column of the round log, ``(rounds, silos)``, or ``(rounds,)`` for one line. ``what`` it is begins
    the message. ``levels`` are named dashed lines. None where no value is known.
    """
    if not np.isfinite(values).any():
        return None
    traces, table = _lines(course, values, scale)
    last = int(course.number[-1])
    span = [0.8, last + 0.2 + last * 0.01]
    traces += levels_at(levels, x=span)
    for trace in traces:
        trace["hovertemplate"] = f"%{{y:{scale.tick}}}"
    x = {"title": {"text": "Round"}, "tickformat": "d", "range": span, **({"dtick": 1} if last <= _TICKS else {})}
    return Figure(
        ident,
        title,
        _message(what, course, values, scale),
        traces,
        layout(
            x=x,
            y={"title": {"text": scale.axis}, "tickformat": scale.tick, **(y or {})},
            showlegend=len(traces) > 1,
        ),
        table,
        note,
    )


def _message(what: str, course: Course, values: Values, scale: Scale) -> str:
    first, *others = np.flatnonzero(np.isfinite(values).reshape(len(values), -1).any(axis=1))
    at = others[-1] if others else first
    before = f", after {scale(mean(values[first : first + 1]))} in round {course.number[first]}" if others else ""
    fixed = f"; fixed point since round {course.fixed_point}" if course.fixed_point else ""
    return f"{what}: {scale(mean(values[at : at + 1]))} in round {course.number[at]}{before}{fixed}."


def _lines(course: Course, values: Values, scale: Scale) -> tuple[list[dict[str, Any]], Table]:
    names: Sequence[str]
    rounds = course.number
    if values.ndim == 1:
        names, columns = [scale.axis], values[:, None]
        traces = [_line(scale.axis, rounds, values, 0, MUTED)]
    elif values.shape[1] <= _MOST_LINES:
        names, columns = course.silos, values
        traces = [_line(name, rounds, values[:, n], n) for n, name in enumerate(names)]
    else:
        names, columns = ("mean", "10%", "90%"), _spread(values)
        edge = {"type": "scatter", "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "x": numbers(rounds)}
        fill = {"fill": "tonexty", "fillcolor": "rgba(47,127,219,0.18)", "name": "8 of 10 silos"}
        low = {**edge, "y": numbers(columns[:, 1]), "showlegend": False}
        traces = [
            low,
            {**edge, **fill, "y": numbers(columns[:, 2])},
            _line("mean of silos", rounds, columns[:, 0], 0),
        ]
    rows = [[str(number), *map(scale, row)] for number, row in zip(rounds, columns, strict=True)]
    return traces, Table(["Round", *names], rows, words=0)


def _spread(values: Values) -> Values:
    """Over the silos of each round ``(rounds, silos)``: mean, 10% and 90% quantile, ``(rounds, 3)``."""
    found = np.full((len(values), 3), np.nan)
    some = np.isfinite(values).any(axis=1)
    found[some, 0] = np.nanmean(values[some], axis=1)
    found[some, 1:] = np.nanquantile(values[some], [0.1, 0.9], axis=1).T
    return found


def _line(name: str, rounds: NDArray[np.int64], values: Values, place: int, color: str = "") -> dict[str, Any]:
    color = color or COLORS[place % len(COLORS)]
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(rounds) <= _MARKED else "lines",
        "name": plain(name),
        "x": numbers(rounds),
        "y": numbers(values),
        "line": {"color": color, "width": 2},
        "marker": {"color": color, "size": 7, "symbol": _SYMBOLS[place % len(_SYMBOLS)]},
    }
