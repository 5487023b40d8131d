"""What left the silo, and what was kept back: a log that can be read by anybody and changed by nobody unnoticed.

``egress.jsonl`` has one JSON object a line, keys sorted, no spaces, ASCII:

- ``number`` (from 1), ``time`` (UTC), ``silo``
- ``event``, which is the decision: opened, approved, revoked, released, repeated, refused
- ``study``, ``public`` (fingerprint of its public set), ``run`` (Flower's id), ``round``, ``kind`` (hard),
  ``queries`` (labels of public examples)
- ``bytes`` and ``payload`` (SHA-256) of what left; with a refusal that is the refusal itself
- ``code``: hash of the code that the coordinator offered with the message, which is never executed
- ``reason``: why something was refused, a name of ``Refusal``
- ``details``: with an approval, what was approved
- ``previous``: the hash of the line before; in the first line, a hash of the silo's name and its public key
- ``hash``: SHA-256 over all of the above; ``signature``: Ed25519 over the hash

``egress.head`` holds the number of lines and the last hash, signed: lines missing at the end are noticed.

Formal guarantee: without the silo's private key no line can be changed, added, removed or moved, and the log cannot be
cut at its end, without ``verify_log`` saying so. Whoever holds the key can write another history, and whoever can
write to the folder can put back an older copy of both files together, or remove both: write down the last hash
elsewhere (``fedct silo verify`` prints it, and looks for it with ``--since``) to notice that.

Order of writing: the line, fsync, the head. So after a crash the log is at most one whole line ahead of its head, and
a last line that was cut short, or that a power cut left as noise, stands for something that never left.
"""

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, Final, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from filelock import FileLock, Timeout

from fedct_flwr.atomic import write_atomically
from fedct_flwr.types import RunError, SiloName

LOG_FILE: Final = "egress.jsonl"
HEAD_FILE: Final = "egress.head"
LOCK_FILE: Final = "agent.lock"

MAX_LINE_BYTES: Final = 1 << 16

_FIRST: Final = b"fedct egress log 1 "
_LINE: Final = b"fedct egress line 1 "
_HEAD: Final = b"fedct egress head 1 "


class Event(StrEnum):
    """What a line tells."""

    OPENED = "opened"
    """The agent began its work."""
    APPROVED = "approved"
    REVOKED = "revoked"
    RELEASED = "released"
    """Labels left."""
    REPEATED = "repeated"
    """The very bytes of an earlier line left once more."""
    REFUSED = "refused"
    """No labels left, but the number of the reason."""


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
    details: Mapping[str, object] = field(default_factory=dict)
    number: int = 0
    time: str = ""


@dataclass(frozen=True)
class Verdict:
    """Whether a log is intact. ``sentence`` says it in words.

    ``lines``: how many are good, from the first on. ``bad_line``: the first that is not (from 1), or that is missing;
    None if the log is intact or if it is the head that is wrong. ``last``: hash of the last good line, to write down.
    ``cut_short``: a last line was cut short by a crash, which is no tampering: what it was to tell never left.
    """

    intact: bool
    lines: int
    sentence: str
    bad_line: int | None = None
    last: str = ""
    cut_short: bool = False


def verify_log(folder: Path, public_key: Ed25519PublicKey, silo: SiloName) -> Verdict:
    """Read the log in ``folder`` from its first line to its last. Never raises, whatever the files hold.

    May be called while the agent writes. A folder with neither log nor head is that of a silo that never ran: intact.
    """
    return _examine(folder, public_key, silo).verdict


