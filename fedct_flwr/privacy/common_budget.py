"""One privacy budget for a set of records, over all studies that are about it.

Each study keeps a ledger of its own. Where the studies share a folder, a ledger charges there too, before its own
charge is committed: a crash in between has spent what nothing was released for.

Formal guarantee: what was charged by all ledgers that share the folder, with all that they had charged before, composes
to no more than the budget of the one that charges, each record added or removed. It holds under the conditions of
``Ledger``, for all studies together: a study's events follow from its settings, and not from what another has released.
"""

from collections.abc import Mapping
from pathlib import Path
from time import time
from typing import Final

from dp_accounting import DpEvent

from fedct_flwr.config import SiloConfig
from fedct_flwr.privacy.accounting import Epsilon, epsilon, fits
from fedct_flwr.privacy.budget import Budget
from fedct_flwr.privacy.events import to_json
from fedct_flwr.privacy.ledger import BudgetExceeded, charged, composed
from fedct_flwr.privacy.ledger_file import LedgerFile, mark_in

_DATA_SET: Final = "records"


class CommonBudget:
    """The budget over all studies that name the folder, as one of them sets it. Its file is made when first used.

    ``mark`` is where that study notes what the file had, in case the folder is lost as a whole.
    """

    def __init__(self, folder: Path, budget: Budget, mark: Path | None = None) -> None:
        self._kept = LedgerFile(folder, mark)
        self._budget = budget
        self._settled: set[str] = set()

    def close(self) -> None:
        """Let go of the file; the next use opens it again."""
        self._kept.close()

    def charge(self, ledger: str, own: Mapping[str, int], event: DpEvent) -> None:
        """Spend ``event`` for the ledger of this name, which has charged ``own`` so far: events as text, how often.

        Raises BudgetExceeded or LedgerError; then nothing is spent.
        """
        text = to_json(event)
        with self._kept.transaction() as file:
            # What was charged before this folder was shared, once in a process.
            known = charged(file, ledger, _DATA_SET) if ledger not in self._settled else own
            missing = {one: times - known.get(one, 0) for one, times in own.items() if times > known.get(one, 0)}
            for one, times in [*missing.items(), (text, 1)]:
                file.executemany(
                    "INSERT INTO charges (study, data_set, time, event) VALUES (?, ?, ?, ?)",
                    [(ledger, _DATA_SET, time(), one)] * times,
                )
            if not fits(composed(charged(file, None, _DATA_SET)), self._budget.epsilon, self._budget.delta):
                raise BudgetExceeded(
                    f"the privacy budget of these records over all studies (epsilon {self._budget.epsilon:g}, delta "
                    f"{self._budget.delta:g}, under [records] in silo.toml) does not cover another release; raise and "
                    "approve it, or stop here"
                )
        self._settled.add(ledger)

    def spent(self) -> Epsilon:
        """What all studies have spent, at the budget's delta. Makes no file. Raises LedgerError."""
        if not self._kept.used:
            return epsilon(composed({}), self._budget.delta)
        with self._kept.transaction() as file:
            found = charged(file, None, _DATA_SET)
        self.close()
        return epsilon(composed(found), self._budget.delta)


def common_budget(config: SiloConfig) -> CommonBudget | None:
    """What ``silo.toml`` says; None if it limits no epsilon over several studies."""
    records = config.records
    if records.folder is None or not records.epsilon:
        return None
    mark = mark_in(config.state, records.folder)
    return CommonBudget(records.folder, Budget(records.epsilon, records.delta), mark)
