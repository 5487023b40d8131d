"""How far an experiment is, and what it has measured already: it can be stopped and run again."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedct_flwr.text.console import bar
from fedct_flwr.types import DataError

_SECONDS = 30.0
"""Between two lines where there is no terminal."""

_advance: list[Callable[[int], None]] = []
_kept: list[tuple[Path, dict[str, Any]]] = []


@contextmanager
def shown(name: str, command: str, results: Path, commit: str) -> Iterator[None]:
    """A bar for the experiment ``name``, or lines without a terminal.

    Until the command ends, its own measurements stand next to the results. Raises DataError for measurements of another
    commit, and for a damaged file.
    """
    partial = results.with_suffix(".partial.jsonl")
    known = _known(partial, command, commit) if partial.exists() else {}
    partial.parent.mkdir(parents=True, exist_ok=True)
    with bar(name, None) as advance:
        _advance.append(advance if sys.stderr.isatty() else _lines(name))
        _kept.append((partial, {"command": command, "commit": commit, "known": known}))
        try:
            yield
        finally:
            _advance.clear()
            _kept.clear()
    partial.unlink(missing_ok=True)


def _known(partial: Path, command: str, commit: str) -> dict[str, Any]:
    try:
        lines = [json.loads(line) for line in partial.read_text("utf-8").splitlines()]
        own = [line for line in lines if line["command"] == command]
        if others := {line["commit"] for line in own} - {commit}:
            raise DataError(
                f"{partial} has measurements of commit {min(others)}, and the sources are at {commit}: delete the "
                "file, or go back to that commit"
            )
        return {line["key"]: line["values"] for line in own}
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{partial} is damaged: delete the file to measure all of it again") from error


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
            line = {"command": found["command"], "commit": found["commit"], "key": key, "values": values}
            file.write(json.dumps(line) + "\n")
        found["known"][key] = values
    return found["known"][key]
