"""An agent's call for a task stays open at the SuperNode for a moment, until there is one.

Flower 1.41 answers such a call at once, so that an agent which is to notice a question soon asks all the time. Needs
Flower alone; ``hold_tasks`` touches Flower's insides.
"""

import asyncio
import contextlib
import importlib
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

WAIT_HEADER: Final = "fedct-wait"
"""Of a call that may be held."""
HELD_SECONDS: Final = 1.0
"""An agent notices so soon that it is to end, and its SuperNode that it is there."""
_ACQUIRE: Final = "/v1/runtime/acquire-task"

Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]


class Bell:
    """Rung from any thread when there is a task. One that nobody heard is heard by whoever comes next."""

    def __init__(self) -> None:
        self._rung = False
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._lock = threading.Lock()

    def ring(self) -> None:
        """There is a task."""
        with self._lock:
            self._rung, waiting = True, self._waiting
        if waiting:
            # A loop that is over has no calls.
            with contextlib.suppress(RuntimeError):
                waiting[0].call_soon_threadsafe(waiting[1].set)

    async def heard(self) -> None:
        """Wait for it."""
        event = asyncio.Event()
        with self._lock:
            self._waiting = (asyncio.get_running_loop(), event)
            if self._rung:
                event.set()
        await event.wait()
        with self._lock:
            self._rung = False


class HeldTasks:
    """The SuperNode ``app`` (ASGI), whose calls for a task wait for the ``bell``."""

    def __init__(self, app: App, bell: Bell) -> None:
        self._app = app
        self._bell = bell

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one call."""
        if scope["type"] != "http" or scope["path"] != _ACQUIRE or not _may_wait(scope):
            await self._app(scope, receive, send)
            return
        read = [await receive()]
        heard, next_event = asyncio.ensure_future(self._bell.heard()), asyncio.ensure_future(receive())
        await asyncio.wait({heard, next_event}, timeout=HELD_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        heard.cancel()
        if next_event.done():
            read.append(next_event.result())
            if read[-1]["type"] == "http.disconnect":
                # A task would be handed to nobody, and be lost.
                self._bell.ring()
                return
        next_event.cancel()

        async def again() -> Event:
            return read.pop(0) if read else await receive()

        await self._app(scope, again, send)


def hold_tasks() -> None:
    """From now on this process's SuperNode holds the calls of an agent that says so."""
    bell = Bell()
    main: Any = importlib.import_module("flwr.supernode.main")
    loop: Any = importlib.import_module("flwr.supernode.start_client_internal")
    create_app, look = main.create_app, loop._pull_and_store_message

    def create_held_app(*arguments: Any, **others: Any) -> Any:
        app = create_app(*arguments, **others)
        app.add_middleware(HeldTasks, bell=bell)
        return app

    def look_and_ring(**others: Any) -> Any:
        run = look(**others)
        if run is not None:
            bell.ring()
        return run

    main.create_app, loop._pull_and_store_message = create_held_app, look_and_ring


def _may_wait(scope: MutableMapping[str, Any]) -> bool:
    return any(name.lower() == WAIT_HEADER.encode() for name, _ in scope["headers"])
