"""What the SuperLink's database forgets. The file is Flower's own, made and read again by Flower's own classes."""

import contextlib
import re
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from flwr.common.constant import SubStatus
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.cli.coordinator import retention, start
from fedct_flwr.cli.coordinator.folder import CoordinatorFolder
from fedct_flwr.cli.coordinator.init import prepare
from fedct_flwr.cli.coordinator.retention import forget
from fedct_flwr.cli.output import Output
from fedct_flwr.types import RunError
from tests.cli.silos import Fedct
from tests.superlink_state import begin_run, superlink
from tests.wording import sentences_with

# Flower's own, when it makes a database.
pytestmark = pytest.mark.filterwarnings("ignore:No path_separator:DeprecationWarning")

LOG = "a line of a run's log " * 1000


def make_run(state: Any, code: bytes, *, ends: bool = True) -> int:
    """A run with a bundle, a log, an event, usage, and a message that nobody fetched."""
    run, task = begin_run(state, code)
    state.add_task_log(task.task_id, LOG)
    if ends:
        assert state.finish_task(task.task_id, SubStatus.COMPLETED, "")
    return run


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """One silo's node, a run that ended long ago, one of yesterday with the same code, and one under way."""
    path = tmp_path / "state.db"
    with superlink(path) as state:
        assert state.create_node("aid", "owner", b"key", 30.0, name="basel")
        runs = [make_run(state, b"old"), make_run(state, b"code"), make_run(state, b"code", ends=False)]
        assert state.create_node("aid", "owner", b"another", 30.0, name="zurich")
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        then = (datetime.now(UTC) - timedelta(days=100)).isoformat(sep=" ")
        file.execute("UPDATE task SET finished_at = ? WHERE run_id = ?", (then, signed(runs[0])))
    (tmp_path / "runs.txt").write_text(" ".join(map(str, runs)))
    return path


def signed(number: int) -> int:
    return number - (1 << 64 if number >= 1 << 63 else 0)


def runs_of(database: Path) -> list[int]:
    return [int(word) for word in (database.parent / "runs.txt").read_text().split()]


def rows(database: Path) -> dict[str, int]:
    with contextlib.closing(sqlite3.connect(database)) as file:
        names = [name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: file.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in names}


def test_a_run_that_ended_long_ago_goes_whole_and_the_others_stay(database: Path) -> None:
    old, ended, open_ = runs_of(database)
    before = rows(database)
    forgotten = forget(database, 90)
    assert forgotten.runs == 1
    assert forgotten.bytes >= 0
    after = rows(database)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"run", "task", "task_logs", "fab", "run_series", "series_runs", "series_context"} & {
        name for name, number in before.items() if number
    }
    assert all(before[name] - after[name] == 1 for name in changed)
    assert after["node"] == 2
    # Flower goes on with the file.
    with superlink(database) as state:
        assert {run.run_id for run in state.get_run_info(run_ids=[old, ended, open_])} == {ended, open_}
        (task,) = state.get_tasks(run_ids=[open_])
        assert LOG in state.get_task_log(task.task_id, None)[0]
        assert state.finish_task(task.task_id, SubStatus.COMPLETED, "")
        assert state.get_node_id_by_public_key(b"key")
        fresh = make_run(state, b"old")
        assert state.get_run_info(run_ids=[fresh])


def test_what_shrinks_is_told(database: Path, wording: SnapshotAssertion) -> None:
    with superlink(database) as state:
        (task,) = state.get_tasks(run_ids=[runs_of(database)[0]])
        for _ in range(100):
            state.add_task_log(task.task_id, LOG)
    with contextlib.closing(sqlite3.connect(database)) as file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = database.stat().st_size
    forgotten = forget(database, 90)
    assert before - database.stat().st_size == forgotten.bytes > 2_000_000
    assert re.sub(r"2\.\d MB", "2 MB", forgotten.sentence(90)) == wording


def test_messages_that_never_arrived_go_with_their_run(database: Path) -> None:
    old, ended, _ = runs_of(database)
    with contextlib.closing(sqlite3.connect(database)) as file, file:
        for name, run in (("a", old), ("b", ended)):
            file.execute("INSERT INTO message_ins (message_id, run_id) VALUES (?, ?)", (name, signed(run)))
            file.execute("INSERT INTO objects VALUES (?, ?, 1, 1)", (name, b"content"))
            file.execute("INSERT INTO objects VALUES (?, ?, 1, 1)", (f"{name}-child", b"content"))
            file.execute("INSERT INTO object_children VALUES (?, ?)", (name, f"{name}-child"))
            for part in (name, f"{name}-child", "shared"):
                file.execute("INSERT OR IGNORE INTO objects VALUES (?, ?, 1, 1)", (part, b"content"))
                file.execute("INSERT INTO run_objects VALUES (?, ?)", (signed(run), part))
    assert forget(database, 90).runs == 1
    with contextlib.closing(sqlite3.connect(database)) as file:
        assert {name for (name,) in file.execute("SELECT object_id FROM objects")} == {"b", "b-child", "shared"}
        assert file.execute("SELECT message_id FROM message_ins").fetchall() == [("b",)]
        assert file.execute("SELECT parent_id FROM object_children").fetchall() == [("b",)]
        assert file.execute("PRAGMA foreign_key_check").fetchall() == []


