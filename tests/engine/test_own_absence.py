"""A SuperLink that was down or suspended finds its runs as it has left them; one that was there counts heartbeats."""

import importlib
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fedct_flwr.engine.own_absence import Absence
from tests.superlink_state import begin_run, superlink

pytestmark = pytest.mark.filterwarnings("ignore:No path_separator:DeprecationWarning")

MINUTE = 60.0
"""After which Flower gives a run up whose ServerApp was not heard."""


class Clock:
    """Flower's, and that of the absence."""

    def __init__(self, now: Any) -> None:
        self._now = now
        self.passed = 0.0

    def seconds(self) -> float:
        return self.passed

    def now(self) -> datetime:
        found = self._now() + timedelta(seconds=self.passed)
        assert isinstance(found, datetime)
        return found


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    core: Any = importlib.import_module("flwr.supercore.corestate.sql_corestate")
    clock = Clock(core.now)
    monkeypatch.setattr(core, "now", clock.now)
    for name in ("_cleanup_expired_task_tokens", "get_task_by_token"):
        # They are replaced, and put back afterwards.
        monkeypatch.setattr(core.SqlCoreState, name, getattr(core.SqlCoreState, name))
    return clock


@pytest.fixture
def absence(clock: Clock) -> Absence:
    absence = Absence(clock.seconds)
    absence.forgive()
    return absence


@pytest.fixture
def running(tmp_path: Path, clock: Clock) -> Iterator[Any]:
    """A run under way, in a SuperLink's database."""
    with superlink(tmp_path / "state.db") as state:
        run, task = begin_run(state, b"code")
        (begun,) = state.get_tasks(run_ids=[run])
        yield SimpleNamespace(state=state, run=run, task=task.task_id, begun=begun)


def is_over(running: Any) -> bool:
    (task,) = running.state.get_tasks(run_ids=[running.run])
    return bool(task.finished_at)


def be_there(absence: Absence, clock: Clock, seconds: float) -> None:
    """Time goes by, and the SuperLink is at work."""
    for _ in range(int(seconds)):
        clock.passed += 1
        absence.just_back()


def test_a_run_outlasts_the_absence_of_the_superlink_alone(running: Any, clock: Clock, absence: Absence) -> None:
    be_there(absence, clock, MINUTE / 2)
    assert running.state.acknowledge_task_heartbeat(running.task)
    clock.passed += 10 * MINUTE
    # The ServerApp's next heartbeat comes a while after others have called.
    assert not is_over(running)
    be_there(absence, clock, MINUTE / 2)
    assert running.state.acknowledge_task_heartbeat(running.task)
    be_there(absence, clock, MINUTE - 1)
    assert not is_over(running)


def test_a_heartbeat_may_be_the_first_call_after_an_absence(running: Any, clock: Clock, absence: Absence) -> None:
    be_there(absence, clock, MINUTE / 2)
    clock.passed += 10 * MINUTE
    assert running.state.acknowledge_task_heartbeat(running.task)


def test_a_superlink_that_is_started_again_was_away(running: Any, clock: Clock) -> None:
    clock.passed += 10 * MINUTE
    Absence(clock.seconds).forgive()
    assert not is_over(running)


@pytest.mark.parametrize("away", [0, 10 * MINUTE])
def test_a_serverapp_that_is_gone_is_given_up_all_the_same(
    running: Any, clock: Clock, absence: Absence, away: float
) -> None:
    be_there(absence, clock, MINUTE / 4)
    running.state.acknowledge_task_heartbeat(running.task)
    clock.passed += away
    absence.just_back()
    be_there(absence, clock, 2 * MINUTE)
    assert is_over(running)


def test_the_token_of_a_run_is_good_after_an_absence(running: Any, clock: Clock, absence: Absence) -> None:
    core: Any = importlib.import_module("flwr.supercore.corestate.sql_corestate")
    with running.state.session() as session:
        token = session.scalars(core.select(core.TaskModel.token)).one()
    be_there(absence, clock, MINUTE / 4)
    clock.passed += 10 * MINUTE
    assert running.state.get_task_by_token(token).task_id == running.task
