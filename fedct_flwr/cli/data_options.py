"""Options that say whose data a command is about: the same words wherever they are."""

from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from fedct_flwr.cli import complete

DATA: Final = "Data"
"""The panel of a command's help."""

DataSet: TypeAlias = Annotated[
    str, typer.Option("--data", help="Data set by name.", autocompletion=complete.data_sets, rich_help_panel=DATA)
]
DataDir: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        help="Instead: folder with public.csv and one table per silo (CSV, TSV, Excel, Parquet), or folders of images.",
        rich_help_panel=DATA,
    ),
]
Label: TypeAlias = Annotated[
    str,
    typer.Option(
        "--label", help="The label column of the files in --data-dir; images need none.", rich_help_panel=DATA
    ),
]
Group: TypeAlias = Annotated[
    str,
    typer.Option(
        "--group",
        help="The files' column that says which records belong together, such as a patient's number.",
        rich_help_panel=DATA,
    ),
]
Accept: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--accept",
        help="A finding about the files that is meant so, by name: CODE or CODE:COLUMN; repeat it for more. fedct "
        "inspect shows them.",
        rich_help_panel=DATA,
    ),
]
