"""Label quality over epsilon as a picture. Needs Matplotlib."""

import importlib.util
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fedct_flwr.types import ConfigError, RunError

if TYPE_CHECKING:
    from fedct_flwr.privacy.planner import Estimate, Plan

FORMATS: Final = (".svg", ".png", ".pdf")


def check(path: Path) -> None:
    """Raise ConfigError, before anything is computed, where no picture could be written."""
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(f"--plot {path}: end the file's name in {', '.join(FORMATS)}")
    if os.path.lexists(path):
        raise ConfigError(f"--plot {path}: the file exists: choose another one, or take it away")
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"--plot {path}: there is no folder {path.absolute().parent}")
    if importlib.util.find_spec("matplotlib") is None:
        raise ConfigError("--plot needs Matplotlib: pip install 'fedct-flwr[plot]'")


def draw(path: Path, plan: "Plan", found: "Mapping[float, Sequence[Estimate]]") -> None:
    """Write the consensus' accuracy by mechanism over epsilon. Raises RunError where it cannot be written.

    The same content gives the same file.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    finite = sorted(epsilon for epsilon in found if epsilon != float("inf"))
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for position, estimate in enumerate(found[finite[0]]):
        axes.plot(
            finite,
            [found[epsilon][position].consensus for epsilon in finite],
            marker="o",
            linestyle="--" if estimate.mechanism == "no protection" else "-",
            label=estimate.mechanism,
        )
    axes.axhline(plan.accuracy, color="black", linewidth=1, label="a silo's own model")
    axes.axhline(plan.guess, color="gray", linewidth=1, linestyle=":", label="guessing")
    axes.set_xscale("log")
    axes.set_xticks(finite, [f"{epsilon:g}" for epsilon in finite])
    axes.minorticks_off()
    axes.set_ylim(0, 1)
    axes.set_xlabel(f"epsilon in total per record, at delta {plan.delta:g}")
    axes.set_ylabel("accuracy of the consensus")
    axes.set_title(
        f"{plan.num_silos} silos, {plan.num_records:,} records each, {plan.labels:,} labels asked of each\n"
        "an estimate on stand-in data, not a promise",
        fontsize="medium",
    )
    axes.legend(fontsize="small", ncols=2)
    try:
        with rc_context({"svg.hashsalt": "fedct"}):
            figure.savefig(path, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
    except OSError as error:
        raise RunError(f"the plot could not be written to {path}: {error.strerror or error}") from None
