"""``fedct predict`` and ``fedct export``: a global model, or that of a simulated silo, on new records or as ONNX."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import pyarrow as pa
import typer

from fedct_flwr.cli.output import Json, Output
from fedct_flwr.cli.predictions import (
    Accept,
    CsvFile,
    Model,
    Silo,
    check_new,
    chosen_model,
    in_chunks,
    say_findings,
    shown_classes,
    write_table,
)
from fedct_flwr.cli.run_options import Package
from fedct_flwr.datasets.table_files import as_written
from fedct_flwr.datasets.unlabeled import Unlabeled, read_unlabeled
from fedct_flwr.files import write_atomically
from fedct_flwr.models.foreign import ForeignModel
from fedct_flwr.types import ConfigError, DataError

PREDICTED: Final = "predicted"
_PROBABILITY: Final = "probability "
_MOST_PATHS: Final = 2


def predict(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="[RUN] DATA",
            help="New records: a table (CSV, TSV, Excel, Parquet), or a folder of images; before them the folder of a "
            "run, unless --model names a model.",
        ),
    ],
    model: Model = None,
    silo: Silo = "",
    output: CsvFile = None,
    package: Package = None,
    accept: Accept = None,
    json_: Json = False,
) -> None:
    """Say the class of each new record, as a study's global model sees it, or the model of a simulated silo.

    All columns of the file come out as they went in; 'predicted' and the classes' probabilities, if the model knows
    any, come after them. Columns that the study does not use are ignored.
    """
    if len(paths) > _MOST_PATHS:
        raise ConfigError(f"{len(paths)} paths were given: give one file of new records, and a run folder before it")
    run, data = paths[0] if len(paths) == _MOST_PATHS else None, paths[-1]
    check_new(output)
    with ForeignModel(chosen_model(run, model, silo), package or ()) as found:
        said, schema = found.description, found.schema
        records = read_unlabeled(schema, said.image_size, said.image_mode, data, accept=accept or ())
        say_findings(records)
        said_of = [found.predict(X) for X in in_chunks(records.X)]
    labels = np.concatenate([labels for labels, _ in said_of])
    known = [chances for _, chances in said_of if chances is not None]
    probabilities = np.concatenate(known) if known else None
    header = [PREDICTED, *([] if probabilities is None else [_PROBABILITY + name for name in shown_classes(schema)])]
    before = records.table if json_ else _as_read(data, records)
    if twice := [name for name in header if name in before.column_names]:
        raise DataError(f"{data} has a column {twice[0]!r} already: rename it")
    added: Sequence[Sequence[Any]] = [[]] * len(labels)
    if probabilities is not None:
        numbers = probabilities.tolist()
        added = numbers if json_ else [[f"{value:.6g}" for value in row] for row in numbers]
    kept = zip(*(column.to_pylist() for column in before.columns), strict=True)
    rows = ([*own, answer, *more] for own, answer, more in zip(kept, schema.outcome.shown(labels), added, strict=True))
    write_table([*before.column_names, *header], rows, output, records.unknown if json_ else None)


def _as_read(path: Path, records: Unlabeled) -> pa.Table:
    """What the file holds, in a CSV file to the letter, without empty lines at its end."""
    return records.table if path.is_dir() else as_written(path).slice(0, len(records.names))


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
