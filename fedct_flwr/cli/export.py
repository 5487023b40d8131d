"""``fedct export``: a model as ONNX."""

from pathlib import Path
from typing import Annotated

import typer

from fedct_flwr.cli.output import Output
from fedct_flwr.cli.overrides import Package
from fedct_flwr.cli.predictions import Model, Silo, check_new, chosen_model
from fedct_flwr.files.atomic import write_atomically
from fedct_flwr.models.foreign import ForeignModel


def export(
    output: Annotated[Path, typer.Option(help="The ONNX file to write.")],
    run: Annotated[
        Path | None, typer.Argument(metavar="[RUN]", help="A run folder.", show_default="the model that --model names")
    ] = None,
    model: Model = None,
    silo: Silo = "",
    package: Package = None,
) -> None:
    """Write a global model, or that of a simulated silo, as ONNX with its preprocessing (extra 'onnx').

    The input 'features' has a table's columns in the study's order, a category as its position among the study's
    categories, NaN for what is missing; the description in the file's metadata ('fedct') tells both, and the classes.
    """
    check_new(output)
    with ForeignModel(chosen_model(run, model, silo), package or ()) as found, Output.doing("converting the model"):
        write_atomically(output, found.to_onnx())
