"""Whom each silo trusts, as a heatmap."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from fedct_flwr.report.figure import COLORS, Figure, Section, Table, layout, numbers, plain
from fedct_flwr.report.summary import Run, Trust
from fedct_flwr.types import SiloName

_MOST_CELLS: Final = 12
"""More silos than that have no numbers in the cells."""
_MOST_NAMES: Final = 40
"""More silos than that have no names beside the cells."""
_UNNAMED: Final = 620
_LEAST, _MOST = "#e6effa", COLORS[0]
"""Opaque: for what one can look through, Plotly takes the numbers' color without regard to the page behind."""


def trust(runs: Sequence[Run]) -> Section:
    """The last trust matrix of each run that has one; in a sentence where all silos trust all the same."""
    figures, notes = [], []
    for place, run in enumerate(runs):
        whose = f" ({run.label})" if len(runs) > 1 else ""
        if run.trust and run.trust.same:
            notes.append(f"After round {run.trust.round} each silo trusts all silos the same, itself too{whose}.")
        elif run.trust:
            figures.append(_heatmap(_in_order(run.trust, run.course.silos), place, whose))
    return Section("trust", "Trust", figures, notes=notes)


def _in_order(found: Trust, silos: Sequence[SiloName]) -> Trust:
    """As silos stand in all other figures: the coordinator has them by name, silo-10 before silo-2."""
    order = {silo: place for place, silo in enumerate(silos)}
    places = sorted(range(len(found.silos)), key=lambda place: order.get(found.silos[place], len(order)))
    return Trust(found.round, tuple(found.silos[place] for place in places), found.matrix[np.ix_(places, places)])


def _heatmap(found: Trust, place: int, whose: str) -> Figure:
    few, named = len(found.silos) <= _MOST_CELLS, len(found.silos) <= _MOST_NAMES
    names = [plain(silo) for silo in found.silos]
    others = found.matrix - np.diag(np.diag(found.matrix))
    trusted = others.sum(axis=0) / max(len(found.silos) - 1, 1)
    most, least = found.silos[int(trusted.argmax())], found.silos[int(trusted.argmin())]
    cells = {"texttemplate": "%{z:.2f}"} if few else {}
    if few:
        table = Table(
            ["Silo trusts", *found.silos],
            [[s, *(f"{v:.3f}" for v in row)] for s, row in zip(found.silos, found.matrix, strict=True)],
        )
    else:
        rows = [
            [s, f"{own:.3f}", f"{by:.4f}"]
            for s, own, by in zip(found.silos, np.diag(found.matrix), trusted, strict=True)
        ]
        table = Table(["Silo", "trusts itself", "trusted by others, mean"], rows)
    side = {"showticklabels": named, "ticks": "", "showgrid": False, "type": "category", "rangemode": "normal"}
    return Figure(
        f"trust-{place}",
        f"Whom each silo trusts{whose}",
        f"After round {found.round}, {most} is trusted most by the others and {least} least.",
        [
            {
                "type": "heatmap", "x": names, "y": names, "z": numbers(found.matrix), "xgap": 2 if few else 0,
                "ygap": 2 if few else 0, "colorscale": [[0, _LEAST], [1, _MOST]],
                "colorbar": {"thickness": 12, "outlinewidth": 0}, **cells,
                "hovertemplate": "%{y} trusts %{x}: %{z:.3f}<extra></extra>",
            }
        ],
        layout(
            x={**side, "title": {"text": "… this silo"}},
            y={**side, "title": {"text": "How much does …"}, "autorange": "reversed", "dtick": 1},
            hovermode="closest",
        ),
        table,
        "Rows sum to 1.",
        height=_height(len(names)),
    )  # fmt: skip


def _height(num_silos: int) -> int:
    if num_silos > _MOST_NAMES:
        return _UNNAMED
    return max(120 + (34 if num_silos <= _MOST_CELLS else 24) * num_silos, 260)
