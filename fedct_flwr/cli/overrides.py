"""What a command line says of a run's settings."""

import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from fedct_flwr.config import RunConfig
from fedct_flwr.learners.catalog import code_of_file
from fedct_flwr.types import ConfigError

Set: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Any other run-config key; repeat it for more. They are explained in fedct_flwr/config/run.py, and those "
        "of an algorithm in its own file.",
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
            raise ConfigError(f"{key} is no key to set: use --{key} with the folder of the run")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except (ValueError, RecursionError):
            value = text
        for_text = isinstance(defaults.get(key), str) and not isinstance(value, list)
        values[key] = text if not isinstance(value, str) and (for_text or isinstance(value, dict)) else value
    return values


def refuse_twice(context: typer.Context, given: Collection[str], options: Mapping[str, str]) -> None:
    """Raise ConfigError for a key that is set although its option is given as well; ``options`` names that by key."""
    for key in given:
        if key in options and is_given(context, options[key]):
            option = next(p.opts[0] for p in context.command.params if p.name == options[key])
            raise ConfigError(f"{option} and --set {key} are the same: give one of them")


def is_given(context: typer.Context, parameter: str) -> bool:
    """Whether the command line has this option."""
    source = context.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"


def only(rounds: int | None) -> dict[str, int]:
    """The number of rounds, if one was given."""
    return {} if rounds is None else {"num-server-rounds": rounds}


def trusting(settings: Mapping[str, Any]) -> str:
    """The options with which a run of these settings may run its learners' code when it is resumed."""
    names = (settings.get(key, ()) for key in ("learner", "student"))
    flat = [name for one in names for name in (one.split(",") if isinstance(one, str) else one) if name]
    return "".join(f" --package {needed}" for needed in code_of_file(flat))


def refuse_options(context: typer.Context, allowed: Collection[str], why: str) -> None:
    """Raise ConfigError if an option was given that would have no effect."""
    for parameter in context.command.params:
        if is_given(context, parameter.name or "") and parameter.name not in allowed:
            raise ConfigError(f"{parameter.opts[0]} has no effect {why}: leave it out")
