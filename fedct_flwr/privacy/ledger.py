"""What a silo has spent, on its own disk: charged before anything is released, across runs and restarts.

One SQLite file in write-ahead mode, synced at every commit. Beside it, elsewhere in the state folder, a mark says which
ledger it is and how many charges it has, so that a ledger that is lost, or put back from an old copy, is noticed.
Whatever is wrong with the ledger, nothing is released.
"""

import os
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Self

from dp_accounting import ComposedDpEvent, DpEvent, SelfComposedDpEvent, UnsupportedEventError

from fedct_flwr.atomic import write_atomically
from fedct_flwr.privacy.accounting import Epsilon, epsilon, fits
from fedct_flwr.privacy.budget import Budget, PrivacyUnit
from fedct_flwr.privacy.events import check, from_json, to_json
from fedct_flwr.types import RunError

CLOCK_TOLERANCE: Final = 120.0
"""Seconds that the clock may go back: time servers correct it by less."""

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


class BudgetExceeded(RunError):
    """The release would cost more than is left; it was not charged and must not happen."""


class Spent(NamedTuple):
    """What a study has spent on a data set so far: ``epsilon`` at the budget's delta, per its unit, in total."""

    epsilon: Epsilon
    charges: int
    budget: Budget


class SpentOn(NamedTuple):
    """What ``studies``, all that were ever charged for a data set, have spent on it together."""

    epsilon: Epsilon
    studies: frozenset[str]


_PARENTS: Final[list[sqlite3.Connection]] = []


class _Opened(NamedTuple):
    connection: sqlite3.Connection
    place: tuple[int, int, int]
    """Device, file and process."""


