"""``python -m benchmarks NAME``: run an experiment and write its results; ``LIST`` tells which there are."""

from typing import Annotated

import typer

from benchmarks import fashion_mnist, heart_disease, trees

EXPERIMENTS = {
    "heart-disease": heart_disease.run,
    "fedct-trees": trees.run,
    "fedct-fashion-mnist": fashion_mnist.run,
}


def main(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(EXPERIMENTS)}; LIST describes them.")],
    seeds: Annotated[int | None, typer.Option(min=2, help="How many seeds, from 0; default: the experiment's.")] = None,
    fast: Annotated[bool, typer.Option("--fast", help="Two seeds, fewer rounds; for a first look.")] = False,
) -> None:
    """Run an experiment; results go to benchmarks/results/."""
    if name.upper() == "LIST":
        for known, run in EXPERIMENTS.items():
            typer.echo(f"{known:<22}{(run.__doc__ or '').splitlines()[0]}")
        return
    if name not in EXPERIMENTS:
        raise typer.BadParameter(f"there are {', '.join(EXPERIMENTS)}")
    EXPERIMENTS[name](seeds or (2 if fast else None), fast)


if __name__ == "__main__":
    typer.run(main)
