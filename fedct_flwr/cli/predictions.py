"""What the commands that predict have in common: new records in, a table with their classes out."""

import csv
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import typer

from fedct_flwr.cli import documents
from fedct_flwr.cli.output import Output, echo
from fedct_flwr.cli.threshold import Threshold
from fedct_flwr.datasets.inspection import gathered
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.datasets.unlabeled import Unlabeled
from fedct_flwr.files.atomic import write_atomically
from fedct_flwr.text.printable import json_text, printable, quoted
from fedct_flwr.types import DataError, Features

NOT_CALIBRATED: Final = (
    "the probabilities are not calibrated: rank records by them, but do not read them as chances before you calibrate "
    "them"
)
Accept: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(help="A finding about the new records that is meant so, by name: CODE or CODE:COLUMN."),
]
CsvFile: TypeAlias = Annotated[Path | None, typer.Option(help="Write there, as CSV.", show_default="standard output")]
CHUNK: Final = 65_536
"""So many records are predicted at a time, so that one can say how far it is."""


def check_new(out: Path | None) -> None:
    """Raise DataError if a file would be overwritten, or there is no folder for it."""
    if out and os.path.lexists(out):
        raise DataError(f"{out} exists: choose another file, or take it away")
    if out and not out.absolute().parent.is_dir():
        raise DataError(f"there is no folder {out.parent}: make it, or choose another file")


def shown_classes(schema: Schema) -> list[str]:
    """The classes as a table names them. Others have named them, and reading refuses what this would change."""
    return [printable(name) for name in schema.classes]


class Said(NamedTuple):
    """What is said of predictions besides themselves.

    ``unknown`` counts, by column, values that are no category of the study's: models take them for one of no known
    kind. ``calibrated`` is None where there are no probabilities.
    """

    unknown: Mapping[str, int]
    calibrated: bool | None = None
    threshold: Threshold | None = None

    def say(self, num_records: int) -> None:
        """Say it on standard error."""
        output = Output(to_stderr=True)
        for column, count in self.unknown.items():
            output.warn(
                f"{count} of {num_records} records have a value of {quoted(column)} that the study does not know"
            )
        if self.calibrated is False:
            output.warn(NOT_CALIBRATED)
        if self.threshold:
            output.say(str(self.threshold))

    def document(self, columns: Sequence[str], records: list[dict[str, Any]]) -> documents.Predictions:
        """The same for programs, with the predictions."""
        decided = self.threshold
        return {
            "columns": [*columns],
            "records": records,
            "unknown": dict(self.unknown),
            "calibrated": self.calibrated,
            "threshold": decided.value if decided else None,
            "positive": decided.name if decided else None,
        }


def say_findings(records: Unlabeled) -> None:
    """Say on standard error what the inspection says of new records; ``Said`` counts unknown values."""
    output = Output(to_stderr=True)
    for found in gathered(each for each in records.findings if each.code != "unknown-values"):
        output.warn(found.sentence)


def in_chunks(X: Features) -> Iterator[Features]:
    """The records in their order, some at a time, with a bar on a terminal where there are many."""
    starts = range(0, len(X), CHUNK)
    steps = Output.progress(starts, "predicting") if len(starts) > 1 else starts
    return (X[start : start + CHUNK] for start in steps)


def write_table(
    header: Sequence[str], rows: Iterable[Sequence[Any]], out: Path | None, said: Said | None = None
) -> None:
    """As CSV, or with ``said`` as the JSON document that has this beside the rows, to a file or standard output."""
    text = io.StringIO()
    if said is None:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
    else:
        records = [dict(zip(header, row, strict=True)) for row in rows]
        text.write(json_text(said.document(header, records)))
    if out:
        write_atomically(out, text.getvalue().encode())
    else:
        echo(text.getvalue(), data=True)
