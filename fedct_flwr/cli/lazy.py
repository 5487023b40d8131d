"""Commands whose modules are imported when they are called, so that help and version do not wait for scikit-learn."""

import importlib
from collections.abc import Mapping
from typing import Any, Final

import click
import typer
from typer.core import TyperGroup

SETTINGS: Final = {"help_option_names": ["-h", "--help"]}


def lazy_commands(package: str, helps: Mapping[str, str]) -> type[TyperGroup]:
    """A class for ``typer.Typer(cls=...)`` with a command for each key of ``helps``, the first line of its help.

    Command ``start`` is the function ``start`` of the module ``start`` in ``package``, imported when it is called or
    its own help is asked for.
    """

    class Commands(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            for name, text in helps.items():
                # Stands for the command in the group's help.
                self.add_command(click.Command(name, help=text))

        def resolve_command(
            self, ctx: click.Context, args: list[str]
        ) -> tuple[str | None, click.Command | None, list[str]]:
            name, command, rest = super().resolve_command(ctx, args)
            return name, _load(package, name) if name and name in helps else command, rest

    return Commands


def _load(package: str, name: str) -> click.Command:
    function = name.replace("-", "_")
    module = importlib.import_module(f"{package}.{function}")
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False, context_settings=SETTINGS)
    single.command(name)(getattr(module, function))
    return typer.main.get_command(single)
