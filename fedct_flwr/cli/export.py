"""``fedct export``: a model as ONNX."""

from pathlib import Path
from typing import Annotated

import typer

from fedct_flwr.cli.model_choice import Model, Package, Silo, chosen_model
from fedct_flwr.cli.output import Output
from fedct_flwr.cli.predict import config_of
from fedct_flwr.cli.predictions import Said, check_new
from fedct_flwr.cli.threshold import PositiveOption, Threshold, ThresholdOption
from fedct_flwr.files.atomic import write_atomically
from fedct_flwr.models.foreign import ForeignModel
from fedct_flwr.models.model_file import blank


def export(
    output: Annotated[Path, typer.Option(help="The ONNX file to write.")],
    run: Annotated[
        Path | None, typer.Argument(metavar="[RUN]", help="A run folder.", show_default="the model that --model names")
    ] = None,
    model: Model = None,
    silo: Silo = "",
    threshold: ThresholdOption = None,
    positive: PositiveOption = "",
    package: Package = None,
) -> None:
    """Write a global model, or that of a simulated silo, as ONNX with its preprocessing (extra 'onnx').

    The input 'features' has a table's columns in the study's order, a category as its position among the study's
    categories, NaN for what is missing; the description in the file's metadata ('fedct') tells both, and the classes.
    With --threshold the output 'label' goes by the probability.
    """
    check_new(output)
    with ForeignModel(chosen_model(run, model, silo), package or ()) as found:
        decided = Threshold.of(threshold, positive, found.schema, config_of(run or model))
        with Output.doing("converting the model"):
            write_atomically(output, found.to_onnx((decided.value, decided.positive) if decided else None))
        _, probabilities = found.predict(blank(found.description))
    # No calibrated model can be converted.
    Said({}, calibrated=None if probabilities is None else False, threshold=decided).say(0)
