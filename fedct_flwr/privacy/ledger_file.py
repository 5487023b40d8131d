"""Where a ledger is kept: one SQLite file in write-ahead mode, synced at every commit, and a mark of it elsewhere.

The mark, next to the file's folder, says which ledger it is and how many charges it has, so that a ledger that is lost,
or put back from an old copy, is noticed. Processes and threads may share them. Where a folder can be lost as a whole,
with its mark, the caller keeps a second mark elsewhere: of the charges that there were when it last looked.
"""

import hashlib
import os
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from fedct_flwr.files import write_atomically
from fedct_flwr.types import RunError

_VERSION: Final = 1
_FOLDER: Final = "privacy"
_FILE: Final = "ledger.sqlite"
_MARK: Final = "ledger.mark"
_PATIENCE: Final = 30.0
_SCHEMA: Final = """
CREATE TABLE ledger (id TEXT NOT NULL, version INTEGER NOT NULL);
CREATE TABLE budgets (
    study TEXT NOT NULL, data_set TEXT NOT NULL,
    epsilon REAL NOT NULL, delta REAL NOT NULL, unit TEXT NOT NULL, approval TEXT NOT NULL,
    PRIMARY KEY (study, data_set)
);
CREATE TABLE charges (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    study TEXT NOT NULL, data_set TEXT NOT NULL,
    time REAL NOT NULL, event TEXT NOT NULL, question BLOB, answer BLOB
);
CREATE INDEX spent ON charges (study, data_set, event);
CREATE UNIQUE INDEX asked ON charges (study, data_set, question) WHERE question IS NOT NULL;
"""


class LedgerError(RunError):
    """The ledger cannot be trusted or used; nothing may be released."""


_PARENTS: Final[list[sqlite3.Connection]] = []


def mark_in(state: Path, folder: Path) -> Path:
    """Path of a silo's own mark of the ledger in a ``folder`` that it shares."""
    return state / f"shared-{hashlib.sha256(str(folder).encode()).hexdigest()[:16]}.mark"


class _Opened(NamedTuple):
    connection: sqlite3.Connection
    place: tuple[int, int, int]
    """Device, file and process."""


