"""Output of a command: tables and sentences for people, or one JSON document for programs.

All that commands print goes through ``echo`` or ``Output`` here. They escape what a terminal would obey or hide, as
names in it come from others.

With ``--json`` standard output has that document and nothing else; everything said by the way goes to standard error.
Exit codes are the same. A command that fails prints no document, but where its help says so. The documents' form is
in docs/reference/json.md.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer
from rich.console import RenderableType
from rich.markup import escape

from fedct_flwr.text.console import console
from fedct_flwr.text.printable import json_text, printable
from fedct_flwr.types import DataError, FedctError

PANEL: Final = "Output"
"""Where help shows options that say what is printed and what is written where."""

Json: TypeAlias = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON document, and all else on standard error.", rich_help_panel=PANEL),
]


def echo(text: str, *, data: bool = False) -> None:
    """Print a text with what a terminal would obey or hide escaped; ``data`` go into a file or pipe to the letter."""
    typer.echo(text if data and not sys.stdout.isatty() else printable(text, keep="\n"), nl=False)


def check_new(out: Path | None, *, force: bool | None = None) -> None:
    """Raise DataError if a file would be overwritten, or there is no folder for it.

    ``force``: whether ``--force`` allows to replace the file; None for a command without that option.
    """
    if out and os.path.lexists(out) and not (force and out.is_file()):
        instead = "take it away" if force is None else "replace it with --force"
        raise DataError(f"{out} exists: choose another file, or {instead}")
    if out and not out.absolute().parent.is_dir():
        raise DataError(f"there is no folder {out.parent}: make it, or choose another file")


class Output:
    """``console`` takes what is said by the way: standard output, or standard error if that is to be had alone."""

    def __init__(self, *, as_json: bool = False, to_stderr: bool = False) -> None:
        self.as_json = as_json
        self.console = console(stderr=as_json or to_stderr)

    def say(self, sentence: str) -> None:
        """One sentence, taken literally."""
        self.console.print(sentence, markup=False, soft_wrap=True)

    def warn(self, sentence: str) -> None:
        """One sentence in yellow."""
        self.console.print(f"[yellow]{escape(sentence)}[/]", soft_wrap=True)

    def show(self, document: Any, *shown: RenderableType) -> None:
        """The outcome: the document for programs, or the same for people."""
        if self.as_json:
            echo(json_text(document))
            return
        for item in shown:
            self.console.print(item)

    @staticmethod
    def doing(what: str) -> AbstractContextManager[object]:
        """Say what takes a moment, on standard error if that is a terminal; the message is erased at the end."""
        return console(stderr=True).status(escape(what))


def print_metrics(document: Callable[[], Mapping[str, Any]]) -> None:
    """Print a document's numbers for Prometheus in its text form, states among its texts; or that it is unreadable.

    A timer writes them into the folder of node_exporter's textfile collector: nothing here listens at a port.
    """
    try:
        lines = [*numbers(document()), "fedct_readable 1"]
    except (FedctError, OSError):
        lines = ["fedct_readable 0"]
    echo("".join(f"{line}\n" for line in lines))


def numbers(value: Any, name: str = "fedct", silo: str = "") -> Iterator[str]:
    """A line for each number in a document, named after its keys; unknown ones (None) are left out.

    >>> list(numbers({"silos": [{"silo": "essen", "state": "online", "log": {"lines": 3}}]}))
    ['fedct_silos_state{silo="essen",state="online"} 1', 'fedct_silos_log_lines{silo="essen"} 3']
    """
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key == "state":
                yield f'{name}_state{{silo="{value.get("silo", silo)}",state="{inner}"}} 1'
            else:
                yield from numbers(inner, re.sub(r"\W", "_", f"{name}_{key}"), value.get("silo", silo))
    elif isinstance(value, list):
        for inner in value:
            yield from numbers(inner, name, silo)
    elif isinstance(value, int | float):
        yield f'{name}{{silo="{silo}"}} {+value}' if silo else f"{name} {+value}"