class Ledger:
    """The ledger in a silo's state folder, which processes and threads may share. Made, and opened, when first used.

    Formal guarantees:
        What was charged for a study and data set never exceeds its budget, by the composition of all its events since
        the ledger began, however many processes charge at once and wherever one is killed. This holds if every release
        is charged here first with the event that describes it; if the events of a study follow from its settings and
        not from answers that were released (else they need a privacy filter); and against accidents, not against
        somebody who writes to the state folder. Budgets are per study: what several studies ask of the same data set
        adds up (``spent_on``).

    A charge takes milliseconds, and up to seconds where only the slowest accountant can tell whether it still fits.
    """

    def __init__(self, state: Path, clock: Callable[[], float] = time.time) -> None:
        self._file = state / _FOLDER / _FILE
        self._mark = state / _MARK
        self._clock = clock
        self._one_at_a_time = threading.Lock()
        self._opened: _Opened | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file; the next use opens it again."""
        with self._one_at_a_time:
            self._let_go()

    def charge(self, study: str, data_set: str, budget: Budget, event: DpEvent) -> None:
        """Spend ``event`` from the budget; only if this returns may the release happen.

        ``data_set`` is a name or digest of the records. Raises BudgetExceeded, LedgerError (unreadable, lost, older
        than its mark, clock gone back, budget raised without an approval, no disk space), or UnsupportedEventError.
        """
        with self._transaction() as ledger:
            self._spend(ledger, study, data_set, budget, event, None)

    def answer(
        self,
        study: str,
        data_set: str,
        budget: Budget,
        event: DpEvent,
        question: bytes,
        draw: Callable[[], bytes],
    ) -> bytes:
        """The answer to a question: the one given before, at no cost, or else one that is charged, drawn and kept.

        ``question`` is a digest of all that the answer depends on except its noise: round, queried examples, model.
        ``draw`` adds the noise. An answer is on the disk before it is returned, and only this one ever is: of two
        processes that ask at once, or one that was killed in between, the first answer stored counts, and the charge
        is made once.

        A charge without an answer, of a process that was killed while it drew, paid for nothing that left. It pays for
        the next question of the very same event, whichever that is. Where ``draw`` failed it is used up: that it did
        may depend on the noise, and is seen outside. A question whose event has changed since it was
        charged is charged anew, and the charge it had waits for another question. Whoever kept a draw somewhere else
        stores it here before anything else is asked.

        Raises as ``charge``, and what ``draw`` raises.
        """
        with self._transaction() as ledger:
            known = self._pay(ledger, study, data_set, budget, event, question)
        if known is not None:
            return known
        try:
            drawn = draw()
        except Exception:
            with self._transaction() as ledger:
                ledger.execute(
                    "UPDATE charges SET question = NULL WHERE study = ? AND data_set = ? AND question = ? "
                    "AND answer IS NULL",
                    (study, data_set, question),
                )
            raise
        with self._transaction() as ledger:
            # Once more: somebody else's question may have taken the charge over in the meantime.
            known = self._pay(ledger, study, data_set, budget, event, question)
            if known is not None:
                return known
            ledger.execute(
                "UPDATE charges SET answer = ? WHERE study = ? AND data_set = ? AND question = ?",
                (drawn, study, data_set, question),
            )
        return drawn

    def answered(self, study: str, data_set: str, question: bytes) -> bytes | None:
        """The answer that was given to this question, at no cost; None if none was. Raises LedgerError."""
        with self._transaction() as ledger:
            found = ledger.execute(
                "SELECT answer FROM charges WHERE study = ? AND data_set = ? AND question = ?",
                (study, data_set, question),
            ).fetchone()
        return None if found is None or found[0] is None else bytes(found[0])

    @property
    def used(self) -> bool:
        """Whether there is a ledger, or was one. Makes none, as all else does."""
        return self._file.exists() or self._mark.exists()

    def approve(self, study: str, data_set: str, budget: Budget, approval: str) -> None:
        """Put this budget in force for the study, higher or lower, on somebody's approval (a name, a digest).

        What was spent stays spent. Raises LedgerError.
        """
        with self._transaction() as ledger:
            ledger.execute(
                "INSERT INTO budgets VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (study, data_set) DO UPDATE SET epsilon = "
                "excluded.epsilon, delta = excluded.delta, unit = excluded.unit, approval = excluded.approval",
                (study, data_set, budget.epsilon, budget.delta, str(budget.unit), approval),
            )

    def spent(self, study: str, data_set: str) -> Spent | None:
        """What the study has spent on the data set; None before its first charge or approval. Raises LedgerError."""
        with self._transaction() as ledger:
            budget = _budget(ledger, study, data_set)
            if budget is None:
                return None
            spent, charges = _events(ledger, study, data_set)
        return Spent(epsilon(spent, budget.delta), charges, budget)

    def spent_on(self, data_set: str, delta: float) -> SpentOn:
        """What all studies together have spent on the data set, at ``delta``. Raises LedgerError."""
        with self._transaction() as ledger:
            spent, _ = _events(ledger, None, data_set)
            studies = ledger.execute("SELECT DISTINCT study FROM charges WHERE data_set = ?", (data_set,)).fetchall()
        return SpentOn(epsilon(spent, delta), frozenset(study for (study,) in studies))

    def _pay(
        self, ledger: sqlite3.Connection, study: str, data_set: str, budget: Budget, event: DpEvent, question: bytes
    ) -> bytes | None:
        """The answer that was given; else None, and the question has a charge of this event, old or new."""
        text = to_json(event)
        found = ledger.execute(
            "SELECT number, event, answer FROM charges WHERE study = ? AND data_set = ? AND question = ?",
            (study, data_set, question),
        ).fetchone()
        if found is not None:
            number, charged, answer = found
            if charged == text:
                return None if answer is None else bytes(answer)
            if answer is not None:
                raise LedgerError(
                    "a question in the privacy ledger was charged for another event; "
                    "the question's digest leaves out something that the answer depends on"
                )
            # Of a question that nobody will ask: there is no other way to know it from a charge that was released for.
            ledger.execute("UPDATE charges SET question = ? WHERE number = ?", (os.urandom(32), number))
        unused = ledger.execute(
            "SELECT number FROM charges WHERE study = ? AND data_set = ? AND event = ? "
            "AND question IS NOT NULL AND answer IS NULL ORDER BY number LIMIT 1",
            (study, data_set, text),
        ).fetchone()
        if unused is None:
            self._spend(ledger, study, data_set, budget, event, question)
        else:
            self._check_budget(ledger, study, data_set, budget, None)
            ledger.execute("UPDATE charges SET question = ? WHERE number = ?", (question, *unused))
        return None

    def _spend(
        self,
        ledger: sqlite3.Connection,
        study: str,
        data_set: str,
        budget: Budget,
        event: DpEvent,
        question: bytes | None,
    ) -> None:
        check(event)
        self._check_budget(ledger, study, data_set, budget, event)
        ledger.execute(
            "INSERT INTO charges (study, data_set, time, event, question) VALUES (?, ?, ?, ?, ?)",
            (study, data_set, self._clock(), to_json(event), question),
        )

    def _check_budget(
        self, ledger: sqlite3.Connection, study: str, data_set: str, budget: Budget, more: DpEvent | None
    ) -> None:
        """Raise BudgetExceeded unless all that was charged, and ``more``, is within the budget; or LedgerError."""
        self._check_clock(ledger)
        in_force = _in_force(ledger, study, data_set, budget)
        spent, _ = _events(ledger, study, data_set)
        if not fits(ComposedDpEvent([spent, more]) if more else spent, in_force.epsilon, in_force.delta):
            raise BudgetExceeded(
                f"the privacy budget of study {study} (epsilon {in_force.epsilon:g}, delta {in_force.delta:g}, per "
                f"{in_force.unit}) does not cover another release; approve a higher one, or stop here"
            )

    def _check_clock(self, ledger: sqlite3.Connection) -> None:
        (latest,) = ledger.execute("SELECT max(time) FROM charges").fetchone()
        if latest is not None and self._clock() < latest - CLOCK_TOLERANCE:
            raise LedgerError(
                "the clock is earlier than the privacy ledger's last charge; set the clock right, nothing is released"
            )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """One writer at a time, from the first read on; committed and synced on leaving, or undone."""
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
        if self._mark.exists() and not self._file.exists():  # another process may just have made both, the file first
            raise LedgerError(
                f"the privacy ledger {self._file} is gone, and was used; restore it from a backup: without it nobody "
                "knows what was spent, so nothing is released"
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
        if not self._mark.exists() and charges == 0:
            write_atomically(self._mark, f"{name}\n".encode())
            return
        marked = self._marked(name)
        if marked is None or marked > charges:
            raise LedgerError(
                f"the privacy ledger {self._file} is not the one that {self._mark} knows, or charges are missing from "
                "it; restore the latest ones of both from a backup, until then nothing is released"
            )

    def _mark_charges(self, ledger: sqlite3.Connection) -> None:
        """Note how many charges are on the disk, before what they paid for is released: one dot for each."""
        ledger.execute("BEGIN IMMEDIATE")
        (name,) = ledger.execute("SELECT id FROM ledger").fetchone()
        missing = _count(ledger) - (self._marked(name) or 0)
        if missing > 0:
            with self._mark.open("ab", buffering=0) as mark:
                mark.write(b"." * missing)
                os.fsync(mark.fileno())
        ledger.execute("ROLLBACK")

    def _marked(self, name: str) -> int | None:
        """How many charges the mark knows of; None if it is missing, or another ledger's."""
        try:
            known, _, dots = self._mark.read_bytes().partition(b"\n")
        except FileNotFoundError:
            return None
        return len(dots) if known == name.encode() else None


