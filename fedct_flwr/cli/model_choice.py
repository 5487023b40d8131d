"""Which model a command is to use: a file, or one that a run folder has kept."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.simulation.kept_models import model_in
from fedct_flwr.types import ConfigError

Model: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="A model file, such as RUN/models/global.skops, or a run folder.", show_default="that of RUN"),
]
Silo: TypeAlias = Annotated[
    str, typer.Option(help="Of a simulated run: the silo whose model to use.", show_default="the global model")
]
Package: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(help="A package whose code the model needs and may run. Only for models of those you trust."),
]


def chosen_model(run: Path | None, model: Path | None, silo: str) -> Path:
    """The model's file.

    Raises ConfigError, DataError where a run has kept no such model, RunError for a folder that holds no run.
    """
    if run is not None and model is not None:
        raise ConfigError("a run folder and --model were given: leave one of them out")
    found = run or model
    if found is None:
        raise ConfigError("no model was named: give a run folder first, or --model with a model file")
    if found.is_dir():
        return model_in(RunFolder(found), silo)
    if run is not None:
        raise ConfigError(f"there is no run folder {run}: give a run folder and the new records, in this order")
    if silo:
        raise ConfigError(f"--silo has no effect on the model file {found}: name the run folder, or leave --silo out")
    return found
