"""How far an experiment is: a bar on a terminal, which every value that is measured moves on."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fedct_flwr.text.console import bar

_advance: list[Callable[[int], None]] = []


@contextmanager
def shown(name: str, command: str, kept: Path) -> Iterator[None]:
    """A bar for the experiment ``name``; how long it is, the results tell that are ``kept`` of the same command."""
    with bar(name, expected(command, kept)) as advance:
        _advance.append(advance)
        try:
            yield
        finally:
            _advance.clear()


def measured(values: int) -> None:
    """So many more are known; without a bar nothing happens."""
    for advance in _advance:
        advance(values)


def expected(command: str, kept: Path) -> int | None:
    """How many values the command measured when its results were written; None if they are of another one."""
    if not kept.exists():
        return None
    found = json.loads(kept.read_text("utf-8"))
    if found["command"] != command:
        return None
    return sum(len(values) for run in found["values"].values() for values in run.values())
