"""``python -m benchmarks NAME``: run an experiment and write its results; ``LIST`` tells which there are."""

import inspect
import logging
import shlex
import warnings
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final
from unittest import mock

import typer

from benchmarks import harness, progress, report
from benchmarks.harness import FAST, FULL, SMOKE, Asked, Table
from benchmarks.variants import VARIANTS
from fedct_flwr.datasets import LOADERS
from fedct_flwr.types import FedctError

EXPERIMENTS: Final[dict[str, str]] = {
    name.replace("_", "-"): f"{name}.run" for name in ("false_alarms", "gpu", "papers", "stacked")
}
"""Where the function of each is: only the one that is asked for is imported."""
TABLES: Final[dict[str, tuple[str, ...]]] = {
    "heart_disease": ("heart-disease",),
    "fedkt_tables": (
        "fedkt-table1", "fedkt-one-round", "fedkt-columns", "fedkt-rounds", "fedkt-speed",
        "fedkt-table3", "fedkt-table6", "fedkt-table7", "fedkt-table8", "fedkt-table9",
    ),
    "prediction_consensus": ("consensus-table1", "consensus-architectures", "consensus-communication", "fedmd"),
    "consensus_rules": ("consensus-rules",),
    "membership": ("membership",),
    "privacy": ("privacy",),
    "no_harm": ("no-harm",),
    "ablation": ("ablation",),
    "liars": ("liars",),
    "overhead": ("overhead",),
    "scale": ("scale",),
    "drawn": ("drawn",),
    "practices": ("practices",),
    "calibration": ("calibration",),
    "survival": ("survival",),
    "joint": ("joint",),
    "toys": ("consensus-toys",),
    "language": ("language",),
    "trees": ("fedct-trees", "fedct-mixed"),
    "experiments": (
        "fedct-fashion-mnist", "fedct-non-iid", "fedct-non-iid-rules", "fedct-communication", "fedct-public-shift",
        "fedct-public-size", "fedct-scale", "fedct-convergence", "weight-sharing", "pfnm",
    ),
}  # fmt: skip
"""Names of the tables that each module declares in its ``TABLES``."""
NAMES: Final = (*EXPERIMENTS, *(name for names in TABLES.values() for name in names))


def table(name: str) -> Table | None:
    """The declaration of this name."""
    for module, names in TABLES.items():
        if name in names:
            found: Table = import_module(f"benchmarks.{module}").TABLES[name]
            return found
    return None


def function(name: str) -> Callable[[Asked], Any]:
    """The experiment, to be called with what is asked of it."""
    if (declared := table(name)) is not None:
        return partial(harness.run, declared)
    module, _, attribute = EXPERIMENTS[name].partition(".")
    found: Callable[[Asked], Any] = getattr(import_module(f"benchmarks.{module}"), attribute)
    return found


def _about(name: str) -> str:
    declared = table(name)
    return (
        declared.title.format(**declared.settings)
        if declared
        else (inspect.getdoc(function(name)) or "").partition("\n")[0]
    )


def main(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(NAMES)}; LIST describes them.")],
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Number of seeds, from 0; default: the experiment's.")
    ] = None,
    fast: Annotated[bool, typer.Option("--fast", help="Two seeds, fewer rounds; for a first look.")] = False,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="One seed, smallest sizes: shows only that all works.")
    ] = False,
    row: Annotated[list[str] | None, typer.Option(help="This row alone; may be given several times.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes that measure, each with a share of the cores.")] = 1,
    out: Annotated[Path, typer.Option(help="The folder for results.")] = report.BUILD,
    commit: Annotated[bool, typer.Option("--commit", help="Write the results that are committed.")] = False,
) -> None:
    """Run an experiment. One that was stopped goes on from where it was when the same command is run again."""
    if name.upper() == "LIST":
        for known in NAMES:
            typer.echo(f"{known:<24}{_about(known)}")
        return
    if name not in NAMES:
        raise typer.BadParameter(f"no experiment {name!r}: there are {', '.join(NAMES)}", param_hint="NAME")
    if smoke and commit:
        raise typer.BadParameter("the smallest size is no result: leave out --smoke", param_hint="--commit")
    if row and name in EXPERIMENTS:
        raise typer.BadParameter(f"{name} has no rows", param_hint="--row")
    logging.getLogger("flwr").setLevel(logging.ERROR)
    size = SMOKE if smoke else FAST if fast else FULL
    options = [f"--{size}"] * (size != FULL) + ["--seeds", str(seeds)] * bool(seeds)
    for each in row or ():
        options += ["--row", each]
    command = shlex.join(["python", "-m", "benchmarks", name, *options])
    report.place(report.RESULTS if commit else out, command, "" if size == FULL else f"-{size}")
    try:
        with (
            warnings.catch_warnings(),
            mock.patch.dict(LOADERS, VARIANTS),
            progress.shown(name, command, report.values_path(name), report.commit()),
        ):
            function(name)(Asked(name, size, seeds, tuple(row or ()), jobs))
    except FedctError as error:
        typer.echo(f"{name}: {error}", err=True)
        raise typer.Exit(error.exit_code) from None
    except ModuleNotFoundError as error:
        typer.echo(f"{name} needs the package {error.name!r}, which is not installed", err=True)
        raise typer.Exit(1) from None


if __name__ == "__main__":
    typer.run(main)