def test_nothing_is_old_enough(database: Path, wording: SnapshotAssertion) -> None:
    before = rows(database)
    forgotten = forget(database, 200)
    assert (forgotten.runs, rows(database)) == (0, before)
    assert forgotten.sentence(200) == wording
    assert forget(database.with_name("none.db"), 1).runs == 0
    assert not database.with_name("none.db").exists()


def test_all_of_flowers_tables_that_name_a_run_are_known(database: Path) -> None:
    """One that a later Flower adds would keep rows of runs that are gone."""
    known = set(re.findall(r"DELETE FROM (?:temp\.)?(\w+)", " ".join(retention._DELETE)))
    with contextlib.closing(sqlite3.connect(database)) as file:
        about_runs = {
            name
            for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            if {"run_id", "task_id", "series_id", "object_id", "session_id"}
            & {column[1] for column in file.execute(f'PRAGMA table_info("{name}")')}
        }
    assert about_runs - known == {"automation"}
    assert known - about_runs <= {"object_children", "carried", "series", "fab"}


def test_a_database_in_use_or_of_another_kind_stays_as_it_is(database: Path, wording: SnapshotAssertion) -> None:
    with superlink(database) as state:
        assert state.get_node_id_by_public_key(b"key")
        # It waits for work, and has the file open.
        with pytest.raises(RunError, match=r"locked.*stop the SuperLink"):
            short_of_patience(database)
    other = database.with_name("other.db")
    with contextlib.closing(sqlite3.connect(other)) as file, file:
        file.execute("CREATE TABLE task (run_id, finished_at)")
        file.execute("INSERT INTO task VALUES (1, '2000-01-01 00:00:00+00:00')")
    before = other.read_bytes()
    with pytest.raises(RunError, match=r"no such table.*whether the file is its database"):
        forget(other, 90)
    assert other.read_bytes() == before
    other.with_name("link.db").symlink_to(database)
    with pytest.raises(RunError) as caught:
        forget(other.with_name("link.db"), 90)
    assert str(caught.value) == wording


def short_of_patience(database: Path) -> None:
    patience = retention._PATIENCE
    try:
        vars(retention)["_PATIENCE"] = 0.1
        forget(database, 90)
    finally:
        vars(retention)["_PATIENCE"] = patience


# --- commands


@pytest.fixture
def coordinator(database: Path, tmp_path: Path) -> CoordinatorFolder:
    made, _ = prepare(tmp_path / "coordinator", ["localhost"])
    database.rename(made.state / "state.db")
    return made


def keep(coordinator: CoordinatorFolder, days: int) -> None:
    text = coordinator.settings.read_text("utf-8")
    assert "keep-days = 0\n" in text
    coordinator.settings.write_text(text.replace("keep-days = 0\n", f"keep-days = {days}\n"), "utf-8")


def test_the_command_deletes_what_the_settings_say(
    coordinator: CoordinatorFolder, fedct: Fedct, wording: SnapshotAssertion
) -> None:
    refused = fedct("coordinator", "tidy", coordinator.path)
    assert refused.code == 2
    assert "keeps all runs: set keep-days there" in " ".join(refused.err.split())
    keep(coordinator, 90)
    done = fedct("coordinator", "tidy", coordinator.path)
    assert done.code == 0
    assert sentences_with(done.out, "90 days") == wording
    assert rows(coordinator.state / "state.db")["run"] == 2
    fedct("coordinator", "tidy", coordinator.path, "--days", "1")
    assert rows(coordinator.state / "state.db")["run"] == 2


def test_each_start_deletes_and_no_fault_there_keeps_the_coordinator_from_starting(
    coordinator: CoordinatorFolder,
    wording: SnapshotAssertion,
    capsys: pytest.CaptureFixture[str],
) -> None:
    start._tidy(coordinator, Output())
    assert (capsys.readouterr().out, rows(coordinator.state / "state.db")["run"]) == ("", 3)
    keep(coordinator, 90)
    start._tidy(coordinator, Output())
    said = capsys.readouterr().out
    assert "1 run that ended" in " ".join(said.split())
    assert rows(coordinator.state / "state.db")["run"] == 2
    (coordinator.state / "state.db").write_bytes(b"no database at all" * 1000)
    start._tidy(coordinator, Output())
    assert sentences_with(said + capsys.readouterr().out, "old runs") == wording