def _in_force(ledger: sqlite3.Connection, study: str, data_set: str, asked: Budget) -> Budget:
    """The lower of the budget asked for and the one in the ledger. Raises LedgerError for one raised since."""
    known = _budget(ledger, study, data_set)
    if known is None:
        ledger.execute(
            "INSERT INTO budgets VALUES (?, ?, ?, ?, ?, ?)",
            (study, data_set, asked.epsilon, asked.delta, str(asked.unit), ""),
        )
        return asked
    if asked.epsilon > known.epsilon or asked.delta > known.delta or asked.unit != known.unit:
        raise LedgerError(
            f"the privacy budget of study {study} was raised from epsilon {known.epsilon:g}, delta {known.delta:g} per "
            f"{known.unit} to epsilon {asked.epsilon:g}, delta {asked.delta:g} per {asked.unit} after use; approve it"
        )
    return asked


def _budget(ledger: sqlite3.Connection, study: str, data_set: str) -> Budget | None:
    found = ledger.execute(
        "SELECT epsilon, delta, unit FROM budgets WHERE study = ? AND data_set = ?", (study, data_set)
    ).fetchone()
    return Budget(found[0], found[1], PrivacyUnit(found[2])) if found else None


def _events(ledger: sqlite3.Connection, study: str | None, data_set: str) -> tuple[DpEvent, int]:
    """All that was charged, and in how many charges."""
    rows = ledger.execute(
        "SELECT event, count(*) FROM charges WHERE data_set = ?1 AND (?2 IS NULL OR study = ?2) GROUP BY event",
        (data_set, study),
    ).fetchall()
    try:
        events = [SelfComposedDpEvent(from_json(event), count) for event, count in rows]
    except UnsupportedEventError:
        raise LedgerError("the privacy ledger holds an event that nobody knows; nothing is released") from None
    return ComposedDpEvent(events), sum(count for _, count in rows)


def _count(ledger: sqlite3.Connection) -> int:
    (charges,) = ledger.execute("SELECT count(*) FROM charges").fetchone()
    return int(charges)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
