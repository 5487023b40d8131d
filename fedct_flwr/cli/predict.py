"""``fedct predict`` and ``fedct export``: a global model, or that of a simulated silo, on new records or as ONNX."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import typer
from numpy.typing import NDArray

from fedct_flwr.cli.output import Json, Output, check_new, echo
from fedct_flwr.cli.run_options import Package
from fedct_flwr.datasets.new_records import Unlabeled, read_unlabeled, sentences
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.datasets.table_files import as_written
from fedct_flwr.evaluation.references import model_in
from fedct_flwr.files import write_atomically
from fedct_flwr.models.loading import ForeignModel
from fedct_flwr.models.model_file import ModelDescription
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.scoring.assessment import RANKS
from fedct_flwr.text.console import progress
from fedct_flwr.text.printable import json_text, printable
from fedct_flwr.types import ConfigError, DataError, Features

_CHUNK: Final = 65_536
"""Records predicted at a time, so that progress can be shown."""

Model: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="A model file, such as RUN/models/global.skops, or a run folder.", show_default="that of RUN"),
]
Silo: TypeAlias = Annotated[
    str, typer.Option(help="Of a simulated run: the silo whose model to use.", show_default="the global model")
]


Accept: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(help="A finding about the new records to accept, by name: CODE or CODE:COLUMN."),
]
CsvFile: TypeAlias = Annotated[Path | None, typer.Option(help="Write there, as CSV.", show_default="standard output")]


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
    any, come after them; of time to an event 'risk', larger for earlier events. Columns that the study does not use are
    ignored.
    """
    run, data = run_and_data(paths)
    check_new(output)
    with ForeignModel(chosen_model(run, model, silo), package or ()) as found:
        schema = found.schema
        records = read_unlabeled(schema, data, accept=accept or (), learned=found.description.quantiles)
        say_findings(records)
        said_of = [found.predict(X) for X in in_chunks(records.X)]
        chances = chances_of(found.description) if schema.classes else ""
        # As 'fedct silo predict' names it: next to times, a bare number would read as one.
        answer = "risk" if found.description.time else "predicted"
    labels = np.concatenate([labels for labels, _ in said_of])
    known = [chances for _, chances in said_of if chances is not None]
    probabilities = np.concatenate(known) if known else None
    names, added = columns_of(probabilities, schema, len(labels), as_text=not json_)
    header = [answer, *names]
    before = _as_read(data, records, schema if json_ else None)
    if twice := [name for name in header if name in before.column_names]:
        raise DataError(f"{data} has a column {twice[0]!r} already: rename it")
    if names and chances == RANKS:
        Output(to_stderr=True).warn(f"probabilities are {RANKS}; 'fedct calibrate' makes chances of them")
    kept = zip(*(column.to_pylist() for column in before.columns), strict=True)
    rows = ([*own, said, *more] for own, said, more in zip(kept, schema.outcome.shown(labels), added, strict=True))
    write_table([*before.column_names, *header], rows, output, records.unknown if json_ else None, chances)


def columns_of(
    probabilities: NDArray[np.float64] | None, schema: Schema, size: int, *, as_text: bool
) -> tuple[list[str], Sequence[Sequence[Any]]]:
    """Names and rows of the columns of probabilities, if a model knows any."""
    if probabilities is None:
        return [], [[]] * size
    rows = probabilities.tolist()
    names = [f"probability {printable(name)}" for name in schema.classes]
    return names, [[f"{value:.6g}" for value in row] for row in rows] if as_text else rows


def chances_of(description: ModelDescription) -> str:
    """The kind of a model's probabilities, in a few words."""
    return description.recalibration.words if description.recalibration else RANKS


def _as_read(path: Path, records: Unlabeled, typed: Schema | None) -> pa.Table:
    """The table to write predictions next to, one row for each record; of a folder, the names of its images.

    Cells are as in the file; the columns of ``typed``, which is given for JSON, are parsed.
    """
    if path.is_dir():
        return records.table
    table = as_written(path).slice(0, len(records.names))
    for column in typed.columns if typed else ():
        table = table.set_column(table.column_names.index(column.name), column.name, records.table.column(column.name))
    return table


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


def run_and_data(paths: Sequence[Path]) -> tuple[Path | None, Path]:
    """The folder of a run, if one was named, and the file of records. Raises ConfigError for more paths than two."""
    if len(paths) > 2:
        raise ConfigError(f"{len(paths)} paths were given: give one file of records, and a run folder before it")
    return paths[0] if len(paths) == 2 else None, paths[-1]


def chosen_model(run: Path | None, model: Path | None, silo: str) -> Path:
    """The model's file: of a run folder, or of ``--model``, which may name one as well.

    Raises ConfigError, DataError where a run has kept no such model, RunError for a folder that holds no run.
    """
    if (run is None) == (model is None):
        raise ConfigError("give either a run folder before the new records, or --model with a model file")
    found = run or model
    if found and found.is_dir():
        return model_in(RunFolder(found), silo)
    if model is None or silo:
        raise ConfigError(f"{found} is no run folder: name one, or a model file with --model and without --silo")
    return model


def say_findings(records: Unlabeled) -> None:
    """Say on standard error what the inspection says of new records, and of how many values no category is known.

    Models take these for one of no known kind.
    """
    output = Output(to_stderr=True)
    for sentence in sentences(records.findings, records.unknown, records.X):
        output.warn(sentence)


def in_chunks(X: Features) -> Iterator[Features]:
    """The records in their order, some at a time, with a bar on a terminal where there are many."""
    starts = range(0, len(X), _CHUNK)
    return (
        X[start : start + _CHUNK]
        for start in progress(starts, "predicting", visible=None if len(starts) > 1 else False)
    )


def write_table(
    header: Sequence[str],
    rows: Iterable[Sequence[Any]],
    out: Path | None,
    unknown: Mapping[str, int] | None = None,
    chances: str = "",
) -> None:
    """As CSV, or with ``unknown`` as the JSON document that has this next to the rows, to a file or standard output."""
    text = io.StringIO()
    if unknown is None:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
    else:
        records = [dict(zip(header, row, strict=True)) for row in rows]
        document: dict[str, Any] = {"columns": [*header], "records": records, "unknown": dict(unknown)}
        document["chances"] = chances or None
        text.write(json_text(document))
    if out:
        write_atomically(out, text.getvalue().encode())
    else:
        echo(text.getvalue(), data=True)
