"""``python -m benchmarks NAME``: run an experiment and write its results."""

from typing import Annotated

import typer

from benchmarks import breast_cancer, fashion_mnist, heart_disease

EXPERIMENTS = {
    "heart-disease": heart_disease.run,
    "breast-cancer": breast_cancer.run,
    "fedct-fashion-mnist": fashion_mnist.run,
}


def main(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(EXPERIMENTS)}.")],
    seeds: Annotated[int | None, typer.Option(min=2, help="How many seeds, from 0; default: the experiment's.")] = None,
    fast: Annotated[bool, typer.Option("--fast", help="Two seeds, fewer rounds; for a first look.")] = False,
) -> None:
    """Run an experiment; results go to benchmarks/results/."""
    if name not in EXPERIMENTS:
        raise typer.BadParameter(f"there are {', '.join(EXPERIMENTS)}")
    EXPERIMENTS[name](seeds or (2 if fast else None), fast)


typer.run(main)
