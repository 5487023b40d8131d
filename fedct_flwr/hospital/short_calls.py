"""The SuperNode's end of the short form: a question comes with its parts, an answer leaves with them.

A call for work stays open at the SuperLink until there is a question, and counts as a heartbeat: an idle silo makes one
call in 40 s, and a question waits for none. A question whose way back broke off is handed out once more. Whoever is
let in says of which version it is. Needs Flower alone; all of Flower's insides that it touches are in
``shorten_calls``.
"""

import contextlib
import importlib
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import httpx

from fedct_flwr.hospital.noted_calls import QUESTION, Note
from fedct_flwr.hospital.short_form import (
    MEDIA_TYPE,
    NODE_HEADER,
    OFFER_HEADER,
    Wish,
    attach,
    attached,
    mark,
    pack_parts,
    part_ids,
    short_header,
    unpack_parts,
    write_wish,
)
from fedct_flwr.version import __version__

LONGEST_WAIT: Final = 40
"""Seconds. Below the minute after which proxies end a call without an answer, and after which a link counts as lost."""
_SHORTEST_WAIT: Final = 5
_PROBE_WAIT: Final = 1
"""Of the call after one that failed: the link is up once it is answered, and until then it counts as silent."""
_MOST_BROKEN: Final = 7
"""Longer calls are tried every few hours in any case: what was in between may be gone."""
_EXTRA_SECONDS: Final = 15.0
"""A call that may wait is given up so much later."""
_BEAT_SECONDS: Final = 20.0
"""A heartbeat is spared so long after a call for work that brought no question."""
_PARTS_SECONDS: Final = 2.0
"""The agent hands over an answer first, and then its parts."""
_PART_PAUSE: Final = 0.01
_BEAT: Final = "SendNodeHeartbeat"
_PULL: Final = "PullMessages"
_KEPT_HEADERS: Final = ("host", "content-length")
_UNKNOWN_FORM: Final = (400, 401, 404, 415)
"""What a SuperLink answers that does not know the short form."""


