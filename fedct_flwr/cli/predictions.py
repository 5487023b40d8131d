"""What the commands that predict have in common: new records in, a table with their classes out."""

import csv
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer

from fedct_flwr.cli.output import Output, echo
from fedct_flwr.datasets.inspection.finding import gathered
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.datasets.unlabeled import Unlabeled
from fedct_flwr.evaluation.kept_models import model_in
from fedct_flwr.files import write_atomically
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.text.console import progress
from fedct_flwr.text.printable import json_text, printable, quoted
from fedct_flwr.types import ConfigError, DataError, Features

Model: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="A model file, such as RUN/models/global.skops, or a run folder.", show_default="that of RUN"),
]
Silo: TypeAlias = Annotated[
    str, typer.Option(help="Of a simulated run: the silo whose model to use.", show_default="the global model")
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


Accept: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(help="A finding about the new records to accept, by name: CODE or CODE:COLUMN."),
]
CsvFile: TypeAlias = Annotated[Path | None, typer.Option(help="Write there, as CSV.", show_default="standard output")]
CHUNK: Final = 65_536
"""Records predicted at a time, so that progress can be shown."""


def check_new(out: Path | None) -> None:
    """Raise DataError if a file would be overwritten, or there is no folder for it."""
    if out and os.path.lexists(out):
        raise DataError(f"{out} exists: choose another file, or take it away")
    if out and not out.absolute().parent.is_dir():
        raise DataError(f"there is no folder {out.parent}: make it, or choose another file")


def shown_classes(schema: Schema) -> list[str]:
    """The classes as a table names them. Others have named them, and reading refuses what this would change."""
    return [printable(name) for name in schema.classes]


def say_findings(records: Unlabeled) -> None:
    """Say on standard error what the inspection says of new records, and of how many values no category is known.

    Models take these for one of no known kind.
    """
    output = Output(to_stderr=True)
    for found in gathered(each for each in records.findings if each.code != "unknown-values"):
        output.warn(found.sentence)
    for column, count in records.unknown.items():
        output.warn(
            f"{count} of {len(records.names)} records have a value of {quoted(column)} that the study does not know"
        )


def in_chunks(X: Features) -> Iterator[Features]:
    """The records in their order, some at a time, with a bar on a terminal where there are many."""
    starts = range(0, len(X), CHUNK)
    steps = progress(starts, "predicting") if len(starts) > 1 else starts
    return (X[start : start + CHUNK] for start in steps)


def write_table(
    header: Sequence[str], rows: Iterable[Sequence[Any]], out: Path | None, unknown: Mapping[str, int] | None = None
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
        text.write(json_text(document))
    if out:
        write_atomically(out, text.getvalue().encode())
    else:
        echo(text.getvalue(), data=True)