def read_entries(folder: Path) -> Iterator[LogEntry]:
    """The whole lines of a log, first to last, unverified; for reading while the agent writes.

    Raises RunError for a line that is none.
    """
    path = folder / LOG_FILE
    try:
        with path.open("rb") as file:
            yield from _entries(file, path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from None


class EgressLog:
    """The log, open for writing. There is one writer at a time; ``close`` lets the next one in."""

    def __init__(self, path: Path, silo: SiloName, key: Ed25519PrivateKey, lock: FileLock) -> None:
        """Use ``EgressLog.open``."""
        self.path = path
        self._silo = silo
        self._key = key
        self._lock = lock
        self._file = -1
        self._size = 0
        self._chain = _Chain(silo, key.public_key())
        self._unusable = False
        self._writing = threading.Lock()
        self._followers: list[Callable[[LogEntry], None]] = []

    @classmethod
    def open(cls, folder: Path, silo: SiloName, key: Ed25519PrivateKey) -> Self:
        """Open the log in ``folder``, or begin one. What a crash left half done is put right.

        Raises RunError if another process writes here, if the log is not intact, or if it cannot be written.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Held by the process, not by whichever of its threads asked for it.
            lock = FileLock(folder / LOCK_FILE, thread_local=False)
            lock.acquire(blocking=False)
        except Timeout:
            raise RunError(f"another process of this silo is at work in {folder}: stop its agent first") from None
        except OSError as error:
            raise RunError(f"cannot write to {folder}: {error.strerror}") from None
        log = cls(folder / LOG_FILE, silo, key, lock)
        try:
            log._begin()
        except OSError as error:
            log.close()
            raise RunError(f"cannot write the egress log in {folder}: {error.strerror}") from None
        except BaseException:
            log.close()
            raise
        return log

    def close(self) -> None:
        """Let another process write. Closing twice does no harm."""
        # Not in the middle of a line: the number of a file that is closed may be another file's at once.
        with self._writing:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(self, entry: LogEntry) -> LogEntry:
        """Add a line; once this returns it outlasts a power cut. Returns the entry with its number and time.

        Raises OSError if it cannot be written, ValueError if its fields are no line: then the log is as it was before,
        and the next line can be written as soon as there is room.
        """
        with self._writing:
            written = self._append(entry)
        for follow in self._followers:
            follow(written)
        return written

    def entries(self) -> Iterator[LogEntry]:
        """All lines so far, first to last, one at a time from disk."""
        return read_entries(self.path.parent)

    def follow(self, follower: Callable[[LogEntry], None]) -> None:
        """Call ``follower`` with each line so far, and from now on with each line as soon as it is on disk."""
        for entry in self.entries():
            follower(entry)
        self._followers.append(follower)

    def _begin(self) -> None:
        found = _examine(self.path.parent, self._key.public_key(), self._silo)
        if not found.verdict.intact:
            raise RunError(
                f"the egress log in {self.path.parent} is not intact ({found.verdict.sentence}): nothing may leave "
                "until that is cleared up; see 'fedct silo verify'"
            )
        self._chain = found.chain
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o600)
        self._size = found.size
        if os.fstat(self._file).st_size != self._size:
            os.ftruncate(self._file, self._size)
            os.fsync(self._file)
        if not found.head_is_current:
            self._write_head(self._chain)

    def _append(self, entry: LogEntry) -> LogEntry:
        self._check_still_there()
        entry = replace(entry, number=self._chain.number + 1, time=datetime.now(UTC).isoformat(timespec="milliseconds"))
        body: dict[str, object] = {**asdict(entry), "silo": self._silo, "previous": self._chain.last}
        _entry(body)
        digest = hashlib.sha256(_canonical(body)).digest()
        line = _canonical({**body, "hash": digest.hex(), "signature": self._key.sign(_LINE + digest).hex()}) + b"\n"
        if len(line) > MAX_LINE_BYTES:
            raise ValueError("the line is too long for the egress log")
        chain = self._chain.extended(digest.hex())
        try:
            _write_all(self._file, line)
            os.fsync(self._file)
            self._write_head(chain)
        except BaseException as error:
            if not self._head_is(chain):
                self._undo()
                raise
            # The new head had taken its place before it failed: line and head agree, the line stands.
            self._chain, self._size = chain, self._size + len(line)
            if isinstance(error, OSError):
                return entry
            raise
        self._chain = chain
        self._size += len(line)
        return entry

    def _check_still_there(self) -> None:
        """Raise OSError if lines would go where nobody finds them, or after something that others wrote."""
        if self._file < 0 or self._unusable:
            raise OSError("the egress log is closed, or an error could not be undone: start the agent again")
        here, there = os.fstat(self._file), self.path.stat()
        if (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino) or here.st_size != self._size:
            raise OSError("the egress log was changed while the agent was at work")

    def _undo(self) -> None:
        # The log is then one line ahead of its head at most, which the next start accepts; but it must not go on.
        try:
            os.ftruncate(self._file, self._size)
            os.fsync(self._file)
        except OSError:
            self._unusable = True

    def _write_head(self, chain: "_Chain") -> None:
        write_atomically(self.path.with_name(HEAD_FILE), self._head_of(chain))

    def _head_is(self, chain: "_Chain") -> bool:
        try:
            return self.path.with_name(HEAD_FILE).read_bytes() == self._head_of(chain)
        except OSError:
            return False

    def _head_of(self, chain: "_Chain") -> bytes:
        body: dict[str, object] = {"silo": self._silo, "count": chain.number, "last": chain.last}
        return _canonical({**body, "signature": self._key.sign(_HEAD + _canonical(body)).hex()}) + b"\n"


@dataclass(frozen=True)
class _Chain:
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
        """The chain one line further. Raises _BadLine."""
        record = _parse(line)
        try:
            claimed, signature = str(record.pop("hash")), bytes.fromhex(str(record.pop("signature")))
            digest = hashlib.sha256(_canonical(record)).digest()
            written = _canonical({**record, "hash": claimed, "signature": signature.hex()})
        except (KeyError, ValueError, RecursionError):
            raise _BadLine("it is not a line of the log") from None
        if digest.hex() != claimed or written != line:
            raise _BadLine("it was changed after it was written")
        try:
            self.public_key.verify(signature, _LINE + digest)
        except InvalidSignature:
            raise _BadLine("it is not signed with this silo's key") from None
        if record.get("silo") != self.silo:
            raise _BadLine("it belongs to another silo's log")
        if record.get("number") != self.number + 1 or record.get("previous") != self.last:
            raise _BadLine("it does not follow the line before it: lines were removed, added or moved")
        _entry(record)
        return self.extended(digest.hex())

    def extended(self, digest: str) -> Self:
        """The chain with a line of this hash."""
        return replace(self, number=self.number + 1, last=digest, previous=self.last)


class _BadLine(ValueError):
    """Why a line is none of the log's."""


class _Noise(_BadLine):
    """The same for one that is not even a JSON object: nobody wrote it as it stands."""


@dataclass(frozen=True)
class _Found:
    """``size``: bytes of the good lines. ``head_is_current``: the head knows of all of them."""

    verdict: Verdict
    chain: _Chain
    size: int = 0
    head_is_current: bool = False


def _examine(folder: Path, public_key: Ed25519PublicKey, silo: SiloName) -> _Found:
    chain = _Chain(silo, public_key)
    try:
        if not (folder / LOG_FILE).exists():
            if (folder / HEAD_FILE).exists():
                return _broken(chain, f"{LOG_FILE} is missing, though {HEAD_FILE} tells of it", missing=True)
            return _Found(Verdict(True, 0, "the log has not begun: nothing has left"), chain)
        with (folder / LOG_FILE).open("rb") as file:
            return _examine_file(file, folder / HEAD_FILE, chain)
    except OSError as error:
        return _broken(chain, f"the log cannot be read: {error.strerror}")


def _examine_file(file: BinaryIO, head_path: Path, chain: _Chain) -> _Found:
    size, rest = 0, b""
    while True:
        before = chain.number
        # Bounded: a line without an end must not fill the memory.
        while (line := rest + file.readline(MAX_LINE_BYTES - len(rest))).endswith(b"\n"):
            rest = b""
            try:
                chain = chain.after(line[:-1])
            except _Noise as why:
                head = _read_head(head_path, chain)
                if _has_more(file) or head != _Head(chain.silo, chain.number, chain.last):
                    return _broken(chain, str(why), missing=True)
                # The last, and the head knows nothing of it: what a power cut leaves may well end with a line feed.
                return _judge(chain, size, head, cut_short=True)
            except _BadLine as why:
                return _broken(chain, str(why), missing=True)
            size += len(line)
        rest = line
        if len(rest) >= MAX_LINE_BYTES:
            return _broken(chain, "it is longer than any line of the log", missing=True)
        head = _read_head(head_path, chain)
        # While this read, the agent may have written; the head is read after the lines that it knows of.
        if chain.number == before and not _has_more(file):
            break
    return _judge(chain, size, head, cut_short=bool(rest))


def _has_more(file: BinaryIO) -> bool:
    position = file.tell()
    return os.fstat(file.fileno()).st_size > position


def _judge(chain: _Chain, size: int, head: "_Head | None", cut_short: bool) -> _Found:
    number = chain.number
    if head is None and number == 0 and not cut_short:
        return _Found(Verdict(True, 0, "the log has not begun: nothing has left"), chain)
    if head is None:
        return _broken(chain, f"{HEAD_FILE} is missing, so nobody can tell whether lines are missing at the end")
    if head.silo != chain.silo:
        return _broken(chain, f"{HEAD_FILE} is damaged, or not signed with this silo's key")
    if head.count > number:
        return _broken(chain, f"it is missing: the log had {head.count} lines", missing=True)
    if number - head.count > 1 or (cut_short and number != head.count):
        return _broken(chain, f"{HEAD_FILE} is older than the log: it tells of {head.count} lines")
    if head.last != (chain.last if head.count == number else chain.previous):
        return _broken(chain, f"{HEAD_FILE} does not belong to this log")
    sentence = f"{number} line{'s' * (number != 1)}, each as it was written, and none is missing"
    if cut_short:
        sentence += "; after them a last line cut short by a crash, of which nothing left"
    verdict = Verdict(True, number, sentence, last=chain.last, cut_short=cut_short)
    return _Found(verdict, chain, size, head_is_current=head.count == number)


def _broken(chain: _Chain, why: str, *, missing: bool = False) -> _Found:
    """The verdict on a log that is not intact; ``missing``: it is the next line that is wrong or not there."""
    line = chain.number + 1 if missing else None
    sentence = f"line {line}: {why}" if line else why
    return _Found(Verdict(False, chain.number, sentence, line, chain.last), chain)


@dataclass(frozen=True)
class _Head:
    """``silo`` is empty if the head is damaged, or not signed with the silo's key."""

    silo: SiloName
    count: int
    last: str


def _read_head(path: Path, chain: _Chain) -> _Head | None:
    """The head, or None if there is none."""
    try:
        with path.open("rb") as file:
            line = file.read(MAX_LINE_BYTES)
    except FileNotFoundError:
        return None
    try:
        record = _parse(line.removesuffix(b"\n"))
        signature = bytes.fromhex(str(record.pop("signature")))
        chain.public_key.verify(signature, _HEAD + _canonical(record))
        silo, count, last = record["silo"], record["count"], record["last"]
        if isinstance(silo, str) and isinstance(count, int) and isinstance(last, str):
            return _Head(silo, count, last)
    except (KeyError, ValueError, RecursionError, InvalidSignature):
        pass
    return _Head("", 0, "")


def _entries(file: BinaryIO, path: Path) -> Iterator[LogEntry]:
    number = 0
    while (line := file.readline(MAX_LINE_BYTES)).endswith(b"\n"):
        number += 1
        try:
            yield _entry(_parse(line[:-1]))
        except _Noise as why:
            # The last one was cut short by a crash, as far as one can tell who does not verify.
            if _has_more(file):
                raise _unreadable(number, path, why) from None
            return
        except _BadLine as why:
            raise _unreadable(number, path, why) from None
    if len(line) >= MAX_LINE_BYTES:
        raise RunError(f"line {number + 1} of {path} is too long to be one of the log: see 'fedct silo verify'")


def _unreadable(number: int, path: Path, why: _BadLine) -> RunError:
    return RunError(f"line {number} of {path} cannot be read ({why}): see 'fedct silo verify'")


def _parse(line: bytes) -> dict[str, object]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise _Noise("it is not a line of the log")
    return record


_FIELDS: Final = {spec.name: (dict if spec.name == "details" else type(spec.default)) for spec in fields(LogEntry)}


def _entry(record: Mapping[str, object]) -> LogEntry:
    values = {name: record.get(name) for name in _FIELDS}
    try:
        event = Event(str(values.pop("event")))
    except ValueError:
        raise _BadLine("it tells of an event that this version does not know") from None
    if any(type(value) is not _FIELDS[name] for name, value in values.items()):
        raise _BadLine("it lacks a field, or has one of another type")
    return LogEntry(event, **values)  # type: ignore[arg-type]  # checked one line above


def _canonical(record: Mapping[str, object]) -> bytes:
    """The one way to write a record. Raises ValueError for numbers that JSON does not know."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def _write_all(file: int, content: bytes) -> None:
    while content:
        content = content[os.write(file, content) :]
