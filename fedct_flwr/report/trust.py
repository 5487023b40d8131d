"""Whom each silo trusts, as a heatmap."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from fedct_flwr.report.figure import COLORS, Figure, Section, Table, layout, numbers, plain
from fedct_flwr.report.summary import Run, Trust

_MOST_CELLS: Final = 12
"""More silos than that have no numbers in the cells."""
_LEAST, _MOST = "#e6effa", COLORS[0]
"""Opaque: for what one can look through, Plotly takes the numbers' color without regard to the page behind."""


def trust(runs: Sequence[Run]) -> Section:
    """The last trust matrix of each run that has one."""
    figures = [_heatmap(run, run.trust, place, len(runs)) for place, run in enumerate(runs) if run.trust]
    return Section("trust", "Trust", figures)


def _heatmap(run: Run, found: Trust, place: int, num_runs: int) -> Figure:
    few = len(found.silos) <= _MOST_CELLS
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
    whose = f" ({run.label})" if num_runs > 1 else ""
    side = {"showticklabels": few, "ticks": "", "showgrid": False, "type": "category", "rangemode": "normal"}
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
            y={**side, "title": {"text": "How much does …"}, "autorange": "reversed"},
            hovermode="closest",
        ),
        table,
        "Rows sum to 1.",
        height=int(np.clip(120 + 34 * len(names), 260, 620)),
    )  # fmt: skip
