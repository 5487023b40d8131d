"""Commands whose modules are imported when they are called, so that help and version do not wait for scikit-learn."""

import ast
import importlib
import importlib.util
import inspect
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final, get_type_hints

import click
import typer
from rich.markup import escape
from typer.core import TyperGroup
from typer.models import ArgumentInfo

from fedct_flwr.types import ConfigError

SETTINGS: Final = {"help_option_names": ["-h", "--help"]}
_GONE: Final = {
    "doctor": "'pip check' compares packages, and 'fedct silo check' looks at a silo's machine",
    "renew": "'fedct silo join INVITATION FOLDER' takes new certificates",
    "rotate": "for a new key, 'fedct coordinator unregister' the silo, 'invite' it again, and 'fedct silo join' there",
}
"""Commands of before, with the ones that serve now."""


def lazy_commands(
    package: str, names: Collection[str], modules: Mapping[str, str], panels: Mapping[str, str] | None = None
) -> type[TyperGroup]:
    """A class for ``typer.Typer(cls=...)`` with these commands, which help lists in this order.

    Command ``start`` is the function ``start`` of a module in ``package``, ``start`` itself unless ``modules`` names
    another. It is imported when it is called or its own help is asked for. ``panels`` says below which title help shows
    a command.
    """

    def module_of(name: str) -> str:
        return f"{package}.{modules.get(name, name.replace('-', '_'))}"

    class Commands(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            # Where click proposes what was meant, Typer would say it again.
            self.suggest_commands = not hasattr(click.exceptions, "NoSuchCommand")
            for name in names:
                # Stands for the command in the group's help.
                command = click.Command(name)
                if panels and name in panels:
                    # Where Typer looks for it.
                    vars(command)["rich_help_panel"] = panels[name]
                self.add_command(command)

        def list_commands(self, ctx: click.Context) -> list[str]:
            return [*names, *(name for name in super().list_commands(ctx) if name not in names)]

        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
            command = super().get_command(ctx, cmd_name)
            if command and cmd_name in names:
                command.help = _summary(module_of(cmd_name), cmd_name.replace("-", "_"))
            return command

        def resolve_command(
            self, ctx: click.Context, args: list[str]
        ) -> tuple[str | None, click.Command | None, list[str]]:
            if args and args[0] in _GONE:
                raise ConfigError(f"there is no command {args[0]!r}: {_GONE[args[0]]}")
            name, command, rest = super().resolve_command(ctx, args)
            if name and name in names:
                command = load_command(name, module_of(name))
            return name, command, rest

    return Commands


def _summary(module: str, function: str) -> str:
    """The first paragraph of a function's docstring, read without importing its module."""
    spec = importlib.util.find_spec(module)
    tree = ast.parse(Path(str(spec and spec.origin)).read_bytes())
    (found,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function)
    return escape(" ".join((ast.get_docstring(found) or "").partition("\n\n")[0].split()))


def lazy_group(package: str, names: Collection[str], modules: Mapping[str, str], about: str) -> typer.Typer:
    """A group of such commands, in a folder of their own; ``about`` is its help."""
    return typer.Typer(
        cls=lazy_commands(package, names, modules),
        help=about,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings=SETTINGS,
    )


def load_command(name: str, module: str) -> click.Command:
    """The command itself. Its help is the function's docstring, each paragraph in one line.

    Rich would take words in brackets, such as [draw], for markup.
    """
    function = getattr(importlib.import_module(module), name.replace("-", "_"))
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False, context_settings=SETTINGS)
    single.command(name)(function)
    command = typer.main.get_command(single)
    # Typer breaks the lines of all paragraphs but the first where the docstring does.
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    command.help = escape("\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs))
    _explain_arguments(command, function)
    for parameter in command.params:
        if said := getattr(parameter, "help", None):
            vars(parameter)["help"] = escape(said)
    return command


def _explain_arguments(command: click.Command, function: Callable[..., Any]) -> None:
    """Give arguments their help back, which this Typer loses with the newest click."""
    hints = get_type_hints(function, include_extras=True)
    for parameter in command.params:
        for info in getattr(hints.get(parameter.name or ""), "__metadata__", ()):
            if isinstance(info, ArgumentInfo) and isinstance(parameter, click.Argument) and info.help:
                vars(parameter)["help"] = info.help
