"""A figure as Plotly's JSON, with what it says in words and as a table. Colors of paper and text are the page's."""

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

COLORS: Final = (
    "#2f7fdb", "#d4680f", "#149568", "#c44a9c", "#8b66d9", "#a37b0c", "#0c8fa3", "#d64a44", "#71829a", "#9a6f52",
)  # fmt: skip
"""Of silos in their order, or of runs in theirs; each is seen on white and on the dark page."""
SYMBOLS: Final = ("circle", "square", "diamond", "triangle-up", "cross", "triangle-down", "star", "pentagon")
DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash")
MUTED: Final = "#7f8ea3"
_FEW: Final = 20


@dataclass(frozen=True)
class Table:
    """Cells are text. Columns after the first ``words`` are numbers, which stand below each other.

    ``groups`` are headings over so many columns each, ``foot`` are rows that sum up.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1
    foot: Sequence[Sequence[str]] = ()
    groups: Sequence[tuple[str, int]] = ()


@dataclass(frozen=True)
class Figure:
    """``message`` is a sentence that says what is to be seen, ``note`` where the numbers come from."""

    id: str
    title: str
    message: str
    traces: Sequence[dict[str, Any]]
    layout: dict[str, Any]
    table: Table
    note: str = ""
    height: int = 330

    @property
    def plot(self) -> dict[str, Any]:
        """What Plotly is given."""
        return {"data": list(self.traces), "layout": self.layout}


@dataclass(frozen=True)
class Section:
    """What stands below one heading. ``notes`` are sentences for what cannot be drawn."""

    id: str
    title: str
    figures: Sequence[Figure] = ()
    tables: Sequence[tuple[str, Table]] = ()
    notes: Sequence[str] = ()

    @property
    def empty(self) -> bool:
        """Whether there is nothing to say."""
        return not (self.figures or self.tables or self.notes)


def numbers(values: ArrayLike) -> Any:
    """Numbers for a trace: a list where few, else Plotly's typed array, which is a third of the text."""
    array = np.asarray(values)
    if array.size < _FEW:
        known = array.astype(object)
        known[np.isnan(array)] = None
        return known.tolist()
    kind = "i4" if np.issubdtype(array.dtype, np.integer) else "f4"
    data = base64.b64encode(np.ascontiguousarray(array, dtype=f"<{kind}").tobytes()).decode()
    shape = {"shape": ", ".join(map(str, array.shape))} if array.ndim > 1 else {}
    return {"dtype": kind, "bdata": data, **shape}


def plain(name: str) -> str:
    """A name as Plotly shows it: unescaped, it would read some HTML."""
    return html.escape(name, quote=False)


def tinted(color: str, opacity: float) -> str:
    """A color of the palette, as one can look through it."""
    red, green, blue = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"


def layout(*, x: dict[str, Any], y: dict[str, Any], **other: Any) -> dict[str, Any]:
    """What all figures have in common."""
    return {
        "margin": {"l": 64, "r": 16, "t": 8, "b": 48},
        "hovermode": "x unified",
        "legend": {
            "orientation": "h",
            "x": 0,
            "y": 1.02,
            "xanchor": "left",
            "yanchor": "bottom",
            "traceorder": "normal",
        },
        "xaxis": {"automargin": True, **x},
        "yaxis": {"automargin": True, "rangemode": "tozero", **y},
        **other,
    }
