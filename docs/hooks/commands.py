"""The reference of the command line, from the commands themselves."""

from collections.abc import Iterator
from typing import Final

import click
import typer

from fedct_flwr.cli import main

_HEAD: Final = """\
# Commands

Made from the commands themselves; `fedct COMMAND --help` prints the same.

## Exit codes

An error is one sentence on standard error, and the exit code says of which kind it is.

"""


def commands_page() -> str:
    """The page, as Markdown."""
    group = typer.main.get_command(main.app)
    # The table of exit codes.
    _, _, table = (main.__doc__ or "").partition("\n\n")
    return f"{_HEAD}{table.replace('``', '`')}\n" + "\n".join(_sections(click.Context(group, info_name="fedct")))


def _sections(context: click.Context) -> Iterator[str]:
    """A section for the command of this context, and for those below it."""
    command = context.command
    if context.parent:
        yield f"## {context.command_path}\n\n{_text(command.help or '')}\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            # Resolving the name loads the command itself; until then something else stands for it.
            _, found, _ = command.resolve_command(context, [name])
            if found:
                yield from _sections(click.Context(found, parent=context, info_name=name))
        return
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"```text\n{context.command_path} {usage}\n```\n"
    rows = [record for parameter in command.params if (record := parameter.get_help_record(context))]
    yield "| | |\n| --- | --- |\n" + "".join(f"| `{_cell(names)}` | {_text(_cell(said))} |\n" for names, said in rows)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _text(text: str) -> str:
    """Help as Markdown takes it: what is in brackets is no link and no style, what is in angle brackets no tag."""
    return text.replace("\\[", "[").replace("[", "\\[").replace("<", "&lt;").replace("*", "\\*")
