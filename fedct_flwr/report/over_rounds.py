"""Lines over the rounds: one for each silo, or where there are many a band; for several runs one of each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.report.figure import COLORS, DASHES, MUTED, SYMBOLS, Figure, Table, layout, numbers, plain, tinted
from fedct_flwr.report.round_log import Course
from fedct_flwr.report.summary import Run
from fedct_flwr.report.words import sentence

MOST_POINTS: Final = 200
"""Of more rounds some are shown: nobody sees more in a figure, and a page shall stay small."""
MOST_LINES: Final = 8
"""More silos than that are a band."""
_MARKED: Final = 30
_TICKS: Final = 12

Values: TypeAlias = NDArray[np.float64]
OfSilos: TypeAlias = Callable[[Course], Values]
"""A column of the round log, ``(rounds, silos)``; or ``(rounds,)`` for one line for each run."""


@dataclass(frozen=True)
class Scale:
    """How numbers are said: on the axis (d3's format) and in words (Python's)."""

    axis: str
    tick: str
    words: str

    def __call__(self, value: float) -> str:
        """In words, with a dash for what is not known."""
        return "–" if np.isnan(value) else self.words.format(value)


def said(
    runs: Sequence[Run], told: Sequence[Run], words: Callable[[Course], str], what: str, brief: Callable[[Course], str]
) -> str:
    """What a figure says: a sentence on one run, or on several ``what`` it is with each run's value, in ``brief``."""
    if len(runs) == 1:
        return sentence(words(told[0].course)) if told else ""
    return sentence(f"{what}: " + ", ".join(f"{run.label} {brief(run.course)}" for run in told))


def kept(course: Course) -> NDArray[np.intp]:
    """Positions of the rounds that are shown: evenly spaced, with the first, the last and the fixed point."""
    size = len(course)
    shown = np.linspace(0, size - 1, min(size, MOST_POINTS)).round().astype(np.intp)
    return np.union1d(shown, np.flatnonzero(course.number == (course.fixed_point or 0)))


def figure(
    ident: str,
    title: str,
    message: str,
    runs: Sequence[Run],
    of: OfSilos,
    scale: Scale,
    *,
    levels: Sequence[tuple[str, float]] = (),
    note: str = "",
    fixed_points: bool = False,
    y: dict[str, Any] | None = None,
) -> Figure | None:
    """A figure over the rounds of these runs; None where nothing of it is known. ``levels`` are named dashed lines."""
    shown = [(run, kept(run.course)) for run in runs if np.isfinite(of(run.course)).any()]
    if not shown:
        return None
    if len(runs) == 1:
        traces, table = _of_one(*shown[0], of, scale)
    else:
        traces, table = _of_several(shown, runs, of, scale)
    last = max(int(run.course.number[-1]) for run, _ in shown)
    traces += [_level(name, value, last, scale, number) for number, (name, value) in enumerate(levels)]
    ticks = {"dtick": 1} if last <= _TICKS else {}
    some = "" if all(len(at) == len(run.course) for run, at in shown) else f"Of many rounds, {MOST_POINTS} are shown."
    return Figure(
        ident,
        title,
        message,
        traces,
        layout(
            x={"title": {"text": "Round"}, "tickformat": "d", "range": [0.8, last + 0.2 + last * 0.01], **ticks},
            y={"title": {"text": scale.axis}, "tickformat": scale.tick, **(y or {})},
            showlegend=len(traces) > 1,
            **(_fixed_points(runs) if fixed_points else {}),
        ),
        table,
        " ".join(filter(None, (note, some))),
    )


def _of_one(run: Run, at: NDArray[np.intp], of: OfSilos, scale: Scale) -> tuple[list[dict[str, Any]], Table]:
    values, rounds = of(run.course)[at], run.course.number[at]
    names: Sequence[str]
    if values.ndim == 1:
        names, columns = [scale.axis], values[:, None]
        # No silo's color, as it is no silo's line.
        traces = [_line(run.label, rounds, values, 0, scale, MUTED)]
    elif values.shape[1] <= MOST_LINES:
        names, columns = run.course.silos, values
        traces = [_line(name, rounds, values[:, n], n, scale) for n, name in enumerate(names)]
    else:
        names, columns = ("mean", "lowest", "10%", "90%", "highest"), spread(values)
        traces = [*_band(rounds, columns, 0, named=True), _line("mean of silos", rounds, columns[:, 0], 0, scale)]
        edge = {"mode": "lines", "line": {"color": MUTED, "width": 1, "dash": "dot"}}
        for n, name, symbol in ((1, "lowest", "triangle-up"), (4, "highest", "triangle-down")):
            # Of one round there is no line.
            mark = {"mode": "markers", "marker": {"color": MUTED, "size": 7, "symbol": symbol}}
            traces.append({**_line(f"{name} silo", rounds, columns[:, n], 0, scale), **(edge if len(at) > 1 else mark)})
    rows = [[str(number), *map(scale, row)] for number, row in zip(rounds, columns, strict=True)]
    return traces, Table(["Round", *names], rows, words=0)


