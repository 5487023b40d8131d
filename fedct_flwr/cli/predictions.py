"""What the commands that predict have in common: new records in, a table with their classes out."""

import csv
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape

from fedct_flwr.atomic import write_atomically
from fedct_flwr.datasets.unlabeled import Unlabeled
from fedct_flwr.types import DataError


def check_new(out: Path | None) -> None:
    """Raise DataError if a file would be overwritten, or there is no folder for it."""
    if out and os.path.lexists(out):
        raise DataError(f"{out} exists: choose another file, or take it away")
    if out and not out.absolute().parent.is_dir():
        raise DataError(f"there is no folder {out.parent}: make it, or choose another file")


def say_unknown(records: Unlabeled) -> None:
    """Say on standard error where a value is no category of the study's: models take it for one of no known kind."""
    for column, count in records.unknown.items():
        Console(stderr=True, soft_wrap=True).print(
            f"[yellow]{count} of {len(records.names)} records have a value of {escape(repr(column))} that the study "
            "does not know[/]",
            highlight=False,
        )


def write_table(header: Sequence[str], rows: Iterable[Sequence[Any]], out: Path | None) -> None:
    """As CSV, to a file or to standard output."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    if out:
        write_atomically(out, text.getvalue().encode())
    else:
        typer.echo(text.getvalue(), nl=False)
