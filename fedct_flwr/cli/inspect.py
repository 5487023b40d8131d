"""``fedct inspect``: what is in a folder of one's own tables, and what is wrong with it."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

import typer
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from fedct_flwr.cli import documents
from fedct_flwr.cli.data_options import Accept, Group
from fedct_flwr.cli.findings import FOUND_BAD, Mark, show
from fedct_flwr.cli.findings import Finding as Shown
from fedct_flwr.cli.output import Json, Output
from fedct_flwr.cli.run_document import finding_document
from fedct_flwr.config import RunConfig
from fedct_flwr.datasets.files import how_to_use
from fedct_flwr.datasets.folder_inspection import FolderInspection, inspect_folder
from fedct_flwr.datasets.inspection import Finding, Severity, gathered
from fedct_flwr.datasets.inspection.inspect import ColumnFacts, TableFacts
from fedct_flwr.simulation.silos import of_folder
from fedct_flwr.text.plural import count
from fedct_flwr.text.printable import listed, plain

_ROWS: Final = 40
_TABLES: Final = 12
_CLASSES: Final = 8
_MARKS: Final = {Severity.REFUSED: Mark.BAD, Severity.SAID: Mark.WARNING, Severity.ACCEPTED: Mark.GOOD}


def inspect(
    folder: Annotated[Path, typer.Argument(help="Folder with public.csv and a table for each silo.")],
    label: Annotated[str, typer.Option(help="The label column of the silos' tables.")],
    outcome: Annotated[
        Literal["class", "number"], typer.Option(help="Whether the label column holds classes, or numbers to predict.")
    ] = "class",
    group: Group = "",
    accept: Accept = None,
    json_: Json = False,
) -> None:
    """Look at a folder of tables as a simulation would, and say what each column is and what is wrong.

    For each table and column: its kind, how many cells are empty, how many values differ, and how many the public set
    does not know. For each silo: its classes. Then all findings, with their names, and the files that are not used.
    Nothing is trained, and nothing leaves. Exit code 3 if a simulation would refuse the folder.
    """
    out = Output(as_json=json_)
    config = RunConfig.from_flower(
        {
            **of_folder(folder),
            "label-column": label,
            "group-column": group,
            "outcome": outcome,
            "accept": tuple(accept or ()),
        }
    )
    with out.doing("reading the tables"):
        found = inspect_folder(config)
    out.show(_document(folder, label, found), *_tables(found))
    if not json_:
        _print(out, found)
    if found.inspection.refused:
        raise typer.Exit(FOUND_BAD)


def _document(folder: Path, label: str, found: FolderInspection) -> documents.Inspection:
    return {
        "folder": str(folder),
        "label": label,
        "tables": plain(list(found.inspection.tables)),
        "unused": [*found.files.unused, *_sheets(found)],
        "findings": [finding_document(each) for each in found.inspection.findings],
    }


def _tables(found: FolderInspection) -> Iterator[RenderableType]:
    tables = found.inspection.tables
    names = {"": found.files.public.name, **{silo: path.name for silo, path in found.files.silos.items()}}
    for facts in tables[:_TABLES]:
        yield _columns(names[facts.silo], facts)
    if len(tables) > _TABLES:
        yield f"and {count(len(tables) - _TABLES, 'table')} more: --json shows all"
    if any(facts.classes for facts in tables):
        yield _classes([facts for facts in tables if facts.silo])


def _columns(name: str, facts: TableFacts) -> Table:
    table = Table(title=f"{escape(name)}: {count(facts.records, 'record')}", title_justify="left")
    table.add_column("column")
    table.add_column("holds")
    for header in ("empty", "different", "unknown", "no numbers"):
        table.add_column(header, justify="right")
    for column in facts.columns[:_ROWS]:
        table.add_row(*_row(column, facts.records))
    if len(facts.columns) > _ROWS:
        table.add_row(f"and {count(len(facts.columns) - _ROWS, 'column')} more")
    return table


def _row(column: ColumnFacts, records: int) -> Sequence[str]:
    unparsed = "" if not column.not_numbers else _share(column.not_numbers, records - column.missing)
    return (
        escape(column.name) or "(without a name)",
        column.kind,
        _share(column.missing, records),
        f"{column.distinct:,}",
        "" if column.unknown is None else _share(column.unknown, records - column.missing),
        f"{unparsed}, first in record {column.example:,}" if unparsed and column.example else unparsed,
    )


def _share(part: int, whole: int) -> str:
    """A percentage, which is 100% for all alone, and empty for none."""
    if part in (0, whole):
        return "100%" if part else ""
    return f"{min(0.99, max(0.01, part / whole)):.0%}"


def _classes(silos: Sequence[TableFacts]) -> Table:
    total: dict[str, int] = {}
    for facts in silos:
        for name, number in facts.classes.items():
            total[name] = total.get(name, 0) + number
    largest = sorted(sorted(total, key=lambda name: -total[name])[:_CLASSES])
    table = Table(title=f"classes: {len(total):,}", title_justify="left")
    table.add_column("silo")
    for name in largest:
        table.add_column(escape(name), justify="right")
    if len(total) > _CLASSES:
        table.add_column("others", justify="right")
    for facts in silos[:_ROWS]:
        own = [facts.classes.get(name, 0) for name in largest]
        others = [sum(facts.classes.values()) - sum(own)] if len(total) > _CLASSES else []
        table.add_row(escape(facts.silo), *(f"{number:,}" if number else "" for number in [*own, *others]))
    return table


def _print(out: Output, found: FolderInspection) -> None:
    for each in gathered(found.inspection.findings):
        show(out.console, _shown(each), details=False)
    if found.files.unused:
        out.warn(f"not used: {listed(found.files.unused)}{how_to_use(found.files)}")
    if sheets := _sheets(found):
        out.warn(f"not used: {listed(sheets)} (write sheet = '...' in data.toml to read another)")
    refused, said = len(found.inspection.refused), len(found.inspection.said)
    out.say(f"\n{refused or 'nothing'} refused, {said or 'nothing'} to be looked at")


def _sheets(found: FolderInspection) -> list[str]:
    return [f"sheet {sheet!r} of {name}" for name, sheets in found.sheets.items() for sheet in sheets]


def _shown(found: Finding) -> Shown:
    accepted = " (accepted)" if found.severity is Severity.ACCEPTED else ""
    return Shown(_MARKS[found.severity], f"{found.said}{accepted} [{found.name}]", found.fix)
