"""Usage of one set of records over all studies: written down by each study's agent before anything leaves.

Formal guarantee: what ``charge`` lets through adds up to no more than the limits of the study that is charged, over all
studies that name the folder, however many agents charge at once and wherever one is killed. It is charged first and
leaves afterwards: a crash in between counts what never left. This holds against accidents, as the privacy ledger does,
whose file format, lock and marks it uses (``privacy.ledger_file``). A folder that is not mounted is such an accident.
"""

import hashlib
import json
import math
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from fedct_flwr import privacy
from fedct_flwr.config.settings import kebab
from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.hospital.log_entry import TOTALS, Used
from fedct_flwr.labelers.labeler import check_all_installed
from fedct_flwr.privacy.budget import DATA_SET
from fedct_flwr.privacy.ledger_file import LedgerError, LedgerFile, charged, mark_in, put_charge
from fedct_flwr.text.printable import logger
from fedct_flwr.types import Refusal, Refused

_DATA_SET: Final = "labels"
"""Data set of these rows; those of privacy budgets have another."""
_NO_BOUND: Final = '{"noise_parameter":0.0,"num_buckets":2,"type":"RandomizedResponseDpEvent"}'
"""Event of an answer without noise: no epsilon covers it. As text, for studies without the packages of protections."""


class SharedUsage(LedgerFile):
    """The usage file in a folder that several studies share, as one of them sees it. Made when first used.

    ``study`` is a name that no other study's silo folder has; ``limits`` are by field of the policy. ``mark`` is where
    this study notes what the file had, in case the folder is lost as a whole. ``bare``: no promise covers its labels,
    with which the privacy spent on these records has no bound.
    """

    def __init__(
        self, folder: Path, study: str, limits: Mapping[str, int], mark: Path | None = None, *, bare: bool = False
    ) -> None:
        super().__init__(folder, mark)
        self._bare = bare
        self._study = study
        self._limits = limits

    @classmethod
    def of(cls, config: SiloConfig, key: Ed25519PublicKey | None = None) -> "SharedUsage | None":
        """Those that ``silo.toml`` names, for the silo folder with this egress key; None if it names none.

        Without a key they can only be read.
        """
        records = config.records
        if records.folder is None:
            return None
        raw = key.public_bytes(Encoding.Raw, PublicFormat.Raw) if key else b""
        study = hashlib.sha256(raw + config.silo.encode()).hexdigest()
        limits = {field: getattr(records, field) for field in TOTALS}
        mark = mark_in(config.state, records.folder)
        return cls(records.folder, study, limits, mark, bare=not config.always_answers)

    def settle(self, own: Used, *, bare: bool) -> None:
        """See that at least ``own`` is counted for this study, such as what left before it shared its limits.

        ``bare``: labels have left that no promise covered. Raises LedgerError.
        """
        with self.transaction() as file:
            counted = _sum(charged(file, self._study, _DATA_SET))
            missing = Used(*(max(0, one - other) for one, other in zip(own, counted, strict=True)))
            if any(missing):
                self._write(file, missing)
            if bare:
                put_charge(file, self._study, DATA_SET, _NO_BOUND)

    def charge(self, step: Used, *, dry: bool = False) -> None:
        """Count a step; only if this returns may it happen. ``dry``: count nothing. Raises Refused (LIMIT, LEDGER)."""
        try:
            with self.transaction() as file:
                self._check(_sum(charged(file, None, _DATA_SET)), step)
                if not dry:
                    self._write(file, step)
        except LedgerError as error:
            logger.error("%s", error)
            raise Refused(Refusal.LEDGER) from error

    def spent(self) -> tuple[Used, int]:
        """Usage over all studies, and the number of studies. Makes no file. Raises LedgerError."""
        if not self.used:
            return Used(), 0
        with self.transaction() as file:
            found = _sum(charged(file, None, _DATA_SET))
            (studies,) = file.execute(
                "SELECT count(DISTINCT study) FROM charges WHERE data_set = ?", (_DATA_SET,)
            ).fetchone()
        self.close()
        return found, int(studies)

    def _check(self, counted: Used, step: Used) -> None:
        for field, cap in TOTALS.items():
            used, more, limit = cap.of(counted), cap.of(step), self._limits[field]
            if more and used + more > limit:
                logger.warning(
                    "%s over all studies of these records, used: %d, asked for: %d, limit: %d (%s under [records] in "
                    "silo.toml): stop here, or raise it and approve that",
                    cap.title, used, more, limit, kebab(field),
                )  # fmt: skip
                raise Refused(Refusal.LIMIT)

    def _write(self, file: sqlite3.Connection, step: Used) -> None:
        put_charge(file, self._study, _DATA_SET, json.dumps(step._asdict()))
        if self._bare and step.queries:
            put_charge(file, self._study, DATA_SET, _NO_BOUND)


def spent_epsilon(config: SiloConfig) -> float | None:
    """Epsilon that all studies together have spent on these records, infinite if labels left without a protection.

    None for a study that has none, where the packages that compute it are missing. Raises LedgerError.
    """
    check_all_installed(config)
    try:
        budget = privacy.common_budget(config)
    except ImportError:
        return None
    return budget.spent(config.records.delta).upper if budget else 0.0


def spent_on_records(config: SiloConfig) -> str:
    """The same in words, with what all studies together may spend. Raises LedgerError."""
    epsilon, records = spent_epsilon(config), config.records
    # Other studies may count records where this one counts patients.
    most = f"{records.epsilon:g}" if records.epsilon else "no limit"
    spent = "nothing is known here" if epsilon is None else f"{epsilon:.3g} is spent"
    if epsilon == math.inf:
        spent = "there is no bound: labels left without protection"
    return f"{most} at delta {records.delta:g} for each record, of which {spent}"


def _sum(steps: Mapping[str, int]) -> Used:
    """Raises LedgerError for a line that this package did not write."""
    total = Used()
    for text, times in steps.items():
        try:
            step = Used(**json.loads(text))
            total = Used(*(one + times * more for one, more in zip(total, step, strict=True)))
        except (ValueError, TypeError):
            raise LedgerError("the usage file of these records holds an unknown line; nothing is released") from None
    return total
