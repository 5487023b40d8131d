"""``python -m benchmarks NAME``: run an experiment and write its results."""

from typing import Annotated

import typer

from benchmarks import breast_cancer, heart_disease

EXPERIMENTS = {"heart-disease": heart_disease.run, "breast-cancer": breast_cancer.run}


def main(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(EXPERIMENTS)}.")],
    seeds: Annotated[int, typer.Option(min=2, help="How many seeds, from 0.")] = 20,
) -> None:
    """Run an experiment; results go to benchmarks/results/."""
    if name not in EXPERIMENTS:
        raise typer.BadParameter(f"there are {', '.join(EXPERIMENTS)}")
    EXPERIMENTS[name](seeds)


typer.run(main)
