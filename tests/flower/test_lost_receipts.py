"""A SuperLink that dies after it took a part of a question, and before it said so, with Flower's own handlers."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.supercore.inflatable.inflatable_utils import ObjectPushError
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid import HttpGrid
from flwr.superlink.servicer.runtime import runtime_handlers

from fedct_flwr.flower.grid import PollingGrid
from tests.superlink_state import begin_run, superlink

pytestmark = pytest.mark.filterwarnings("ignore:No path_separator:DeprecationWarning")


class LosesAReceipt:
    """A client whose first part is taken twice: nobody heard the first answer, so Flower's client asks again."""

    def __init__(self, state: Any, run: int) -> None:
        self._state, self._task = state, SimpleNamespace(run_id=run)
        self.parts = 0

    def PushMessages(self, request: Any) -> Any:  # noqa: N802 - Flower's name
        return runtime_handlers.push_messages(request, self._state, self._task)  # type: ignore[arg-type]

    def PushObject(self, request: Any) -> Any:  # noqa: N802 - Flower's name
        self.parts += 1
        if self.parts == 1:
            runtime_handlers.push_object(request, self._state, self._task)  # type: ignore[arg-type]
        return runtime_handlers.push_object(request, self._state, self._task)  # type: ignore[arg-type]


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Any]:
    with superlink(tmp_path / "state.db") as made:
        yield made


@pytest.fixture
def grid(state: Any, monkeypatch: pytest.MonkeyPatch) -> HttpGrid:
    run, task = begin_run(state, b"code")
    for name, value in {"_task_id": task.task_id, "_run_id": run, "_node_id": 1}.items():
        monkeypatch.setattr(TaskIdentity, name, value)
    grid = HttpGrid(token="token")
    grid.set_run(Run.create_empty(run))
    grid._client = LosesAReceipt(state, run)  # type: ignore[assignment]
    return grid


def questions(state: Any) -> list[Message]:
    nodes = []
    for name in ("basel", "zurich"):
        nodes.append(state.create_node("aid", "owner", name.encode(), 30.0, name=name))
        state.activate_node(nodes[-1], 30.0)
    return [
        Message(RecordDict({"question": ConfigRecord({"bytes": b"same for all"})}), node, "train") for node in nodes
    ]


def test_flower_gives_up(state: Any, grid: HttpGrid) -> None:
    with pytest.raises(ObjectPushError):
        grid.push_messages(questions(state))


def test_the_coordinator_sends_the_question_again(state: Any, grid: HttpGrid) -> None:
    asked = questions(state)
    sent = list(PollingGrid(grid).push_messages(asked))
    assert sent == [message.metadata.message_id for message in asked]
    assert all(sent)
    for message in asked:
        (kept,) = state.get_message_ins(message.metadata.dst_node_id, limit=None)
        assert kept.metadata.message_id == message.metadata.message_id
        assert state.object_store.get(message.metadata.message_id)