class LedgerFile:
    """The file and its mark in a silo's state folder. Made, and opened, when first used.

    ``elsewhere`` is the path of a second mark, in another folder; None: there is none.
    """

    def __init__(self, state: Path, elsewhere: Path | None = None) -> None:
        self._file = state / _FOLDER / _FILE
        self._mark = state / _MARK
        self._elsewhere = elsewhere
        self._one_at_a_time = threading.Lock()
        self._opened: _Opened | None = None

    @property
    def used(self) -> bool:
        """Whether there is a ledger, or was one. Makes none."""
        return self._file.exists() or any(mark.exists() for mark in self._marks)

    @property
    def _marks(self) -> list[Path]:
        elsewhere = self._elsewhere
        # A reader of a shared usage file may have no folder of its own yet.
        return [self._mark, elsewhere] if elsewhere and elsewhere.parent.is_dir() else [self._mark]

    def close(self) -> None:
        """Let go of the file; the next use opens it again."""
        with self._one_at_a_time:
            self._let_go()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """One writer at a time, from the first read on; committed, synced and marked on leaving, or undone.

        Raises LedgerError for a file that is unreadable, lost, of another version or older than its mark.
        """
        with self._one_at_a_time:
            try:
                ledger = self._connection()
                ledger.execute("BEGIN IMMEDIATE")
                self._check_mark(ledger)
                yield ledger
                ledger.execute("COMMIT")
                self._mark_charges(ledger)
            except (sqlite3.Error, OSError) as error:
                self._let_go()
                raise LedgerError(
                    f"the privacy ledger in {self._file.parent} cannot be used ({type(error).__name__}); nothing is "
                    "released until it can: check disk space and permissions, or restore it from a backup"
                ) from error
            except BaseException:
                self._let_go()
                raise

    def _connection(self) -> sqlite3.Connection:
        """The open connection, if this process opened it and the file is still the one that was opened."""
        self._create_if_new()
        status = self._file.stat()
        place = status.st_dev, status.st_ino, os.getpid()
        if self._opened is not None and self._opened.place != place:
            self._let_go()
        if self._opened is None:
            self._opened = _Opened(self._open(), place)
        return self._opened.connection

    def _let_go(self) -> None:
        """Close the file, which undoes what was not committed; in a forked process, leave the parent's alone."""
        opened, self._opened = self._opened, None
        if opened is None:
            return
        if opened.place[-1] == os.getpid():
            opened.connection.close()
        else:
            _PARENTS.append(opened.connection)  # closing it would drop the parent's locks

    def _open(self) -> sqlite3.Connection:
        # mode=rw: an SQLite that creates what it does not find would forget everything.
        ledger = sqlite3.connect(
            f"{self._file.absolute().as_uri()}?mode=rw",
            uri=True,
            isolation_level=None,
            timeout=_PATIENCE,
            check_same_thread=False,  # a lock keeps threads apart
        )
        try:
            ledger.execute("PRAGMA synchronous = FULL")  # sync at every commit, not only at checkpoints
            if ledger.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                raise sqlite3.DatabaseError
        except BaseException:
            ledger.close()
            raise
        return ledger

    def _create_if_new(self) -> None:
        if self._file.exists():
            return
        marked = next((mark for mark in self._marks if mark.exists()), None)
        if marked and not self._file.exists():  # another process may just have made both, the file first
            raise LedgerError(
                f"the privacy ledger {self._file} is gone, and was used; restore it from a backup: without it the "
                "privacy spent is unknown, so nothing is released" + self._for_good(marked)
            )
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = uuid.uuid4().hex
        draft = self._file.with_name(f".{name}")
        try:
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            with closing(sqlite3.connect(draft, isolation_level=None)) as ledger:
                ledger.executescript(_SCHEMA)
                ledger.execute("INSERT INTO ledger VALUES (?, ?)", (name, _VERSION))
                ledger.execute("PRAGMA journal_mode = WAL")
            # Of several processes that begin at once, one wins; a file is there whole or not at all.
            try:
                os.link(draft, self._file)
            except FileExistsError:
                return
            _sync(self._file)
            _sync(self._file.parent)
        finally:
            draft.unlink(missing_ok=True)

    def _check_mark(self, ledger: sqlite3.Connection) -> None:
        name, version = ledger.execute("SELECT id, version FROM ledger").fetchone() or ("", 0)
        if version != _VERSION:
            raise LedgerError(f"the privacy ledger {self._file} is of another version; nothing is released")
        charges = _count(ledger)
        for mark in self._marks:
            # Elsewhere a mark begins with what there is.
            if not mark.exists() and (charges == 0 or mark == self._elsewhere):
                write_atomically(mark, f"{name}\n".encode())
                continue
            marked = _marked(mark, name)
            if marked is None or marked > charges:
                raise LedgerError(
                    f"the privacy ledger {self._file} is not the one that {mark} knows, or charges are missing from "
                    "it; restore the latest ones of both from a backup, until then nothing is released"
                    + self._for_good(mark)
                )

    def _for_good(self, mark: Path) -> str:
        """A further remedy, for a mark in another place."""
        if mark != self._elsewhere:
            return ""
        return f". Only if there is no backup, remove {mark}: what is lost then counts no more"

    def _mark_charges(self, ledger: sqlite3.Connection) -> None:
        """Note how many charges are on the disk, before what they paid for is released: one dot for each."""
        ledger.execute("BEGIN IMMEDIATE")
        (name,) = ledger.execute("SELECT id FROM ledger").fetchone()
        charges = _count(ledger)
        for path in self._marks:
            missing = charges - (_marked(path, name) or 0)
            if missing > 0:
                with path.open("ab", buffering=0) as mark:
                    mark.write(b"." * missing)
                    os.fsync(mark.fileno())
        ledger.execute("ROLLBACK")


def put_charge(
    ledger: sqlite3.Connection, study: str, data_set: str, event: str, times: int = 1, *, question: bytes | None = None
) -> None:
    """Write charges of an event, within a transaction."""
    row = (study, data_set, time.time(), event, question)
    ledger.executemany(
        "INSERT INTO charges (study, data_set, time, event, question) VALUES (?, ?, ?, ?, ?)", [row] * times
    )


def charged(ledger: sqlite3.Connection, study: str | None, data_set: str | None) -> dict[str, int]:
    """All events that were charged, as text, and how often each was; None: by all studies, in all accounts."""
    rows = ledger.execute(
        "SELECT event, count(*) FROM charges WHERE (?1 IS NULL OR data_set = ?1) AND (?2 IS NULL OR study = ?2) "
        "GROUP BY event",
        (data_set, study),
    ).fetchall()
    return {str(event): int(times) for event, times in rows}


def _marked(mark: Path, name: str) -> int | None:
    """How many charges of the ledger with this name a mark knows of; None if it is missing, or another ledger's."""
    try:
        known, _, dots = mark.read_bytes().partition(b"\n")
    except FileNotFoundError:
        return None
    return len(dots) if known == name.encode() else None


def _count(ledger: sqlite3.Connection) -> int:
    (charges,) = ledger.execute("SELECT count(*) FROM charges").fetchone()
    return int(charges)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