class Wait:
    """For how many ``seconds`` the next call may wait: fewer where something in between ends calls that are open long.

    Half as many after each that broke off, and one more after one that came back, so that it is found how long they may
    be. Where it breaks off again, that is tried half as often each time: each try can cost a question a minute.
    """

    def __init__(self) -> None:
        self.seconds = LONGEST_WAIT
        self._broken = self._good = 0

    def broke_off(self) -> None:
        """A call broke off while it waited."""
        self.seconds = max(self.seconds // 2, _SHORTEST_WAIT)
        self._broken, self._good = min(self._broken + 1, _MOST_BROKEN), 0

    def came_back(self) -> None:
        """A call was answered in the end."""
        if self.seconds == LONGEST_WAIT:
            self._broken = 0
        self._good += 1
        if self._good >= 1 << max(self._broken - 1, 0):
            self.seconds, self._good = min(self.seconds + 1, LONGEST_WAIT), 0


def shorten_calls(note: Note, held: Callable[[float], None]) -> None:
    """From now on this process's SuperNode talks in the short form with a SuperLink that offers it.

    ``note`` hears of what needs no call any more; ``held`` is told for how many seconds a call for work was kept open.
    """
    module: Any = importlib.import_module("flwr.supernode.fleet_http_connection")
    loop: Any = importlib.import_module("flwr.supernode.start_client_internal")
    messages: Any = importlib.import_module("flwr.proto.message_pb2")
    beats: Any = importlib.import_module("flwr.proto.heartbeat_pb2")
    original, push_messages = module.FleetHttpClient, loop._push_messages
    stores: list[Any] = []

    def push_from(*, object_store: Any, **others: Any) -> None:
        stores[:] = [object_store]
        push_messages(object_store=object_store, **others)

    loop._push_messages = push_from

    class Short(original):  # type: ignore[misc, valid-type]
        def __init__(self, *arguments: Any, **others: Any) -> None:
            super().__init__(*arguments, **others)
            self._offered = threading.Event()
            self._wait = Wait()
            self._probes = False
            self._received = self._whole = ""
            self._parts: dict[str, bytes] = {}
            self._asking = threading.Event()
            self._answered = -_BEAT_SECONDS
            self._client.event_hooks = {"request": [self._shorten]}

        def _shorten(self, request: httpx.Request) -> None:
            if self._offered.is_set() and (value := short_header(request.headers)):
                kept = {name: request.headers[name] for name in _KEPT_HEADERS if name in request.headers}
                request.headers = httpx.Headers({**kept, NODE_HEADER: value})

        def _send(self, context: Any, **others: Any) -> httpx.Response:
            answer: httpx.Response = super()._send(context, **others)
            if NODE_HEADER in context.request.headers and answer.status_code in _UNKNOWN_FORM:
                # Of Flower alone, as after a coordinator went back to an older version; or that is its decision.
                self._offered.clear()
                del context.request.headers[NODE_HEADER]
                context.request.headers.update({"content-type": MEDIA_TYPE, "accept": MEDIA_TYPE})
                answer = super()._send(context, **others)
            elif OFFER_HEADER in answer.headers:
                self._offered.set()
            return answer

        def _unary_unary(self, *, rpc_method: str, **others: Any) -> Any:
            if self._offered.is_set() and rpc_method.endswith(f"/{_PULL}"):
                others["timeout"] = self._seconds() + _EXTRA_SECONDS
            return super()._unary_unary(rpc_method=rpc_method, **others)

        def _seconds(self) -> int:
            return _PROBE_WAIT if self._probes else self._wait.seconds

        def ActivateNode(self, request: Any) -> Any:  # noqa: N802 - Flower's name
            told = type(request)()
            told.CopyFrom(request)
            attach(told, __version__.encode())
            return super().ActivateNode(told)

        def PullMessages(self, request: Any) -> Any:  # noqa: N802 - Flower's name
            if not self._offered.is_set():
                return super().PullMessages(request)
            asked = type(request)(node=request.node)
            attach(asked, write_wish(Wish(self._seconds(), self._received)))
            began = time.monotonic()
            self._asking.set()
            try:
                answer = super().PullMessages(asked)
            except httpx.RequestError:
                if not self._probes and time.monotonic() - began > _SHORTEST_WAIT:
                    self._wait.broke_off()
                self._probes = True
                raise
            finally:
                self._asking.clear()
            if not self._offered.is_set():
                return answer
            note(_BEAT, "")
            probed, self._probes = self._probes, False
            if answer.messages_list:
                # Until it is answered there is no call for work: heartbeats alone say that this silo is there.
                self._answered = -_BEAT_SECONDS
                self._take(answer)
            else:
                self._answered = time.monotonic()
                # After a probe the next call follows at once.
                held(LONGEST_WAIT if probed else self._answered - began)
                if not probed:
                    self._wait.came_back()
            return answer

        def _take(self, answer: Any) -> None:
            """Keep the parts that came with a question. The rest is fetched, as is all of a broken one."""
            self._parts, self._whole = {}, ""
            message_id = answer.messages_list[0].metadata.message_id
            self._received = mark(message_id)
            with contextlib.suppress(ValueError):
                self._parts = unpack_parts(attached(answer) or b"")
            if set(part_ids(answer.message_object_trees[0])) <= self._parts.keys():
                self._whole = message_id

        def PullObject(self, request: Any) -> Any:  # noqa: N802 - Flower's name
            part = self._parts.get(request.object_id)
            if part is None:
                return super().PullObject(request)
            return messages.PullObjectResponse(object_found=True, object_available=True, object_content=part)

        def ConfirmMessageReceived(self, request: Any) -> Any:  # noqa: N802 - Flower's name
            if not self._whole or request.message_object_id != self._whole:
                return super().ConfirmMessageReceived(request)
            # The next call says so.
            self._parts, self._whole = {}, ""
            note(QUESTION, "")
            return messages.ConfirmMessageReceivedResponse()

        def PushMessages(self, request: Any) -> Any:  # noqa: N802 - Flower's name
            if self._offered.is_set() and (parts := _parts_of(request.message_object_trees[0], stores)) is not None:
                # A copy, as Flower sends the same request again where the call fails.
                whole = type(request)()
                whole.CopyFrom(request)
                attach(whole, parts)
                request = whole
            return super().PushMessages(request)

        def SendNodeHeartbeat(self, request: Any) -> Any:  # noqa: N802 - Flower's name
            lately = time.monotonic() - self._answered < _BEAT_SECONDS
            if self._offered.is_set() and (lately or self._asking.is_set()):
                return beats.SendNodeHeartbeatResponse(success=True)
            return super().SendNodeHeartbeat(request)

    module.FleetHttpClient = Short


def _parts_of(tree: Any, stores: list[Any]) -> bytes | None:
    """All parts of an answer, for which it waits a moment; None if they are not there, or too many."""
    end, found = time.monotonic() + _PARTS_SECONDS, []
    for name in part_ids(tree):
        while stores and not (part := stores[0].get(name)):
            if part is None or time.monotonic() > end:
                return None
            time.sleep(_PART_PAUSE)
        if not stores:
            return None
        found.append(part)
    return pack_parts(found)
