"""The recorded runs as files: JSON, a line for each message, round and so on, so that differences can be read."""

import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from tests.golden.record import Record

RECORDED: Final = Path(__file__).parent / "recorded"
LARGEST: Final = 350_000
"""Bytes of all files together."""

_TOGETHER: Final = ("messages", "charges", "egress")
"""Parts with an entry for each silo."""
_AND: Final = " & "


def path_of(name: str) -> Path:
    """Where a record is kept."""
    return RECORDED / f"{name}.json"


def read(name: str) -> Record:
    """What was recorded under this name."""
    try:
        kept: Record = json.loads(path_of(name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise AssertionError(f"{name!r} was never recorded: run 'python -m tests.golden {name}'") from None
    return {key: _apart(part) if key in _TOGETHER else part for key, part in kept.items()}


def to_text(found: Record) -> str:
    """A record as it is kept. What several silos have alike is written once."""
    parts = (
        f"{json.dumps(key)}: {_lines(_together(part) if key in _TOGETHER else part)}" for key, part in found.items()
    )
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _lines(part: Any) -> str:
    if isinstance(part, dict) and part:
        return "{\n" + ",\n".join(f" {json.dumps(key)}: {_line(inner)}" for key, inner in part.items()) + "\n}"
    if isinstance(part, list) and part:
        return "[\n" + ",\n".join(f" {_line(inner)}" for inner in part) + "\n]"
    return _line(part)


def _line(part: Any) -> str:
    return json.dumps(part, separators=(",", ":"))


def _together(part: Record) -> Record:
    """One entry for neighbours that have the same: ``to a`` and ``to b`` become ``to a & b``."""
    kept = {}
    for (prefix, text), same in groupby(part.items(), key=lambda item: (_prefix(item[0]), json.dumps(item[1]))):
        kept[prefix + _AND.join(key.removeprefix(prefix) for key, _ in same)] = json.loads(text)
    return kept


def _apart(part: Record) -> Record:
    return dict(_each(part))


def _each(part: Record) -> Iterator[tuple[str, Any]]:
    for keys, said in part.items():
        first, *others = keys.split(_AND)
        for key in (first, *(_prefix(first) + other for other in others)):
            yield key, said


def _prefix(key: str) -> str:
    """All but the last word."""
    return key[: key.rfind(" ") + 1]
