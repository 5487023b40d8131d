"""One line of an egress log: what it tells, how it is written, how it is read again, and what lines add up to.

A line is a JSON object, keys sorted, no spaces, ASCII:

- ``number`` (from 1), ``time`` (UTC), ``silo``
- ``event``, which is the decision: opened, approved, revoked, admitted, released, repeated, added, refused
- ``study``, ``public`` (fingerprint of its public set), ``run`` (Flower's id), ``round``, ``kind`` (hard: labels;
  counts: of votes; soft: probabilities; sum, count-sum, soft-sum: parts of sums of labels, votes or probabilities),
  ``queries`` (labels of public examples; each vote that is counted is one, and each class's probability)
- ``bytes`` and ``payload`` (SHA-256) of what left; with a refusal that is the refusal itself, or 0 and nothing if it
  was not sent
- ``request``: SHA-256 of the whole question, as it came; empty where there was none, and in lines of earlier versions
- ``code``: hash of the code that the coordinator offered with the message, which is never executed
- ``reason``: why something was refused, a name of ``Refusal``; of ``Fault`` in a secure sum
- ``details``: with an approval, what was approved; with opened, SHA-256 of a query, of its result, and its records
- ``previous``: the hash of the line before; in the first line, a hash of the silo's name and its public key
- ``hash``: SHA-256 over all of the above; ``signature``: Ed25519 over the hash
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import reduce
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from fedct_flwr.types import RunError

LOG_FILE: Final = "egress.jsonl"
REVOKED: Final = "revoked"
"""A file that withdraws the approval at once. The agent logs it within a second, or else the next command does."""
MAX_LINE_BYTES: Final = 1 << 16


class Event(StrEnum):
    """What a line tells."""

    OPENED = "opened"
    """The agent began its work."""
    APPROVED = "approved"
    REVOKED = "revoked"
    ADMITTED = "admitted"
    """A question was let in. From here on its round and its labels count, whether or not an answer leaves."""
    RELEASED = "released"
    """Labels left."""
    REPEATED = "repeated"
    """The very bytes of an earlier line left once more."""
    ADDED = "added"
    """A message of a secure sum left (bytes above 0), or is about to: then ``request`` is the question that is used up.
    """
    REFUSED = "refused"
    """No labels left, but the number of the reason, or nothing at all."""


@dataclass(frozen=True)
class LogEntry:
    """One line; its fields are explained at the top of this file. ``number`` and ``time`` are filled in by the log."""

    event: Event
    study: str = ""
    public: str = ""
    run: int = 0
    round: int = 0
    kind: str = ""
    queries: int = 0
    bytes: int = 0
    payload: str = ""
    code: str = ""
    reason: str = ""
    request: str = ""
    details: Mapping[str, object] = field(default_factory=dict)
    number: int = 0
    time: str = ""


class BadLineError(ValueError):
    """Why a line is not a line of the log."""


class NoiseError(BadLineError):
    """The same for one that is not even a JSON object, so no version of the package wrote it."""


def read_entries(folder: Path) -> Iterator[LogEntry]:
    """The whole lines of a log, first to last, unverified; for reading while the agent writes.

    Raises RunError for a line of another form.
    """
    path = folder / LOG_FILE
    try:
        with path.open("rb") as file:
            yield from _entries(file, path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from None


def _entries(file: BinaryIO, path: Path) -> Iterator[LogEntry]:
    number = 0
    while (line := file.readline(MAX_LINE_BYTES)).endswith(b"\n"):
        number += 1
        try:
            yield entry_of(parse(line[:-1]))
        except NoiseError as why:
            # The last one was cut short by a crash, or so it seems without verification.
            if has_more(file):
                raise _unreadable(number, path, why) from None
            return
        except BadLineError as why:
            raise _unreadable(number, path, why) from None
    if len(line) >= MAX_LINE_BYTES:
        raise RunError(f"line {number + 1} of {path} is too long to be one of the log: see 'fedct silo verify'")


def has_more(file: BinaryIO) -> bool:
    """Whether the file goes on after what was read of it."""
    position = file.tell()
    return os.fstat(file.fileno()).st_size > position


def _unreadable(number: int, path: Path, why: BadLineError) -> RunError:
    return RunError(f"line {number} of {path} cannot be read ({why}): see 'fedct silo verify'")


def parse(line: bytes) -> dict[str, object]:
    """The JSON object of a line. Raises NoiseError."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise NoiseError("it is not a line of the log")
    return record


_LATER: Final = {"request": ""}
"""Fields that lines of earlier versions do not have, and what these lines say by that."""
_FIELDS: Final = {spec.name: (dict if spec.name == "details" else type(spec.default)) for spec in fields(LogEntry)}


def entry_of(record: Mapping[str, object]) -> LogEntry:
    """What a line's object tells. Raises BadLineError."""
    values = {name: record.get(name, _LATER.get(name)) for name in _FIELDS}
    try:
        event = Event(str(values.pop("event")))
    except ValueError:
        raise BadLineError("it tells of an event that this version does not know") from None
    if any(type(value) is not _FIELDS[name] for name, value in values.items()):
        raise BadLineError("it lacks a field, or has one of another type")
    return LogEntry(event, **values)  # type: ignore[arg-type]  # checked one line above


def canonical(record: Mapping[str, object]) -> bytes:
    """The one way to write a record. Raises ValueError for numbers that JSON does not know."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


# --- what lines add up to

_BYTES_LEAVE: Final = (Event.RELEASED, Event.REPEATED, Event.ADDED, Event.REFUSED)


class Spent(NamedTuple):
    """What counts towards the totals of a policy.

    A question counts with its round and its labels as soon as it is admitted, whatever becomes of it: what happens
    afterwards depends on the records. Every byte that leaves counts, those of repeated answers and of refusals too.
    """

    rounds: int = 0
    queries: int = 0
    bytes: int = 0

    def plus(self, entry: LogEntry) -> "Spent":
        """With one more line of the log."""
        # An earlier version wrote no line for a question: its answer's line stands for both.
        counts = entry.event is Event.ADMITTED or (entry.event is Event.RELEASED and not entry.request)
        leaves = entry.event in _BYTES_LEAVE
        return Spent(self.rounds + counts, self.queries + counts * entry.queries, self.bytes + leaves * entry.bytes)


def spent(entries: Iterable[LogEntry]) -> Spent:
    """What counts towards the totals by these lines."""
    return reduce(Spent.plus, entries, Spent())


def is_revoked(state: Path) -> bool:
    """Whether the approval was withdrawn, and that does not stand in the log yet."""
    return (state / REVOKED).exists()
