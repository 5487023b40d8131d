"""How far an experiment is, and what it has measured already: it can be stopped and run again."""

import json
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from fedct_flwr.text.console import bar

_SECONDS = 30.0
"""Between two lines where there is no terminal."""

_advance: list[Callable[[int], None]] = []
_kept: list[tuple[Path, dict[str, Any]]] = []


@contextmanager
def shown(name: str, command: str, results: Path) -> Iterator[None]:
    """A bar for the experiment ``name``, or lines without a terminal.

    Until the command ends, its own measurements stand next to the results.
    """
    partial = results.with_suffix(".partial.jsonl")
    lines = [json.loads(line) for line in partial.read_text("utf-8").splitlines()] if partial.exists() else []
    known = {line["key"]: line["values"] for line in lines if line["command"] == command}
    partial.parent.mkdir(parents=True, exist_ok=True)
    with bar(name, None) as advance:
        _advance.append(advance if sys.stderr.isatty() else _lines(name))
        _kept.append((partial, {"command": command, "known": known}))
        try:
            yield
        finally:
            _advance.clear()
            _kept.clear()
    partial.unlink(missing_ok=True)


def _lines(name: str) -> Callable[[int], None]:
    done, said, start = 0, time.monotonic(), time.monotonic()

    def advance(values: int) -> None:
        nonlocal done, said
        done += values
        if time.monotonic() - said >= _SECONDS:
            said = time.monotonic()
            print(f"{name}: {done} values after {said - start:.0f} s", file=sys.stderr, flush=True)

    return advance


def measured(values: int) -> None:
    """So many more are known; without a bar nothing happens."""
    for advance in _advance:
        advance(values)


def once(key: str, measure: Callable[[], Any]) -> Any:
    """The value of ``measure`` as JSON: measured now, or by an earlier run of this command that was stopped."""
    if not _kept:
        return measure()
    path, found = _kept[0]
    if key not in found["known"]:
        values = json.loads(json.dumps(measure()))
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"command": found["command"], "key": key, "values": values}) + "\n")
        found["known"][key] = values
    return found["known"][key]


def chosen(rows: Sequence[str], default: Sequence[str], known: Collection[str]) -> Sequence[str]:
    """The rows that ``--row`` names, or the experiment's own. Raises BadParameter for one that it has not."""
    if unknown := [row for row in rows if row not in known]:
        raise typer.BadParameter(f"no row {unknown[0]!r}: there are {', '.join(known)}", param_hint="--row")
    return rows or default
