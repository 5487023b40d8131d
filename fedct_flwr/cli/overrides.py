"""What a command line says of a run's settings."""

import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from fedct_flwr.cli import complete
from fedct_flwr.types import ConfigError

Set: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Any other run-config key; repeat it for more. They are explained in fedct_flwr/config/run.py.",
        autocompletion=complete.keys,
    ),
]
"""Of each command that begins a run: what ``overrides`` reads."""

Resume: TypeAlias = Annotated[Path | None, typer.Option(help="Folder of an unfinished run to go on with.")]


def overrides(items: list[str]) -> dict[str, Any]:
    """``KEY=VALUE`` with a TOML value; what is no TOML is text. Raises ConfigError."""
    values: dict[str, Any] = {}
    for item in items:
        key, equals, text = (part.strip() for part in item.partition("="))
        if not equals:
            raise ConfigError(f"--set {item!r}: write KEY=VALUE")
        if key in ("resume", "run-dir"):
            raise ConfigError(f"{key} is no key to set: use --{key} with the folder of the run")
        try:
            values[key] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            values[key] = text
    return values


def only(rounds: int | None) -> dict[str, int]:
    """The number of rounds, if one was given."""
    return {} if rounds is None else {"num-server-rounds": rounds}


def refuse_options(context: typer.Context, allowed: Collection[str], why: str) -> None:
    """Raise ConfigError if an option was given that would have no effect."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source and source.name == "COMMANDLINE" and parameter.name not in allowed:
            raise ConfigError(f"{parameter.opts[0]} has no effect {why}: leave it out")
