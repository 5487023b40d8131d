"""Options that say whose data a command is about: the same words wherever they are."""

from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer

from fedct_flwr.cli.overrides import is_given
from fedct_flwr.simulation.silos import of_data_set, of_folder
from fedct_flwr.types import ConfigError

DATA: Final = "Data"
"""The panel of a command's help."""

DataSet: TypeAlias = Annotated[str, typer.Option("--data", help="Data set by name.", rich_help_panel=DATA)]
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

OPTIONS: Final = {
    "data": "data", "data-dir": "data_dir", "label-column": "label", "group-column": "group", "accept": "accept",
}  # fmt: skip
"""Which of these options stands for which key of the run config."""


def data_settings(
    context: typer.Context, data: str, data_dir: Path | None, label: str, group: str, accept: list[str] | None
) -> dict[str, Any]:
    """The settings that these options stand for. Raises ConfigError for one that would have no effect."""
    for option, given in (("--label", label), ("--group", group)):
        if given and not data_dir:
            raise ConfigError(f"{option} is for the files in --data-dir: add that, or leave {option} out")
    if data_dir and is_given(context, "data"):
        raise ConfigError("--data has no effect with --data-dir: leave it out")
    return {
        **(of_folder(data_dir) if data_dir else of_data_set(data)),
        "label-column": label,
        **({"group-column": group} if group else {}),
        **({"accept": tuple(accept)} if accept else {}),
    }
