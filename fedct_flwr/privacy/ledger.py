"""A silo's spending, on its own disk: charged before anything is released, across runs and restarts.

Any fault of the ledger (see ``ledger_file`` for its form) stops all releases. Studies about the same
records may share a budget, ``CommonBudget``.
"""

import os
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, Self

from dp_accounting import ComposedDpEvent, DpEvent, SelfComposedDpEvent, UnsupportedEventError

from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.privacy.accounting import Epsilon, epsilon, epsilon_in_time, fits
from fedct_flwr.privacy.budget import DATA_SET, Budget, PrivacyUnit
from fedct_flwr.privacy.events import check, from_json, to_json
from fedct_flwr.privacy.ledger_file import LedgerError, LedgerFile, charged, mark_in, put_charge
from fedct_flwr.text.printable import quoted
from fedct_flwr.types import RunError


class BudgetExceeded(RunError):
    """The release would cost more than is left; it was not charged and must not happen."""


class Spent(NamedTuple):
    """A study's spending on a data set so far: ``epsilon`` at the budget's delta, per its unit, in total."""

    epsilon: Epsilon
    events: Mapping[str, int]
    """As text, and how often each was charged."""
    budget: Budget

    @property
    def charges(self) -> int:
        """How many events were charged."""
        return sum(self.events.values())


class SpentOn(NamedTuple):
    """Total spending on a data set by ``studies``, all that were ever charged for it."""

    epsilon: Epsilon
    studies: frozenset[str]


class Ledger(LedgerFile):
    """The ledger in a silo's state folder, which processes and threads may share. Made, and opened, when first used.

    Formal guarantees:
        What was charged for a study and data set never exceeds its budget, by the composition of all its events since
        the ledger began, however many processes charge at once and wherever one is killed. This holds if every release
        is charged here first with the event that describes it; if the events of a study follow from its settings and
        not from answers that were released (else they need a privacy filter); and against accidents, not against
        a person who writes to the state folder. Budgets are per study: what several studies ask of the same data set
        adds up (``spent_on``), unless they have a budget in ``common``.

    A charge takes milliseconds, and up to seconds where only the slowest accountant can tell whether it still fits.
    """

    def __init__(self, state: Path, common: "CommonBudget | None" = None) -> None:
        super().__init__(state)
        self._common = common

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the files; the next use opens them again."""
        super().close()
        if self._common:
            self._common.close()

    def charge(self, study: str, data_set: str, budget: Budget, event: DpEvent) -> None:
        """Spend ``event`` from the budget; only if this returns may the release happen.

        ``data_set`` is a name or digest of the records. Raises BudgetExceeded, LedgerError (unreadable, lost, older
        than its mark, budget raised without an approval, no disk space), or UnsupportedEventError.
        """
        with self.transaction() as ledger:
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
        charged is charged again, and the charge it had waits for another question. A caller that kept a draw elsewhere
        stores it here before anything else is asked.

        Raises like ``charge``, and what ``draw`` raises.
        """
        with self.transaction() as ledger:
            known = self._pay(ledger, study, data_set, budget, event, question)
        if known is not None:
            return known
        try:
            drawn = draw()
        except Exception:
            with self.transaction() as ledger:
                ledger.execute(
                    "UPDATE charges SET question = NULL WHERE study = ? AND data_set = ? AND question = ? "
                    "AND answer IS NULL",
                    (study, data_set, question),
                )
            raise
        with self.transaction() as ledger:
            # Once more: another question may have taken the charge over in the meantime.
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
        with self.transaction() as ledger:
            found = ledger.execute(
                "SELECT answer FROM charges WHERE study = ? AND data_set = ? AND question = ?",
                (study, data_set, question),
            ).fetchone()
        return None if found is None or found[0] is None else bytes(found[0])

    def approve(self, study: str, data_set: str, budget: Budget, approval: str) -> None:
        """Put this budget in force for the study, higher or lower, on an approval (a name, a digest).

        Earlier spending still counts. Raises LedgerError, also where more was spent than this budget promises.
        """
        with self.transaction() as ledger:
            _check_unit(ledger, study, data_set, _budget(ledger, study, data_set), budget)
            if not fits(composed(charged(ledger, study, data_set)), budget.epsilon, budget.delta):
                raise LedgerError(
                    f"study {study} has already spent more than epsilon {budget.epsilon:g} at delta {budget.delta:g}: "
                    "raise them in silo.toml, or begin another study"
                )
            ledger.execute(
                "INSERT INTO budgets VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (study, data_set) DO UPDATE SET epsilon = "
                "excluded.epsilon, delta = excluded.delta, unit = excluded.unit, approval = excluded.approval",
                (study, data_set, budget.epsilon, budget.delta, _unit(budget), approval),
            )

    def spent(self, study: str, data_set: str, delta: float | None = None) -> Spent | None:
        """The study's spending on the data set, at its budget's delta or this; None before any charge or approval.

        Raises LedgerError.
        """
        with self.transaction() as ledger:
            budget = _budget(ledger, study, data_set)
            if budget is None:
                return None
            found = charged(ledger, study, data_set)
        return Spent(epsilon_in_time(composed(found), budget.delta if delta is None else delta), found, budget)

    def spent_on(self, data_set: str, delta: float) -> SpentOn:
        """Total spending of all studies on the data set, at ``delta``. Raises LedgerError."""
        with self.transaction() as ledger:
            found = charged(ledger, None, data_set)
            studies = ledger.execute("SELECT DISTINCT study FROM charges WHERE data_set = ?", (data_set,)).fetchall()
        return SpentOn(epsilon_in_time(composed(found), delta), frozenset(study for (study,) in studies))

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
            # The charge gets a question that is never asked, so that the next question of its event can take it over.
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
        if self._common:
            self._common.charge(*_all_of(ledger), event)
        put_charge(ledger, study, data_set, to_json(event), question=question)

    def _check_budget(
        self, ledger: sqlite3.Connection, study: str, data_set: str, budget: Budget, more: DpEvent | None
    ) -> None:
        """Raise BudgetExceeded unless all that was charged, and ``more``, is within the budget; or LedgerError."""
        in_force = _in_force(ledger, study, data_set, budget)
        spent = composed(charged(ledger, study, data_set))
        if not fits(ComposedDpEvent([spent, more]) if more else spent, in_force.epsilon, in_force.delta):
            raise BudgetExceeded(
                f"the privacy budget of study {study} (epsilon {in_force.epsilon:g}, delta {in_force.delta:g}, per "
                f"{in_force.unit}) does not cover another release; approve a higher one, or stop here"
            )


