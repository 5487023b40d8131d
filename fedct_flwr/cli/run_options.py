"""Options of the command line for a run's settings."""

import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer

from fedct_flwr.config.run import RunConfig
from fedct_flwr.learners.catalog import code_of_file, named_in
from fedct_flwr.simulation.silos import of_data_set, of_folder
from fedct_flwr.types import ConfigError

Set: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Any run-config key, also one that an option stands for; repeat it for more. They are explained in "
        "fedct_flwr/config/run.py, and those of an algorithm in its own file.",
    ),
]
"""Of each command that begins a run: what ``overrides`` reads."""

Package: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(help="A package whose code may run, as a learner or model needs it. Only from those you trust."),
]
Resume: TypeAlias = Annotated[Path | None, typer.Option(help="Folder of an unfinished run to go on with.")]


def overrides(items: list[str]) -> dict[str, Any]:
    """``KEY=VALUE`` with a TOML value; what is no TOML is text, and so is any value of a key for text.

    Raises ConfigError.

    >>> overrides(["quorum=0.5", "study=2024", "student-params={}", "roster=[]"])
    {'quorum': 0.5, 'study': '2024', 'student-params': '{}', 'roster': []}
    """
    # The study's name has no default.
    defaults = {"study": "", **RunConfig.defaults()}
    values: dict[str, Any] = {}
    for item in items:
        key, equals, text = (part.strip() for part in item.partition("="))
        if not equals:
            raise ConfigError(f"--set {item!r}: write KEY=VALUE")
        if key in ("resume", "run-dir"):
            raise ConfigError(f"{key} cannot be set: use --{key} with the folder of the run")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except (ValueError, RecursionError):
            value = text
        for_text = isinstance(defaults.get(key), str) and not isinstance(value, list)
        values[key] = text if not isinstance(value, str) and (for_text or isinstance(value, dict)) else value
    return values


def is_given(context: typer.Context, parameter: str) -> bool:
    """Whether the command line has this option."""
    source = context.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"


def only(rounds: int | None) -> dict[str, int]:
    """The number of rounds, if one was given."""
    return {} if rounds is None else {"num-server-rounds": rounds}


def trusting(settings: Mapping[str, Any]) -> str:
    """The options with which a run of these settings may run its learners' code when it is resumed."""
    return "".join(f" --package {needed}" for needed in code_of_file(named_in(settings)))


def refuse_options(context: typer.Context, allowed: Collection[str], why: str) -> None:
    """Raise ConfigError if an option was given that would have no effect."""
    for parameter in context.command.params:
        if is_given(context, parameter.name or "") and parameter.name not in allowed:
            raise ConfigError(f"{parameter.opts[0]} has no effect {why}: leave it out")


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
        help="A finding about the files to accept, by name: CODE or CODE:COLUMN; repeat it for more. fedct "
        "inspect shows them.",
        rich_help_panel=DATA,
    ),
]


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
