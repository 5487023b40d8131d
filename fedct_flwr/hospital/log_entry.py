"""An egress log as it lies on disk: what a line tells, what lines add up to, and whether all are as they were written.

A line is a JSON object, keys sorted, no spaces, ASCII:

- ``number`` (from 1), ``time`` (UTC), ``silo``
- ``event``, which is the decision: opened, approved, revoked, admitted, released, repeated, added, refused
- ``study``, ``public`` (fingerprint of its public set), ``run`` (Flower's id), ``round``, ``kind`` (hard: labels;
  counts: of votes; soft: probabilities; sum, count-sum: parts of sums of labels or votes),
  ``queries`` (labels of public examples; each vote that is counted is one, and each class's probability)
- ``bytes`` and ``payload`` (SHA-256) of what left; with a refusal that is the refusal itself, or 0 and nothing if it
  was not sent
- ``request``: SHA-256 of the whole question, as it came; empty where there was none, and in lines of earlier versions
- ``code``: hash of the code that the coordinator offered with the message, which is never executed
- ``reason``: why something was refused, a name of ``Refusal``; of ``Fault`` in a secure sum
- ``details``: with an approval, what was approved; with opened, SHA-256 of a query, of its result, and its records
- ``previous``: the hash of the line before; in the first line, a hash of the silo's name and its public key
- ``hash``: SHA-256 over all of the above; ``signature``: Ed25519 over the hash

Each line is chained to the one before, signed, and counted: ``egress.head`` holds the number of lines and the last
hash, signed, so lines missing at the end are noticed.

Formal guarantee: without the silo's private key no line can be changed, added, removed or moved, and the log cannot be
cut at its end, without ``verify_log`` saying so. A holder of the key can write another history, and a user who can
write to the folder can put back an older copy of both files together, or remove both: write down the last hash
elsewhere (``fedct silo verify`` prints it, and looks for it with ``--since``) to notice that.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from functools import reduce
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from fedct_flwr.text.printable import count
from fedct_flwr.types import RunError, SiloName

LOG_FILE: Final = "egress.jsonl"
REVOKED: Final = "revoked"
"""A file that withdraws the approval at once. The agent logs it within a second, or else the next command does."""
MAX_LINE_BYTES: Final = 1 << 16
TERMS: Final = "terms"
"""In the line of an approval: the digest of what is approved."""


class Event(StrEnum):
    """Kind of a line."""

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
    """The entry of a line's object. Raises BadLineError."""
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


class Used(NamedTuple):
    """Usage that counts towards the totals of a policy.

    A question counts with its round and its labels as soon as it is admitted, whatever becomes of it: what happens
    afterwards depends on the records. Every byte that leaves counts, those of repeated answers and of refusals too.
    """

    rounds: int = 0
    queries: int = 0
    bytes: int = 0

    def plus(self, entry: LogEntry) -> "Used":
        """With one more line of the log."""
        # An earlier version wrote no line for a question: its answer's line stands for both.
        counts = entry.event is Event.ADMITTED or (entry.event is Event.RELEASED and not entry.request)
        leaves = entry.event in _BYTES_LEAVE
        return Used(self.rounds + counts, self.queries + counts * entry.queries, self.bytes + leaves * entry.bytes)


class Total(NamedTuple):
    """A limit of all that ever left for a study and its public set, whatever was approved in between."""

    name: str
    """In documents, and in what the gate counts."""
    title: str
    """The counted things, at the beginning of a line."""
    of: Callable[[Used], int]
    """The count."""


TOTALS: Final[Mapping[str, Total]] = {
    "max_rounds": Total("rounds", "Rounds", attrgetter("rounds")),
    "max_queries": Total("labels", "Labels", attrgetter("queries")),
    "max_bytes": Total("bytes", "Bytes", attrgetter("bytes")),
}
"""By setting of the policy, and of the records."""


def digest_in(entry: LogEntry) -> bytes | None:
    """The digest (32 bytes) that this line approves; None for one that revokes, or approves nothing readable."""
    terms = entry.details.get(TERMS)
    if entry.event is not Event.APPROVED or not isinstance(terms, str):
        return None
    try:
        return bytes.fromhex(terms) or None
    except ValueError:
        return None


