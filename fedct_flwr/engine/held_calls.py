"""Calls for work that stay open until there is a question, in front of Flower's SuperLink (ASGI).

Flower's own handler is asked at the beginning of a call, whenever a bell rings for the silo, and at the end. So each
look goes through all that Flower checks, its signature above all.
"""

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Final, NamedTuple

from flwr.proto.fleet_pb2 import DeactivateNodeRequest, PullMessagesRequest
from google.protobuf.message import DecodeError

from fedct_flwr.hospital.short_form import (
    LONG_HEADERS,
    MEDIA_TYPE,
    NODE_HEADER,
    OFFER_HEADER,
    attached,
    long_headers,
    read_wish,
)

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = Iterable[tuple[bytes, bytes]]

_FLEET: Final = "/v1/fleet/"
_ACTIVATE: Final = f"{_FLEET}activate-node"
_DEACTIVATE: Final = f"{_FLEET}deactivate-node"
_PULL: Final = f"{_FLEET}pull-messages"
_MOST_BYTES: Final = 16_384
"""Of a call that may wait; it has about 30."""
_COMING_SECONDS: Final = 2.0
"""So long a question may take whose parts are on their way, before a silo gets it without them."""
_COMING_PAUSE: Final = 0.02
_OK: Final = 200


class Bells:
    """One for each silo whose call waits. They may be rung from any thread."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[asyncio.AbstractEventLoop, asyncio.Event]] = {}
        self._rung: Counter[int] = Counter()
        self._lock = threading.Lock()

    def rung(self, node: int) -> int:
        """How often one was rung for this silo."""
        with self._lock:
            return self._rung[node]

    def hang(self, node: int, rung: int) -> asyncio.Event:
        """A bell for a call of this silo, in place of the one before it, whose call ends.

        It rings already if it was rung more than ``rung`` times.
        """
        bell = asyncio.Event()
        with self._lock:
            before = self._waiting.get(node)
            self._waiting[node] = (asyncio.get_running_loop(), bell)
            if self._rung[node] > rung:
                bell.set()
        if before:
            before[1].set()
        return bell

    def hangs(self, node: int, bell: asyncio.Event) -> bool:
        """Whether this is still the silo's bell."""
        with self._lock:
            return self._waiting.get(node, (None, None))[1] is bell

    def take_down(self, node: int, bell: asyncio.Event | None = None) -> None:
        """End the silo's call, if it is the one with this ``bell``, or whichever it is."""
        with self._lock:
            loop_and_bell = self._waiting.get(node)
            if loop_and_bell is None or bell not in (None, loop_and_bell[1]):
                return
            del self._waiting[node]
        loop_and_bell[1].set()

    def ring(self, node: int) -> None:
        """There is something for this silo."""
        with self._lock:
            self._rung[node] += 1
            found = self._waiting.get(node)
        if found:
            loop, bell = found
            # A loop that is over has no calls.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(bell.set)


class _Answer(NamedTuple):
    events: list[Event]

    def is_empty(self) -> bool:
        """Whether this is an answer of Flower's without a question."""
        status = [event["status"] for event in self.events if event["type"] == "http.response.start"]
        return status == [_OK] and not any(event.get("body") for event in self.events)


