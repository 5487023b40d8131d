"""Probabilities calibrated by labeled records of whoever uses the model, which it has not learned."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
import typer
from numpy.typing import NDArray

from fedct_flwr.datasets.labels import class_names, encode_labels
from fedct_flwr.datasets.lacking import no_column
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.datasets.table_files import read_table
from fedct_flwr.datasets.unlabeled import read_unlabeled
from fedct_flwr.learners.calibrated import FOLDS, Calibration
from fedct_flwr.types import ConfigError, DataError, Features

CalibrateOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--calibrate-with", help="A table of labeled records that the model has not learned, to calibrate it by."
    ),
]
LabelOption: TypeAlias = Annotated[str, typer.Option("--label", help="The label column of --calibrate-with.")]
MethodOption: TypeAlias = Annotated[
    str,
    typer.Option("--calibration", help="How: sigmoid, or isotonic with a thousand records.", show_default="sigmoid"),
]
Ask: TypeAlias = Callable[[Features], tuple[Any, NDArray[np.float64] | None]]
"""What a model says of records: classes, and probabilities if it knows any."""


def check_calibration(path: Path | None, label: str, method: str) -> None:
    """Raise ConfigError for options that do not go together."""
    if path is None and (label or method):
        option = "--label" if label else "--calibration"
        raise ConfigError(f"{option} has no effect without --calibrate-with: add that, or leave it out")
    if path is not None and not label:
        raise ConfigError("--calibrate-with needs --label, the name of its label column")
    if method not in ("", "sigmoid", "isotonic"):
        raise ConfigError(f"--calibration {method!r} is unknown: give 'sigmoid' or 'isotonic'")


def calibration_by(path: Path, label: str, method: str, schema: Schema, ask: Ask) -> Calibration:
    """The calibration of a model for tables by labeled records; ``ask`` asks the model.

    Raises ConfigError for a model without probabilities, DataError for records that cannot tell.
    """
    if not schema.columns or schema.outcome.number:
        raise ConfigError("--calibrate-with is for models that predict classes from tables: leave it out")
    table = read_table(path, [label, *(column.name for column in schema.columns if column.categories is not None)])
    if label not in table.column_names:
        raise no_column(path, label, table.column_names)
    names = class_names(table.column(label), label, path)
    if foreign := sum(name not in schema.classes for name in names):
        raise DataError(
            f"{foreign} of {len(names)} records of {path} have a label that is no class of the study, which has "
            f"{', '.join(schema.classes)}: name the classes as the study does"
        )
    y = encode_labels(names, schema.classes)
    if (fewest := int(np.bincount(y, minlength=len(schema.classes)).min())) < FOLDS:
        raise DataError(
            f"{path} has {fewest} records of some class, and a calibration needs {FOLDS} of each: add records"
        )
    _, probabilities = ask(read_unlabeled(schema, None, "color", path).X)
    if probabilities is None:
        raise ConfigError("--calibrate-with needs probabilities, and the model knows none: leave it out")
    chosen: Literal["sigmoid", "isotonic"] = "isotonic" if method == "isotonic" else "sigmoid"
    return Calibration.fitted(probabilities, y, chosen)