def spent(entries: Iterable[LogEntry]) -> Used:
    """Usage of the totals by these lines."""
    return reduce(Used.plus, entries, Used())


def is_revoked(state: Path) -> bool:
    """Whether the approval was withdrawn, and that does not stand in the log yet."""
    return (state / REVOKED).exists()


# --- proof

HEAD_FILE: Final = "egress.head"

_FIRST: Final = b"fedct egress log 1 "
_LINE: Final = b"fedct egress line 1 "
_HEAD: Final = b"fedct egress head 1 "


@dataclass(frozen=True)
class Chain:
    """Where a reader of the log stands: after line ``number`` with hash ``last``; the one before has ``previous``."""

    silo: SiloName
    public_key: Ed25519PublicKey
    number: int = 0
    last: str = ""
    previous: str = ""

    def __post_init__(self) -> None:
        if not self.number:
            raw = self.public_key.public_bytes(Encoding.Raw, PublicFormat.Raw)
            object.__setattr__(self, "last", hashlib.sha256(_FIRST + raw + self.silo.encode()).hexdigest())

    def after(self, line: bytes) -> Self:
        """The chain one line further. Raises BadLineError."""
        record = parse(line)
        try:
            claimed, signature = str(record.pop("hash")), bytes.fromhex(str(record.pop("signature")))
            digest = hashlib.sha256(canonical(record)).digest()
            written = canonical({**record, "hash": claimed, "signature": signature.hex()})
        except (KeyError, ValueError, RecursionError):
            raise BadLineError("it is not a line of the log") from None
        if digest.hex() != claimed or written != line:
            raise BadLineError("it was changed after it was written")
        try:
            self.public_key.verify(signature, _LINE + digest)
        except InvalidSignature:
            raise BadLineError("it is not signed with this silo's key") from None
        if record.get("silo") != self.silo:
            raise BadLineError("it belongs to another silo's log")
        if record.get("number") != self.number + 1 or record.get("previous") != self.last:
            raise BadLineError("it does not follow the line before it: lines were removed, added or moved")
        entry_of(record)
        return self._extended(digest.hex())

    def signed(self, entry: LogEntry, key: Ed25519PrivateKey) -> tuple[bytes, Self]:
        """The next line, and the chain with it. Raises ValueError if the entry's fields are no line."""
        body: dict[str, object] = {**asdict(entry), "silo": self.silo, "previous": self.last}
        entry_of(body)
        digest = hashlib.sha256(canonical(body)).digest()
        line = canonical({**body, "hash": digest.hex(), "signature": key.sign(_LINE + digest).hex()}) + b"\n"
        if len(line) > MAX_LINE_BYTES:
            raise ValueError("the line is too long for the egress log")
        return line, self._extended(digest.hex())

    def head(self, key: Ed25519PrivateKey) -> bytes:
        """The head's bytes for this chain."""
        body: dict[str, object] = {"silo": self.silo, "count": self.number, "last": self.last}
        return canonical({**body, "signature": key.sign(_HEAD + canonical(body)).hex()}) + b"\n"

    def _extended(self, digest: str) -> Self:
        return replace(self, number=self.number + 1, last=digest, previous=self.last)


@dataclass(frozen=True)
class LogVerdict:
    """Whether a log is intact. ``sentence`` says it in words.

    ``chain``: where its good lines end, after ``size`` bytes. ``bad_line``: the first that is not good (from 1), or is
    missing; None if the log is intact or if it is the head that is wrong. ``head_is_current``: the head knows of all
    lines. A last line that was cut short by a crash is no tampering: what it was to tell never left.
    """

    intact: bool
    sentence: str
    chain: Chain
    bad_line: int | None = None
    size: int = 0
    head_is_current: bool = False


