"""What the SuperLink's database forgets: runs that ended long ago, with all that it keeps of them.

Flower 1.41 deletes messages when they have arrived, and keeps everything else of a run for ever: its log, its settings,
its bundle of code. Here all rows of a run go at once, in one transaction, so that a database has a run or has it not.
Nodes, their keys and names stay, and so does each run that has not ended. Works on the file alone, without Flower: a
test compares the tables below with Flower's own.
"""

import contextlib
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from fedct_flwr.text.plural import count
from fedct_flwr.types import RunError

_PATIENCE: Final = 10.0
_ENDED: Final = """
CREATE TEMP TABLE ended AS SELECT run_id FROM task GROUP BY run_id
HAVING count(*) = count(finished_at) AND max(finished_at) < ?
"""
_DELETE: Final = (
    # What a run's messages carried, where it ended before they arrived.
    "CREATE TEMP TABLE carried AS SELECT object_id FROM run_objects WHERE run_id IN ended",
    "DELETE FROM run_objects WHERE run_id IN ended",
    "DELETE FROM temp.carried WHERE object_id IN (SELECT object_id FROM run_objects)",
    "DELETE FROM object_children WHERE parent_id IN carried OR child_id IN carried",
    "DELETE FROM objects WHERE object_id IN carried",
    "DELETE FROM object_push_session_pending WHERE session_id IN "
    "(SELECT session_id FROM object_push_sessions WHERE run_id IN ended)",
    "DELETE FROM object_push_session_roots WHERE session_id IN "
    "(SELECT session_id FROM object_push_sessions WHERE run_id IN ended)",
    "DELETE FROM object_push_sessions WHERE run_id IN ended",
    "DELETE FROM message_ins WHERE run_id IN ended",
    "DELETE FROM message_res WHERE run_id IN ended",
    "DELETE FROM message WHERE run_id IN ended",
    "DELETE FROM task_logs WHERE task_id IN (SELECT task_id FROM task WHERE run_id IN ended)",
    "DELETE FROM task_event WHERE run_id IN ended",
    "DELETE FROM task_usage WHERE run_id IN ended",
    "DELETE FROM task_message WHERE run_id IN ended",
    "DELETE FROM task WHERE run_id IN ended",
    "DELETE FROM run_connector WHERE run_id IN ended",
    "CREATE TEMP TABLE series AS SELECT series_id FROM series_runs WHERE run_id IN ended",
    "DELETE FROM series_runs WHERE run_id IN ended",
    "DELETE FROM temp.series WHERE series_id IN "
    "(SELECT series_id FROM series_runs UNION SELECT series_id FROM automation)",
    "DELETE FROM series_context WHERE series_id IN series",
    "DELETE FROM compacted_contexts WHERE series_id IN series",
    "DELETE FROM run_series WHERE series_id IN series",
    "DELETE FROM run WHERE run_id IN ended",
    # Bundles that no run has any more.
    "DELETE FROM fab WHERE fab_hash NOT IN (SELECT fab_hash FROM run WHERE fab_hash IS NOT NULL UNION SELECT fab_hash "
    "FROM task WHERE fab_hash IS NOT NULL UNION SELECT fab_hash FROM federation_app)",
)


class Forgotten(NamedTuple):
    """What was deleted: runs, and bytes by which the file is smaller."""

    runs: int = 0
    bytes: int = 0

    def sentence(self, days: int) -> str:
        """The same for people."""
        which = f"that ended more than {count(days, 'day')} ago"
        if not self.runs:
            return f"the database has no run {which}"
        return f"{count(self.runs, 'run')} {which}: deleted from the database, {self.bytes / 1e6:,.1f} MB"


def forget(database: Path, days: int, now: datetime | None = None) -> Forgotten:
    """Delete runs that ended more than ``days`` ago. Nothing else may have the file open.

    Raises RunError for a file that is in use, or is no SuperLink's database of a version that is known here: it is then
    as it was before.
    """
    if not database.exists():
        return Forgotten()
    before = (now or datetime.now(UTC)) - timedelta(days=days)
    try:
        if database.is_symlink():
            # Whoever runs this may have more rights than the SuperLink, whose folder it is.
            raise sqlite3.DatabaseError("it is a link")
        size = database.stat().st_size
        runs = _forget(database, before.astimezone(UTC).isoformat(sep=" "))
        return Forgotten(runs, max(0, size - database.stat().st_size))
    except (sqlite3.Error, OSError) as error:
        raise RunError(
            f"old runs stay in {database} ({error}): stop the SuperLink, and see whether the file is its database and "
            "the disk has room"
        ) from None


def _forget(database: Path, before: str) -> int:
    address = f"{database.absolute().as_uri()}?mode=rw"
    with contextlib.closing(
        sqlite3.connect(address, uri=True, timeout=_PATIENCE, isolation_level=None)
    ) as file:  # fmt: skip
        file.execute("PRAGMA trusted_schema = OFF")
        # A SuperLink that has it open keeps this from beginning.
        file.execute("PRAGMA locking_mode = EXCLUSIVE")
        file.execute("BEGIN EXCLUSIVE")
        file.execute(_ENDED, (before,))
        (runs,) = file.execute("SELECT count(*) FROM ended").fetchone()
        if runs:
            broken = file.execute("PRAGMA foreign_key_check").fetchall()
            for statement in _DELETE:
                file.execute(statement)
            if len(file.execute("PRAGMA foreign_key_check").fetchall()) > len(broken):
                raise sqlite3.IntegrityError("other rows refer to them")
        file.execute("COMMIT")
        if runs:
            file.execute("VACUUM")
            file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return int(runs)