def _in_force(ledger: sqlite3.Connection, study: str, data_set: str, asked: Budget) -> Budget:
    """The lower of the budget asked for and the one in the ledger. Raises LedgerError for one raised since."""
    known = _budget(ledger, study, data_set)
    _check_unit(ledger, study, data_set, known, asked)
    if known is None:
        ledger.execute(
            "INSERT INTO budgets VALUES (?, ?, ?, ?, ?, ?)",
            (study, data_set, asked.epsilon, asked.delta, _unit(asked), ""),
        )
        return asked
    if asked.epsilon > known.epsilon or asked.delta > known.delta or asked.unit != known.unit:
        raise LedgerError(
            f"the privacy budget of study {study} was raised from epsilon {known.epsilon:g}, delta {known.delta:g} per "
            f"{known.unit} to epsilon {asked.epsilon:g}, delta {asked.delta:g} per {asked.unit} after use; "
            "approve it with 'fedct silo approve', or set it back"
        )
    return asked


def _check_unit(ledger: sqlite3.Connection, study: str, data_set: str, known: Budget | None, asked: Budget) -> None:
    """Raise LedgerError for another unit than charges were made for: what left then promises it nothing."""
    # A patient by one column may be several by another. Earlier versions did not write the column down.
    moved = known and known.unit == asked.unit and known.column and known.column != asked.column
    if known and (moved or known.unit != asked.unit) and charged(ledger, study, data_set):
        units = [f"{each.unit}{f' by {quoted(each.column)}' if moved else ''}" for each in (known, asked)]
        raise LedgerError(
            f"study {study} has spent its privacy budget per {units[0]}, and the group column makes it one per "
            f"{units[1]}: set the group column back to what it was, or begin another study"
        )


def _unit(budget: Budget) -> str:
    """Text of a budget's unit in the ledger: with the column that names patients, where there is one."""
    return f"{budget.unit}:{budget.column}" if budget.column else str(budget.unit)


