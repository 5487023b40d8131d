"""``fedct inspect``: what is in a folder of one's own tables, and what is wrong with it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from fedct_flwr.cli.findings import FOUND_BAD, of_data, show
from fedct_flwr.cli.output import Json, Output
from fedct_flwr.cli.printed_rounds import finding_document
from fedct_flwr.cli.run_options import Accept, Group
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets.files import NOT_READ
from fedct_flwr.datasets.inspection import gathered
from fedct_flwr.datasets.inspection.table_one import NOTE, TableOne, caption, cells_of
from fedct_flwr.datasets.inspections import FolderInspection, inspect_folder
from fedct_flwr.simulation.silos import of_folder
from fedct_flwr.text.printable import count, listed, plain

_ROWS: Final = 40
_SILOS: Final = 8


def inspect(
    folder: Annotated[Path, typer.Argument(help="Folder with public.csv and a table for each silo.")],
    label: Annotated[str, typer.Option(help="The label column of the silos' tables.")],
    outcome: Annotated[
        Literal["class", "number"], typer.Option(help="Whether the label column holds classes, or numbers to predict.")
    ] = "class",
    event: Annotated[
        str, typer.Option(help="The column of events (1 or 0), where the label column holds times of follow-up.")
    ] = "",
    group: Group = "",
    accept: Accept = None,
    json_: Json = False,
) -> None:
    """Compare the tables of a folder by site, and report what is wrong.

    Table 1 by site has medians or shares of each column in each table, and how far apart the tables are, the largest
    differences first. All findings follow, with their names, and the files that are not used. Nothing is trained, and
    nothing leaves. Exit code 3 if a simulation would refuse the folder.
    """
    out = Output(as_json=json_)
    config = RunConfig.from_flower(
        {
            **of_folder(folder),
            "label-column": label,
            "group-column": group,
            "outcome": "survival" if event else outcome,
            "event-column": event,
            "accept": tuple(accept or ()),
        }
    )
    with out.doing("reading the tables"):
        found = inspect_folder(config)
    out.show(_document(folder, label, found), *_table(found.inspection.table))
    if not json_:
        _print(out, found)
    if found.inspection.refused:
        raise typer.Exit(FOUND_BAD)


def _document(folder: Path, label: str, found: FolderInspection) -> dict[str, Any]:
    return {
        "folder": str(folder),
        "label": label,
        "table": plain(found.inspection.table.document()),
        "unused": [*found.files.unused, *_sheets(found)],
        "findings": [finding_document(each) for each in found.inspection.findings],
    }


def _table(table: TableOne) -> Iterator[RenderableType]:
    silos = table.silos
    shown = Table(title=caption(table), title_justify="left")
    shown.add_column("column")
    kept = [*silos[:_SILOS], *([] if "" in silos[:_SILOS] else [""])]
    for silo in kept:
        shown.add_column(escape(silo) or "public")
    shown.add_column("SMD", justify="right")
    for row in table.ordered[:_ROWS]:
        shown.add_row(escape(row.column) or "(without a name)", *map(escape, cells_of(row, kept)))
    if table.rows:
        yield shown
        yield escape(NOTE)
    for what, hidden in (("column", len(table.rows) - _ROWS), ("silo", len(silos) - len(kept))):
        if hidden > 0:
            yield f"and {count(hidden, what)} more: --json shows all"


def _print(out: Output, found: FolderInspection) -> None:
    for each in gathered(found.inspection.findings):
        shown = of_data(each)
        show(out.console, replace(shown, message=f"{shown.message} [{shown.code}]"), details=False)
    if found.files.unused:
        out.warn(f"not used: {listed(found.files.unused)} ({NOT_READ})")
    if sheets := _sheets(found):
        out.warn(f"not used: {listed(sheets)} (write sheet = '...' in data.toml to read another)")
    refused, suspicious = len(found.inspection.refused), len(found.inspection.suspicious)
    out.say(f"\n{refused or 'nothing'} refused, {suspicious or 'nothing'} to be looked at")


def _sheets(found: FolderInspection) -> list[str]:
    return [f"sheet {sheet!r} of {name}" for name, sheets in found.sheets.items() for sheet in sheets]