def verify_log(folder: Path, public_key: Ed25519PublicKey, silo: SiloName) -> LogVerdict:
    """Read the log in ``folder`` from its first line to its last. Never raises, whatever the files hold.

    May be called while the agent writes. A folder with neither log nor head is that of a silo that never ran: intact.
    """
    chain = Chain(silo, public_key)
    try:
        if not (folder / LOG_FILE).exists():
            if (folder / HEAD_FILE).exists():
                return _broken(chain, f"{LOG_FILE} is missing, though {HEAD_FILE} tells of it", missing=True)
            return LogVerdict(True, "the log has not begun: nothing has left", chain)
        with (folder / LOG_FILE).open("rb") as file:
            return _examine_lines(file, folder / HEAD_FILE, chain)
    except OSError as error:
        return _broken(chain, f"the log cannot be read: {error.strerror}")


def _examine_lines(file: BinaryIO, head_path: Path, chain: Chain) -> LogVerdict:
    size, rest = 0, b""
    while True:
        before = chain.number
        # Bounded: a line without an end must not fill the memory.
        while (line := rest + file.readline(MAX_LINE_BYTES - len(rest))).endswith(b"\n"):
            rest = b""
            try:
                chain = chain.after(line[:-1])
            except NoiseError as why:
                head = _read_head(head_path, chain)
                if has_more(file) or head != _Head(chain.silo, chain.number, chain.last):
                    return _broken(chain, str(why), missing=True)
                # The last, and the head knows nothing of it: what a power cut leaves may well end with a line feed.
                return _judge(chain, size, head, cut_short=True)
            except BadLineError as why:
                return _broken(chain, str(why), missing=True)
            size += len(line)
        rest = line
        if len(rest) >= MAX_LINE_BYTES:
            return _broken(chain, "it is longer than any line of the log", missing=True)
        head = _read_head(head_path, chain)
        # While this read, the agent may have written; the head is read after the lines that it knows of.
        if chain.number == before and not has_more(file):
            break
    return _judge(chain, size, head, cut_short=bool(rest))


def _judge(chain: Chain, size: int, head: "_Head | None", cut_short: bool) -> LogVerdict:
    number = chain.number
    if head is None and number == 0 and not cut_short:
        return LogVerdict(True, "the log has not begun: nothing has left", chain)
    if head is None:
        return _broken(chain, f"{HEAD_FILE} is missing, so lines may be missing at the end")
    if head.silo != chain.silo:
        return _broken(chain, f"{HEAD_FILE} is damaged, or not signed with this silo's key")
    if head.count > number:
        return _broken(chain, f"it is missing: the log had {count(head.count, 'line')}", missing=True)
    if number - head.count > 1 or (cut_short and number != head.count):
        return _broken(chain, f"{HEAD_FILE} is older than the log: it tells of {count(head.count, 'line')}")
    if head.last != (chain.last if head.count == number else chain.previous):
        return _broken(chain, f"{HEAD_FILE} does not belong to this log")
    sentence = f"{count(number, 'line')}, each as it was written, and none is missing"
    if cut_short:
        sentence += "; after them a last line cut short by a crash, of which nothing left"
    return LogVerdict(True, sentence, chain, size=size, head_is_current=head.count == number)


def _broken(chain: Chain, why: str, *, missing: bool = False) -> LogVerdict:
    """The verdict on a log that is not intact; ``missing``: it is the next line that is wrong or not there."""
    line = chain.number + 1 if missing else None
    sentence = f"line {line}: {why}" if line else why
    return LogVerdict(False, sentence, chain, line)


@dataclass(frozen=True)
class _Head:
    """``silo`` is empty if the head is damaged, or not signed with the silo's key."""

    silo: SiloName
    count: int
    last: str


def _read_head(path: Path, chain: Chain) -> _Head | None:
    """The head, or None if there is none."""
    try:
        with path.open("rb") as file:
            line = file.read(MAX_LINE_BYTES)
    except FileNotFoundError:
        return None
    try:
        record = parse(line.removesuffix(b"\n"))
        signature = bytes.fromhex(str(record.pop("signature")))
        chain.public_key.verify(signature, _HEAD + canonical(record))
        silo, count, last = record["silo"], record["count"], record["last"]
        if isinstance(silo, str) and isinstance(count, int) and isinstance(last, str):
            return _Head(silo, count, last)
    except (KeyError, ValueError, RecursionError, InvalidSignature):
        pass
    return _Head("", 0, "")
