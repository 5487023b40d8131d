"""How far an experiment is, and what it has measured already: it can be stopped and run again."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed

from fedct_flwr.text.console import bar
from fedct_flwr.types import DataError

_SECONDS = 30.0
"""Between two lines where there is no terminal."""


@dataclass
class _Kept:
    """Lines about measurements by key, each with its values and seconds; without a ``path`` they stay in memory."""

    path: Path | None
    command: str = ""
    commit: str = ""
    lines: dict[str, dict[str, Any]] = field(default_factory=dict)

    def keep(self, key: str, values: Any, seconds: float) -> None:
        line = {"command": self.command, "commit": self.commit, "key": key, "values": values, "seconds": seconds}
        self.lines[key] = line
        if self.path:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


_advance: list[Callable[[int], None]] = []
_kept: list[_Kept] = []


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
        _kept.append(_Kept(partial, command, commit, known))
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
        return {line["key"]: {name: line[name] for name in ("values", "seconds")} for line in own}
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
    kept = _kept[0]
    if key not in kept.lines:
        start = spent()
        values = json.loads(json.dumps(measure()))
        kept.keep(key, values, round(spent() - start, 3))
    return kept.lines[key]["values"]


def ahead(jobs: int, asks: Sequence[Callable[[], object]]) -> None:
    """Measure in as many other processes what ``asks`` want by ``once``, and is not known yet."""
    if not _kept:
        return
    kept = _kept[0]
    lines = Parallel(jobs, return_as="generator_unordered")(delayed(_new)(ask, kept.lines) for ask in asks)
    for line in (line for part in lines for line in part):
        kept.keep(line["key"], line["values"], line["seconds"])
        measured(len(line["values"]))


def _new(ask: Callable[[], object], known: dict[str, Any]) -> list[dict[str, Any]]:
    _kept[:] = [_Kept(None, lines=dict(known))]
    ask()
    return [line for key, line in _kept[0].lines.items() if key not in known]


def spent() -> float:
    """Processor seconds of this process and of those that it has waited for: other programs do not count."""
    return sum(os.times()[:4])


def seconds() -> float:
    """Processor seconds of all measurements, also of those of an earlier run; 0 where none were kept."""
    return sum(line["seconds"] for kept in _kept for line in kept.lines.values())
