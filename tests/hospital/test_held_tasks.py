"""An agent's call for a task waits at the SuperNode, and no task is handed to an agent that is gone."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from fedct_flwr.hospital import held_tasks
from fedct_flwr.hospital.held_tasks import WAIT_HEADER, Bell, Event, HeldTasks

ACQUIRE = "/v1/runtime/acquire-task"
WAITS = [(WAIT_HEADER.encode(), b"1")]
BODY: Event = {"type": "http.request", "body": b"task, please", "more_body": False}
GONE: Event = {"type": "http.disconnect"}
LONG, SHORT = 60.0, 0.1


@pytest.fixture(autouse=True)
def hold(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """How long a call is held at most: so long, unless told, that a busy machine is no reason."""

    def seconds(held: float) -> None:
        monkeypatch.setattr(held_tasks, "HELD_SECONDS", held)

    seconds(LONG)
    return seconds


class Call:
    """One call to a SuperNode, and what came of it."""

    def __init__(self, bell: Bell, path: str = ACQUIRE, headers: Any = None) -> None:
        self.scope = {"type": "http", "path": path, "headers": WAITS if headers is None else headers}
        self.events: asyncio.Queue[Event] = asyncio.Queue()
        self.read: list[Event] = []
        self.seconds = 0.0
        self._held = HeldTasks(self._flowers, bell)

    async def _flowers(self, scope: Any, receive: Any, send: Any) -> None:
        assert scope is self.scope
        self.read.append(await receive())

    async def made(self) -> "Call":
        self.events.put_nowait(BODY)
        began = time.monotonic()
        await self._held(self.scope, self.events.get, self._sent)
        self.seconds = time.monotonic() - began
        return self

    async def _sent(self, event: Event) -> None:
        raise AssertionError(event)


def test_it_waits_until_there_is_a_task(hold: Callable[[float], None]) -> None:
    async def whole() -> None:
        bell = Bell()
        call = asyncio.ensure_future(Call(bell).made())
        await asyncio.sleep(0.1)
        assert not call.done()
        await asyncio.to_thread(bell.ring)
        made = await call
        assert made.read == [BODY]
        assert made.seconds < LONG
        # Heard once.
        hold(SHORT)
        assert (await Call(bell).made()).seconds >= SHORT

    asyncio.run(whole())


def test_a_task_that_is_there_already_waits_for_no_call() -> None:
    async def whole() -> None:
        bell = Bell()
        bell.ring()
        assert (await Call(bell).made()).seconds < LONG

    asyncio.run(whole())


@pytest.mark.parametrize(("path", "headers"), [(ACQUIRE, []), ("/v1/runtime/pull-messages", WAITS)])
def test_other_calls_are_answered_at_once(path: str, headers: Any) -> None:
    made = asyncio.run(Call(Bell(), path, headers).made())
    assert made.read == [BODY]
    assert made.seconds < LONG


def test_an_agent_that_is_gone_gets_no_task_and_the_next_one_does() -> None:
    async def whole() -> None:
        bell = Bell()
        dead = Call(bell)
        call = asyncio.ensure_future(dead.made())
        await asyncio.sleep(0.1)
        bell.ring()
        dead.events.put_nowait(GONE)
        await call
        assert dead.read == []
        made = await Call(bell).made()
        assert made.read == [BODY]
        assert made.seconds < LONG

    asyncio.run(whole())
