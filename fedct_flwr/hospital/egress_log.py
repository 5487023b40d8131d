"""The egress log, open for writing: what left the silo, and what was kept back.

All can read it, and every change is noticed: ``log_entry`` says what a line holds and what is
guaranteed.

Order of writing: the line, fsync, the head. So after a crash the log is at most one whole line ahead of its head, and
a last line that was cut short, or that a power cut left as noise, stands for something that never left.

Each reply that left, and its request, are files next to the log, under the digests that its line has. Their contents
are labels that the coordinator has, too. Messages of secure sums are not kept: they are masked.
"""

import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from filelock import FileLock, Timeout

from fedct_flwr.files import write_atomically
from fedct_flwr.hospital.log_entry import HEAD_FILE, LOG_FILE, Chain, LogEntry, read_entries, verify_log
from fedct_flwr.types import RunError, SiloName

LOCK_FILE: Final = "agent.lock"


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
        self._chain = Chain(silo, key.public_key())
        self._unusable = self._failed = False
        self._writing = threading.Lock()
        self._followers: list[Callable[[LogEntry], None]] = []

    @property
    def key(self) -> Ed25519PrivateKey:
        """The silo's key, with which it signs the log and its messages of secure sums."""
        return self._key

    @property
    def chain(self) -> Chain:
        """Where it ends: how many lines it has, and the hash of the last."""
        return self._chain

    @classmethod
    def open(cls, folder: Path, silo: SiloName, key: Ed25519PrivateKey) -> Self:
        """Open the log in ``folder``, or begin one. Repairs the traces of a crash.

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
            try:
                written = self._append(entry)
            except OSError:
                self._failed = True
                raise
            self._failed = False
        for follow in self._followers:
            follow(written)
        return written

    def writable(self, *, doubtful: bool = False) -> bool:
        """Whether the log's file is still in place, so that a next line can be written.

        After a line that could not be written, or where it is ``doubtful``, the head is written once more, as it is:
        that needs room too.
        """
        with self._writing:
            try:
                self._check_still_there()
                if self._failed or doubtful:
                    self._write_head(self._chain)
            except OSError:
                return False
            self._failed = False
            return True

    def entries(self) -> Iterator[LogEntry]:
        """All lines so far, first to last, one at a time from disk."""
        return read_entries(self.path.parent)

    def follow(self, follower: Callable[[LogEntry], None]) -> None:
        """Call ``follower`` with each line so far, and from now on with each line as soon as it is on disk."""
        for entry in self.entries():
            follower(entry)
        self._followers.append(follower)

    def _begin(self) -> None:
        found = verify_log(self.path.parent, self._key.public_key(), self._silo)
        if not found.intact:
            raise RunError(
                f"the egress log in {self.path.parent} is not intact ({found.sentence}): nothing may leave "
                "until that is cleared up; see 'fedct silo verify'"
            )
        self._chain = found.chain
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._size = found.size
        if os.fstat(self._file).st_size != self._size:
            os.ftruncate(self._file, self._size)
            os.fsync(self._file)
        if not found.head_is_current:
            self._write_head(self._chain)

    def _append(self, entry: LogEntry) -> LogEntry:
        self._check_still_there()
        entry = replace(entry, number=self._chain.number + 1, time=datetime.now(UTC).isoformat(timespec="milliseconds"))
        line, chain = self._chain.signed(entry, self._key)
        try:
            rest = line
            while rest:
                rest = rest[os.write(self._file, rest) :]
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
        """Raise OSError if the file was replaced or removed, or others wrote to it."""
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

    def _write_head(self, chain: Chain) -> None:
        write_atomically(self.path.with_name(HEAD_FILE), chain.head(self._key))

    def _head_is(self, chain: Chain) -> bool:
        try:
            return self.path.with_name(HEAD_FILE).read_bytes() == chain.head(self._key)
        except OSError:
            return False


FOLDER: Final = "released"


def keep(state: Path, entry: LogEntry, payload: bytes, request: bytes) -> None:
    """Write a reply and its request before they are logged. Raises OSError."""
    folder = state / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    for digest, content in ((entry.payload, payload), (entry.request, request)):
        if not (folder / digest).exists():
            write_atomically(folder / digest, content)


def kept(state: Path, entry: LogEntry) -> tuple[bytes, bytes] | None:
    """The reply and the request of a line with labels; None where they were not kept.

    Raises RunError for files that are not what the line says.
    """
    try:
        found = tuple((state / FOLDER / digest).read_bytes() for digest in (entry.payload, entry.request))
    except OSError:
        return None
    if tuple(hashlib.sha256(content).hexdigest() for content in found) != (entry.payload, entry.request):
        raise RunError(
            f"a file in {state / FOLDER} is not what line {entry.number:,} of the egress log says: it was changed "
            "after the reply left"
        )
    return found[0], found[1]
