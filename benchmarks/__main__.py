"""``python -m benchmarks NAME``: run an experiment and write its results; ``LIST`` tells which there are."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated

import typer

from benchmarks import (
    compare,
    consensus_rules,
    experiments,
    false_alarms,
    fashion_mnist,
    fedkt_tables,
    heart_disease,
    joint,
    joint_few,
    language,
    liars,
    membership,
    no_harm,
    prediction_consensus,
    privacy,
    progress,
    report,
    secure_sum,
    trees,
)
from benchmarks.variants import VARIANTS
from fedct_flwr.datasets import LOADERS

EXPERIMENTS: dict[str, Callable[[int | None, bool], None]] = {
    "heart-disease": heart_disease.run,
    "fedct-trees": trees.run,
    "fedct-fashion-mnist": fashion_mnist.run,
    "consensus-rules": consensus_rules.run,
    "consensus-table1": prediction_consensus.run,
    "privacy": privacy.run,
    "false-alarms": false_alarms.run,
    "joint": joint.run,
    **{f"joint-{row}": partial(joint.run_row, row) for row in joint.ROWS},
    "joint-few": joint_few.run,
    "language": language.run,
    "liars": liars.run,
    "no-harm": no_harm.run,
    "membership": membership.run,
    "secure-sum": secure_sum.run,
    "fedkt-table1": fedkt_tables.table_1,
    **{name: partial(fedkt_tables.run, name) for name in fedkt_tables.TABLES},
    **{name: partial(compare.run, name) for name in experiments.EXPERIMENTS},
}
PARTS: dict[str, Mapping[str, Callable[[int | None, bool], None]]] = {
    "membership": {part: partial(membership.run, part=part) for part in membership.PARTS},
}
"""Experiments that can be run in parts."""


def main(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(EXPERIMENTS)}; LIST describes them.")],
    seeds: Annotated[int | None, typer.Option(min=2, help="How many seeds, from 0; default: the experiment's.")] = None,
    fast: Annotated[bool, typer.Option("--fast", help="Two seeds, fewer rounds; for a first look.")] = False,
    part: Annotated[
        str | None, typer.Option(help=f"Of {' and '.join(PARTS)}: this part alone; results of the others stay.")
    ] = None,
) -> None:
    """Run an experiment; results go to benchmarks/results/."""
    if name.upper() == "LIST":
        for known in EXPERIMENTS:
            typer.echo(f"{known:<38}{_about(known)}")
        return
    if name not in EXPERIMENTS:
        raise typer.BadParameter(f"there are {', '.join(EXPERIMENTS)}")
    parts = PARTS.get(name, {})
    if part is not None and part not in parts:
        known = f"has the parts {', '.join(parts)}" if parts else "has no parts"
        raise typer.BadParameter(f"{name} {known}", param_hint="--part")
    LOADERS.update(VARIANTS)
    with progress.shown(name, report.command(), report.values_path(name)):
        (parts[part] if part else EXPERIMENTS[name])(seeds or (2 if fast else None), fast)


def _about(name: str) -> str:
    if name in experiments.EXPERIMENTS:
        return f"FashionMNIST: {experiments.EXPERIMENTS[name].title}."
    if name in fedkt_tables.TABLES:
        return f"FedKT on Adult: {fedkt_tables.TABLES[name].title}."
    experiment = EXPERIMENTS[name]
    described = experiment.func if isinstance(experiment, partial) else experiment
    return (described.__doc__ or "").splitlines()[0]


if __name__ == "__main__":
    typer.run(main)
