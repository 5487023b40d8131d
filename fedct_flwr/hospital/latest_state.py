"""Whether the state folder is the latest one: a file next to the egress key remembers a line of its log.

Limits and budgets are totals over what stands in the state folder. One that is not mounted, or of which an older copy
was put back, would give back what was spent. So the file says which line the log ended with at the last approval, when
labels last left, or when the agent last started or ended. Where the keys cannot be written, as in containers,
nothing is remembered.

Formal guarantee: against accidents, with a state folder that lacks that line, or lacks the privacy ledger that its own
log has charged, nothing leaves. Lines that are newer than the remembered one may be missing unnoticed.
"""

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Final

from fedct_flwr.config.silo import AppSilo, SiloFolder
from fedct_flwr.datasets.study_folder import StudyFolder
from fedct_flwr.files import UNREADABLE, write_atomically
from fedct_flwr.hospital.approval import approving_digest, current, has_promised_labels, put_down
from fedct_flwr.hospital.egress_log import EgressLog
from fedct_flwr.hospital.keys import load_egress_key
from fedct_flwr.hospital.log_entry import LOG_FILE, Event, LogEntry, is_revoked
from fedct_flwr.privacy.ledger_file import LedgerFile
from fedct_flwr.types import RunError

_SUFFIX: Final = ".seen"


def open_log(config: SiloFolder) -> EgressLog:
    """The silo's egress log, open for writing, with all that it had before and an approval withdrawn since.

    Raises ConfigError for a missing key, and RunError as ``EgressLog.open``, or if the state folder is not the latest.
    """
    key = load_egress_key(config.egress_key)
    # Before anything is made in a folder that may be the wrong one.
    if line := lost_line(config):
        raise RunError(
            f"line {line:,} of the egress log is gone, which {_path(config)} remembers: {config.state} is not mounted, "
            "or an older copy of it was put back. Mount it, or restore the latest copy. Only if there is none, remove "
            f"{_path(config)} and approve again: limits and budgets then count without what is lost"
        )
    log = EgressLog.open(config.state, config.silo, key)
    if lost_ledger(config, log.entries()):
        log.close()
        raise RunError(
            f"labels have left under a privacy budget, and the privacy ledger in {config.state} is gone: restore the "
            "folder as a whole from the latest backup; without the ledger the privacy spent is unknown, so nothing is "
            "released"
        )
    put_down(log, config.state)
    return log


def remember(config: SiloFolder, log: EgressLog) -> None:
    """Note with which line the log ends."""
    if log.chain.number:
        with contextlib.suppress(OSError):
            write_atomically(_path(config), json.dumps({"line": log.chain.number, "hash": log.chain.last}).encode())


def lost_line(config: SiloFolder) -> int:
    """The number (from 1) of the line that is remembered, if the log does not have it; else 0."""
    try:
        seen = json.loads(_path(config).read_bytes())
        number, digest = int(seen["line"]), seen["hash"]
    except UNREADABLE:
        return 0
    try:
        with (config.state / LOG_FILE).open("rb") as file:
            line = next(islice(file, max(0, number - 1), None), b"")
        return 0 if json.loads(line)["hash"] == digest else number
    except UNREADABLE:
        return number


def lost_ledger(config: SiloFolder, entries: Iterable[LogEntry]) -> bool:
    """Whether labels left that were charged first, by the log, and there is no ledger that was charged."""
    return has_promised_labels(entries) and not LedgerFile(config.state).used


class Approval(StrEnum):
    """State of a silo's approval."""

    APPROVED = "approved"
    CHANGED = "changed"
    NONE = "none"
    REVOKED = "revoked"
    LOST = "lost"


NOT_APPROVED: Final[Mapping[Approval, str]] = {
    Approval.CHANGED: "study, app or settings have changed since approved, so nothing leaves: fedct silo approve",
    Approval.NONE: "nothing is approved, so nothing leaves: fedct silo approve",
    Approval.REVOKED: "revoked, so nothing leaves: fedct silo approve",
    Approval.LOST: "the state folder is not the latest one, so nothing leaves: mount it, or restore the latest copy",
}
"""Sentences for people, with the remedy after a colon."""


def approval_state(config: SiloFolder, study: StudyFolder | None, entries: Sequence[LogEntry]) -> Approval:
    """State of the approval after these lines; ``study`` is None if it cannot be read, and for an app."""
    if lost_line(config) or lost_ledger(config, entries):
        return Approval.LOST
    approved = current(entries)
    if is_revoked(config.state) or (approved is None and any(entry.event is Event.REVOKED for entry in entries)):
        return Approval.REVOKED
    if approved is None:
        return Approval.NONE
    known = study is not None or isinstance(config, AppSilo)
    return Approval.APPROVED if known and approved == approving_digest(config, study) else Approval.CHANGED


def _path(config: SiloFolder) -> Path:
    return config.egress_key.with_suffix(_SUFFIX)
