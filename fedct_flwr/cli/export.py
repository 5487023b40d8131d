"""``fedct export``: a global model as ONNX."""

from pathlib import Path
from typing import Annotated

import typer

from fedct_flwr.cli.output import Output
from fedct_flwr.cli.predictions import check_new
from fedct_flwr.files.atomic import write_atomically
from fedct_flwr.models.foreign import ForeignModel


def export(
    model: Annotated[Path, typer.Option(help="A global model, such as RUN/models/global.skops.")],
    output: Annotated[Path, typer.Option(help="The ONNX file to write.")],
    package: Annotated[
        list[str] | None,
        typer.Option(help="A package whose code the model needs and may run. Only for models of those you trust."),
    ] = None,
) -> None:
    """Write a study's global model as ONNX, with its preprocessing, for programs without Python (extra 'onnx').

    The input 'features' has a table's columns in the study's order, a category as its position among the study's
    categories, NaN for what is missing; the description in the file's metadata ('fedct') tells both, and the classes.
    """
    check_new(output)
    with ForeignModel(model, package or ()) as found, Output.doing("converting the model"):
        write_atomically(output, found.to_onnx())
