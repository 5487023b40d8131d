"""Pictures beside the results. Need Matplotlib, the extra ``plot``; the same content gives the same file."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from benchmarks.report import RESULTS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from benchmarks.prediction_consensus import Matrix


def figure(width: float, height: float) -> "Figure":
    """An empty one, in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save(drawn: "Figure", name: str) -> str:
    """Write ``results/NAME.svg`` and return the line of Markdown that shows it. A fast run's goes to ``NAME-fast``."""
    from matplotlib import rc_context

    name += "-fast" if "--fast" in sys.argv else ""
    RESULTS.mkdir(exist_ok=True)
    with rc_context({"svg.hashsalt": "fedct", "svg.fonttype": "none"}):
        drawn.savefig(RESULTS / f"{name}.svg", metadata={"Date": None})
    return f"\n![{name}]({name}.svg)\n"


def trust_matrices(name: str, matrices: Mapping[str, "Matrix"]) -> str:
    """Whom each silo trusts, a square for each two; the diagonal too. Returns what ``save`` does."""
    drawn = figure(4.2 * len(matrices), 4)
    for axes, (title, matrix) in zip(drawn.subplots(1, len(matrices), squeeze=False)[0], matrices.items(), strict=True):
        image = axes.imshow(matrix.rows, cmap="viridis", vmin=0)
        names = [silo.removeprefix("silo-") for silo in matrix.silos]
        axes.set_xticks(range(len(names)), names)
        axes.set_yticks(range(len(names)), names)
        axes.set_xlabel("trusted silo")
        axes.set_ylabel("silo that trusts")
        axes.set_title(title, fontsize="medium")
        drawn.colorbar(image, ax=axes, shrink=0.8)
    return save(drawn, name)