def _budget(ledger: sqlite3.Connection, study: str, data_set: str) -> Budget | None:
    found = ledger.execute(
        "SELECT epsilon, delta, unit FROM budgets WHERE study = ? AND data_set = ?", (study, data_set)
    ).fetchone()
    if found is None:
        return None
    unit, _, column = found[2].partition(":")
    return Budget(found[0], found[1], PrivacyUnit(unit), column)


def _all_of(ledger: sqlite3.Connection) -> tuple[str, dict[str, int]]:
    """The name of a ledger, and all that it has charged."""
    (name,) = ledger.execute("SELECT id FROM ledger").fetchone()
    return str(name), charged(ledger, None, None)


def composed(found: Mapping[str, int]) -> DpEvent:
    """Composition of these events. Raises LedgerError."""
    try:
        return ComposedDpEvent([SelfComposedDpEvent(from_json(event), times) for event, times in found.items()])
    except UnsupportedEventError:
        raise LedgerError("the privacy ledger holds an unknown event; nothing is released") from None


class CommonBudget(LedgerFile):
    """The budget of the records, over all studies that name the folder. Its file is made when first used.

    Each study's ledger charges there too, before its own charge is committed: a crash in between has spent what nothing
    was released for. A study without a protection leaves a mark there, ``SharedUsage``, with which there is no bound.
    ``budget`` is what the study that charges allows, None: whatever is spent. ``mark`` is where that study notes what
    the file had, in case the folder is lost as a whole.

    Formal guarantee: what all ledgers that share the folder charged, with all that they had charged before, composes to
    no more than the budget of the one that charges, each record added or removed. It holds under the conditions of
    ``Ledger``, for all studies together: a study's events follow from its settings, not from what another has released.
    """

    def __init__(self, folder: Path, budget: Budget | None, mark: Path | None = None) -> None:
        super().__init__(folder, mark)
        self._budget = budget
        self._settled: set[str] = set()

    def charge(self, ledger: str, own: Mapping[str, int], event: DpEvent | None) -> None:
        """Spend ``event`` for the ledger of this name, which has charged ``own`` so far: events as text, how often.

        None: see that ``own`` is counted. Raises BudgetExceeded or LedgerError; then nothing is spent.
        """
        more = [(to_json(event), 1)] if event else []
        with self.transaction() as file:
            # Import charges from before this folder was shared, once in a process.
            known = charged(file, ledger, DATA_SET) if ledger not in self._settled else own
            missing = {one: times - known.get(one, 0) for one, times in own.items() if times > known.get(one, 0)}
            for one, times in [*missing.items(), *more]:
                put_charge(file, ledger, DATA_SET, one, times)
            most = self._budget if event else None
            if most and not fits(composed(charged(file, None, DATA_SET)), most.epsilon, most.delta):
                raise BudgetExceeded(
                    f"the privacy budget of these records over all studies (epsilon {most.epsilon:g}, delta "
                    f"{most.delta:g}, under [records] in silo.toml) does not cover another release; raise and "
                    "approve it, or stop here"
                )
        self._settled.add(ledger)

    def spent(self, delta: float) -> Epsilon:
        """Total spending of all studies, infinite after labels without a protection. Makes no file.

        Raises LedgerError.
        """
        if not self.used:
            return epsilon(composed({}), delta)
        with self.transaction() as file:
            found = charged(file, None, DATA_SET)
        self.close()
        return epsilon_in_time(composed(found), delta)


def common_budget(config: SiloConfig) -> CommonBudget | None:
    """The budget over all studies of the records, whose folder ``silo.toml`` names; None if it names none."""
    records = config.records
    if records.folder is None:
        return None
    budget = Budget(records.epsilon, records.delta) if records.epsilon else None
    return CommonBudget(records.folder, budget, mark_in(config.state, records.folder))


def share(config: SiloConfig) -> None:
    """Count in the common budget what the silo's ledger charged before there was one. Raises LedgerError."""
    common, own = common_budget(config), LedgerFile(config.state)
    if common and own.used:
        with own.transaction() as ledger:
            common.charge(*_all_of(ledger), None)
        own.close()
        common.close()