def _of_several(
    shown: Sequence[tuple[Run, NDArray[np.intp]]], runs: Sequence[Run], of: OfSilos, scale: Scale
) -> tuple[list[dict[str, Any]], Table]:
    traces: list[dict[str, Any]] = []
    told: dict[str, dict[int, str]] = {}
    for run, at in shown:
        values, rounds, place = of(run.course)[at], run.course.number[at], runs.index(run)
        if values.ndim > 1:
            columns = spread(values)
            traces += _band(rounds, columns, place, named=not any("fill" in trace for trace in traces))
            values = columns[:, 0]
        traces.append({**_line(run.label, rounds, values, place, scale), "legendgroup": run.label})
        told[run.label] = dict(zip(rounds.tolist(), map(scale, values), strict=True))
    every = sorted({number for column in told.values() for number in column})
    rows = [[str(number), *(column.get(number, "–") for column in told.values())] for number in every]
    return traces, Table(["Round", *told], rows, words=0)


def spread(values: Values) -> Values:
    """Over the silos of each round ``(rounds, silos)``: mean, lowest, 10%, 90% and highest, ``(rounds, 5)``."""
    found = np.full((len(values), 5), np.nan)
    some = np.isfinite(values).any(axis=1)
    if some.any():
        found[some, 0] = np.nanmean(values[some], axis=1)
        found[some, 1:] = np.nanquantile(values[some], [0.0, 0.1, 0.9, 1.0], axis=1).T
    return found


def _line(
    name: str, rounds: NDArray[np.int64], values: Values, place: int, scale: Scale, color: str = ""
) -> dict[str, Any]:
    color = color or COLORS[place % len(COLORS)]
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(rounds) <= _MARKED else "lines",
        "name": plain(name),
        "x": numbers(rounds),
        "y": numbers(values),
        "line": {"color": color, "width": 2, "dash": DASHES[place // len(COLORS) % len(DASHES)]},
        "marker": {"color": color, "size": 7, "symbol": SYMBOLS[place % len(SYMBOLS)]},
        "hovertemplate": f"%{{y:{scale.tick}}}",
    }


def _band(rounds: NDArray[np.int64], columns: Values, place: int, *, named: bool) -> list[dict[str, Any]]:
    if len(rounds) == 1:
        return []
    color = COLORS[place % len(COLORS)]
    edge = {"type": "scatter", "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "x": numbers(rounds)}
    fill = {"fill": "tonexty", "fillcolor": tinted(color, 0.18)}
    low = {**edge, "y": numbers(columns[:, 2]), "showlegend": False}
    high = {**edge, **fill, "y": numbers(columns[:, 3]), "name": "8 of 10 silos", "showlegend": named}
    return [low, high]


def _level(name: str, value: float, last: int, scale: Scale, place: int) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": plain(name),
        "x": [0.8, last + 0.2 + last * 0.01],
        "y": [value, value],
        "line": {"color": MUTED, "width": 1.5, "dash": DASHES[1 + place % 2]},
        "hovertemplate": f"%{{y:{scale.tick}}}",
    }


def _fixed_points(runs: Sequence[Run]) -> dict[str, Any]:
    """A dotted line where no label changed any more; of several runs in their colors."""
    shapes, words = [], []
    for place, run in enumerate(runs):
        at = run.course.fixed_point
        if at is None:
            continue
        color = COLORS[place % len(COLORS)] if len(runs) > 1 else MUTED
        line = {"color": color, "width": 1, "dash": "dot"}
        shapes.append({"type": "line", "yref": "paper", "x0": at, "x1": at, "y0": 0, "y1": 1, "line": line})
        place_of_word = {"x": at, "y": 0.99, "yref": "paper", "xanchor": "right", "yanchor": "top", "showarrow": False}
        words.append({**place_of_word, "text": "fixed point ", "font": {"color": MUTED, "size": 12}})
    return {"shapes": shapes, "annotations": words[:1]}