class HeldCalls:
    """The SuperLink ``app``, with the short form of a silo's calls."""

    def __init__(self, app: App, bells: Bells, is_coming: Callable[[int], bool]) -> None:
        self._app = app
        self._bells = bells
        self._is_coming = is_coming

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one call."""
        if scope["type"] != "http" or not scope["path"].startswith(_FLEET):
            await self._app(scope, receive, send)
            return
        scope = {**scope, "headers": _lengthened(scope["headers"])}
        if scope["path"] == _ACTIVATE:
            await self._app(scope, receive, _offering(send))
        elif scope["path"] == _PULL:
            await self._pull(scope, receive, send)
        elif scope["path"] == _DEACTIVATE:
            await self._deactivate(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _deactivate(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, receive = await _read(receive)
        answer = await self._ask(scope, body) if body is not None else None
        if answer is None:
            await self._app(scope, receive, send)
            return
        if answer.events and answer.events[0].get("status") == _OK:
            self._bells.take_down(DeactivateNodeRequest.FromString(body or b"").node_id)
        await _reply(answer, send)

    async def _pull(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, receive = await _read(receive)
        request = PullMessagesRequest()
        with contextlib.suppress(DecodeError):
            request.ParseFromString(body or b"")
        wish = read_wish(attached(request))
        if body is None or wish is None:
            await self._app(scope, receive, send)
            return
        found = await self._question(scope, body, request.node.node_id, wish.wait, receive)
        if found is not None:
            await _reply(found, send)

    async def _question(self, scope: Scope, body: bytes, node: int, seconds: float, receive: Receive) -> _Answer | None:
        """The answer to a call that may wait; None if the silo has hung up."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        rung = self._bells.rung(node)
        await self._await_parts(node)
        # Before anything waits, and takes another call's place: Flower sees in each look whether the silo signed it.
        answer = await self._ask(scope, body)
        if not answer.is_empty():
            return answer
        bell = self._bells.hang(node, rung)
        hung_up = asyncio.ensure_future(_hung_up(receive))
        try:
            while (left := end - loop.time()) > 0:
                ringing = asyncio.ensure_future(bell.wait())
                await asyncio.wait({ringing, hung_up}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                ringing.cancel()
                if hung_up.done():
                    return None
                if not self._bells.hangs(node, bell) or not bell.is_set():
                    # Another call of the same silo has taken this one's place, and gets what there is; or the time is
                    # up. The next call looks again, where this silo may be gone.
                    return answer
                bell.clear()
                await self._await_parts(node)
                answer = await self._ask(scope, body)
                if not answer.is_empty():
                    return answer
            return answer
        finally:
            hung_up.cancel()
            self._bells.take_down(node, bell)

    async def _await_parts(self, node: int) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + _COMING_SECONDS
        while self._is_coming(node) and loop.time() < end:
            await asyncio.sleep(_COMING_PAUSE)

    async def _ask(self, scope: Scope, body: bytes) -> _Answer:
        """What Flower answers."""
        events: list[Event] = []

        async def send(event: Event) -> None:
            events.append(event)

        # Each look has a scope of its own, as Flower keeps what it has understood there.
        await self._app({**scope, "state": dict(scope.get("state", {}))}, _replayed(body), send)
        return _Answer(events)


async def _read(receive: Receive) -> tuple[bytes | None, Receive]:
    """The whole body, and a way to read it again; None for one that is too long or broken off."""
    events = []
    while True:
        event = await receive()
        events.append(event)
        size = sum(len(one.get("body", b"")) for one in events)
        if event["type"] != "http.request" or size > _MOST_BYTES:
            whole = None
            break
        if not event.get("more_body"):
            whole = b"".join(one.get("body", b"") for one in events)
            break

    async def again() -> Event:
        return events.pop(0) if events else await receive()

    return whole, again


def _replayed(body: bytes) -> Receive:
    events: list[Event] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Event:
        if events:
            return events.pop()
        # Nobody hangs up here: whoever asks in the silo's place hears of that.
        never: asyncio.Future[Event] = asyncio.get_running_loop().create_future()
        return await never

    return receive


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _reply(answer: _Answer, send: Send) -> None:
    for event in answer.events:
        await send(event)


def _offering(send: Send) -> Send:
    async def offer(event: Event) -> None:
        if event["type"] == "http.response.start" and event["status"] == _OK:
            event = {**event, "headers": [*event["headers"], (OFFER_HEADER.encode(), b"1")]}
        await send(event)

    return offer


def _lengthened(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Flower's headers in place of the short one."""
    found = [(name.lower(), value) for name, value in headers]
    short = [value for name, value in found if name == NODE_HEADER.encode()]
    if len(short) != 1:
        return found
    dropped = {NODE_HEADER, "content-type", *LONG_HEADERS}
    longer = {**long_headers(short[0].decode("ascii", "replace")), "content-type": MEDIA_TYPE}
    kept = [(name, value) for name, value in found if name.decode("latin-1") not in dropped]
    return [*kept, *((name.encode(), value.encode()) for name, value in longer.items())]
