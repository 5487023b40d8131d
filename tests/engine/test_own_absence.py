"""A SuperLink that was down or suspended finds its runs as it has left them; one that was there counts heartbeats."""

import importlib
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flwr.app import Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.common.serde import message_to_proto
from flwr.proto.runtime_pb2 import PushAppMessagesRequest
from flwr.supercore.inflatable.inflatable_object import get_object_tree
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.servicer.runtime import runtime_handlers

from fedct_flwr.engine.own_absence import _OF_NODES, _OF_TASKS, Absence
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
    link: Any = importlib.import_module("flwr.server.superlink.linkstate.sql_linkstate")
    clock = Clock(core.now)
    for module, state, names in ((core, core.SqlCoreState, _OF_TASKS), (link, link.SqlLinkState, _OF_NODES)):
        monkeypatch.setattr(module, "now", clock.now)
        for name in names:
            # They are replaced, and put back afterwards.
            monkeypatch.setattr(state, name, getattr(state, name))
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
        absence.look()


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
    is_over(running)
    be_there(absence, clock, 2 * MINUTE)
    assert is_over(running)


def test_the_token_of_a_run_is_good_after_an_absence(running: Any, clock: Clock, absence: Absence) -> None:
    core: Any = importlib.import_module("flwr.supercore.corestate.sql_corestate")
    with running.state.session() as session:
        token = session.scalars(core.select(core.TaskModel.token)).one()
    be_there(absence, clock, MINUTE / 4)
    clock.passed += 10 * MINUTE
    assert running.state.get_task_by_token(token).task_id == running.task


def test_the_first_call_may_come_long_after_the_superlink_is_back(running: Any, clock: Clock, absence: Absence) -> None:
    clock.passed += 10 * MINUTE
    # It takes its time to begin, and whoever found nobody waits before the next call.
    be_there(absence, clock, MINUTE / 2)
    assert running.state.acknowledge_task_heartbeat(running.task)


def node(state: Any, name: str = "basel") -> int:
    made = state.create_node("aid", "owner", name.encode(), 30.0, name=name)
    state.acknowledge_node_heartbeat(made, 30.0)
    return int(made)


def ask(running: Any, silo: int, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """A question that is on its way."""
    for name, value in {"_task_id": running.task, "_run_id": running.run, "_node_id": 1}.items():
        monkeypatch.setattr(TaskIdentity, name, value)
    message = Message(RecordDict(), silo, "train", ttl=3600)
    message.metadata.__dict__["_message_id"] = message.object_id
    tree = get_object_tree(message)
    bare = message_to_proto(remove_content_from_message(message))
    request = PushAppMessagesRequest(messages_list=[bare], message_object_trees=[tree])
    runtime_handlers.push_messages(request, running.state, SimpleNamespace(run_id=running.run))  # type: ignore[arg-type]
    return {str(message.metadata.message_id)}


def is_online(running: Any, silo: int) -> bool:
    (info,) = running.state.get_node_info(node_ids=[silo])
    return bool(info.status == "online")


def test_silos_are_there_until_they_could_have_called(running: Any, clock: Clock, absence: Absence) -> None:
    silo, gone = node(running.state), node(running.state, "zurich")
    be_there(absence, clock, MINUTE / 2)
    running.state.acknowledge_node_heartbeat(silo, 30.0)
    clock.passed += 10 * MINUTE
    assert is_online(running, silo)
    be_there(absence, clock, MINUTE / 2)
    running.state.acknowledge_node_heartbeat(silo, 30.0)
    be_there(absence, clock, MINUTE - 1)
    assert is_online(running, silo)
    assert not is_online(running, gone)


def test_a_silo_and_a_serverapp_that_are_gone_do_not_stay_where_the_clock_is_set_back(
    running: Any, clock: Clock, absence: Absence
) -> None:
    silo, gone = node(running.state), node(running.state, "zurich")
    be_there(absence, clock, MINUTE / 4)
    assert running.state.acknowledge_task_heartbeat(running.task)
    clock.passed -= 10 * MINUTE
    assert is_online(running, silo)
    assert not is_over(running)
    be_there(absence, clock, MINUTE / 2)
    running.state.acknowledge_node_heartbeat(silo, 30.0)
    be_there(absence, clock, MINUTE - 1)
    assert is_online(running, silo)
    assert not is_online(running, gone)
    assert is_over(running)


def test_a_question_that_is_open_is_not_given_up(
    running: Any, clock: Clock, absence: Absence, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = ask(running, node(running.state), monkeypatch)
    be_there(absence, clock, MINUTE / 2)
    clock.passed += 10 * MINUTE
    assert running.state.get_message_res(question, running.run) == []
    # One who does not come back is given up.
    be_there(absence, clock, 2 * MINUTE)
    (answer,) = running.state.get_message_res(question, running.run)
    assert answer.has_error()
