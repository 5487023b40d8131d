"""``python -m benchmarks NAME``: run an experiment and write its results; ``LIST`` tells which there are."""

import inspect
import logging
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from benchmarks import progress, report
from benchmarks.variants import VARIANTS
from fedct_flwr.datasets import LOADERS

_TABLES: Final = ("fedkt-table3", "fedkt-table6", "fedkt-table7", "fedkt-table8", "fedkt-table9")
_NETWORKS: Final = (
    "fedct-fashion-mnist", "fedct-non-iid", "fedct-non-iid-rules", "fedct-communication",
    "fedct-public-shift", "weight-sharing", "pfnm",
)  # fmt: skip
EXPERIMENTS: Final[dict[str, str]] = {
    "heart-disease": "heart_disease.run",
    "fedct-trees": "trees.run",
    "ablation": "ablation.run",
    "calibration": "calibration.run",
    "consensus-rules": "consensus_rules.run",
    "consensus-table1": "prediction_consensus.run",
    "practices": "practices.run",
    "privacy": "privacy.run",
    "drawn": "drawn.run",
    "false-alarms": "false_alarms.run",
    "gpu": "gpu.run",
    "joint": "joint.run",
    "language": "language.run",
    "liars": "liars.run",
    "membership": "membership.run",
    "no-harm": "no_harm.run",
    "overhead": "overhead.run",
    "stacked": "stacked.run",
    "survival": "survival.run",
    "fedkt-table1": "fedkt_tables.table_1",
    **dict.fromkeys(_TABLES, "fedkt_tables.run"),
    **dict.fromkeys(_NETWORKS, "compare.run"),
}
"""Where the function of each is: only the one that is asked for is imported."""
_KNOWN: Final = {"experiments": "EXPERIMENTS", "fedkt_tables": "TABLES"}


def function(name: str) -> Callable[..., None]:
    """The experiment, to be called with seeds and whether it is to be fast, and rows where it has some."""
    module, _, attribute = EXPERIMENTS[name].partition(".")
    found: Any = getattr(import_module(f"benchmarks.{module}"), attribute)
    return partial(found, name) if name in (*_TABLES, *_NETWORKS) else found


def _about(name: str) -> str:
    for module, tables in {"experiments": _NETWORKS, "fedkt_tables": _TABLES}.items():
        if name in tables:
            return str(getattr(import_module(f"benchmarks.{module}"), _KNOWN[module])[name].title)
    return (inspect.getdoc(function(name)) or "").partition("\n")[0]


def main(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(EXPERIMENTS)}; LIST describes them.")],
    seeds: Annotated[int | None, typer.Option(min=2, help="How many seeds, from 0; default: the experiment's.")] = None,
    fast: Annotated[bool, typer.Option("--fast", help="Two seeds, fewer rounds; for a first look.")] = False,
    row: Annotated[list[str] | None, typer.Option(help="This row alone; may be given several times.")] = None,
    out: Annotated[Path, typer.Option(help="The folder for results.")] = report.BUILD,
    commit: Annotated[bool, typer.Option("--commit", help="Write the results that are committed.")] = False,
) -> None:
    """Run an experiment. One that was stopped goes on from where it was when the same command is run again."""
    if name.upper() == "LIST":
        for known in EXPERIMENTS:
            typer.echo(f"{known:<24}{_about(known)}")
        return
    if name not in EXPERIMENTS:
        raise typer.BadParameter(f"there are {', '.join(EXPERIMENTS)}")
    logging.getLogger("flwr").setLevel(logging.ERROR)
    LOADERS.update(VARIANTS)
    experiment, more = function(name), {}
    if row:
        if "rows" not in inspect.signature(experiment).parameters:
            raise typer.BadParameter(f"{name} has no rows", param_hint="--row")
        more["rows"] = tuple(row)
    report.place(report.RESULTS if commit else out)
    with progress.shown(name, report.command(), report.values_path(name)):
        experiment(seeds or (2 if fast else None), fast, **more)


if __name__ == "__main__":
    typer.run(main)
