"""A Grid that sends a round's messages and notices replies soon, and to which a lying silo is one silo's error.

A node announces a reply and sends its parts afterwards. Flower waits for the parts of one reply before it looks at the
next, and raises what it stumbles over in them. Here a reply counts once all its parts are there, and wrong parts make
an error of that silo's reply alone.

Issue for Flower, "Grid.pull_messages: one incomplete or malformed reply blocks or fails all others": `HttpGrid` calls
`pull_objects` for each announced reply in turn and retries for minutes; `inflate_object_from_contents` raises out of
`pull_messages`; metadata of the inflated message is not compared with the announced one.
"""

import contextlib
import time
from abc import ABC
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from typing import Any, Final, NamedTuple

from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict
from flwr.common.serde import message_from_proto
from flwr.proto import message_pb2 as messages
from flwr.proto import runtime_pb2 as runtime
from flwr.proto.recorddict_pb2 import ConfigRecord as ConfigRecordProto
from flwr.proto.recorddict_pb2 import MetricRecord as MetricRecordProto
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import get_object_body, get_object_type_from_object_content
from flwr.supercore.inflatable.inflatable_utils import ObjectPushError, inflate_object_from_contents

from fedct_flwr.text.printable import count, logger


class ErrorCode(IntEnum):
    """Codes of the errors that come for replies: Flower's, and one of ours."""

    LOAD_CLIENT_APP_EXCEPTION = 1
    CLIENT_APP_RAISED_EXCEPTION = 2
    MESSAGE_UNAVAILABLE = 3
    REPLY_MESSAGE_UNAVAILABLE = 4
    NODE_UNAVAILABLE = 5
    CLIENT_APP_CRASHED = 8
    UNREADABLE = 1000


class PromptGrid(Grid, ABC):
    """A Grid whose ``send_and_receive`` returns as soon as the last reply is there, or the time is up."""

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """A new message; ``Message(...)`` does the same."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)


def seconds_of(timestamp: str) -> float:
    """Seconds since the epoch of a time as Flower writes it; 0 if there is none."""
    return datetime.fromisoformat(timestamp).timestamp() if timestamp else 0.0


_RECORDS: Final[Mapping[str, tuple[Any, Any]]] = {
    "ConfigRecord": (ConfigRecord, ConfigRecordProto),
    "MetricRecord": (MetricRecord, MetricRecordProto),
}
_MOST_FIELDS: Final = 8
"""Most fields of one record; all of ours have one. Flower takes 16 s to read a million, which the gateway lets in."""


def part_ids(tree: Any, most: int = 1 << 20) -> list[str]:
    """Names of a message's parts, each once, from Flower's tree of them; no more than ``most``."""
    found = dict[str, None]()
    for name in _names(tree):
        found[name] = None
        if len(found) == most:
            break
    return list(found)


def _names(tree: Any) -> Iterator[str]:
    """A message's own name comes last: its other parts are sent first."""
    for child in tree.children:
        yield from _names(child)
    yield tree.object_id


def is_short(part: bytes) -> bool:
    """Whether a part is no long record, which Flower would take long to read. Raises for what is no part."""
    kinds = _RECORDS.get(get_object_type_from_object_content(part))
    if kinds is None:
        return True
    record, proto = kinds
    fields = proto.FromString(get_object_body(part, record)).items
    return len(fields) <= _MOST_FIELDS and not any(
        (field.value.WhichOneof("value") or "").endswith("_list") for field in fields
    )


def inflated(name: str, parts: Mapping[str, bytes], short: Callable[[bytes], bool] = is_short) -> Message | None:
    """The message of this name that these parts make; None if it is not one. Raises what Flower stumbles over."""
    if not all(map(short, parts.values())):
        return None
    found = inflate_object_from_contents(name, dict(parts))
    return found if isinstance(found, Message) else None


def bare(proto: Any) -> Message:
    """The message that Flower announces, without its records or its error."""
    proto.ClearField("error")
    proto.content.Clear()
    proto.content.SetInParent()
    return message_from_proto(proto)


SHORTEST_SECONDS: Final = 0.05
LONGEST_SECONDS: Final = 3.0
MOST_PARTS: Final = 8
"""Most parts of one reply; all of ours have three. With 64, replies of 16 lying silos could fill 1 GiB."""
MOST_BYTES: Final = 64 << 20
"""Most bytes of one reply's parts, each of which may reach the gateway's limit. Probabilities have 450 kB."""
_SHARE_OF_WAIT: Final = 0.1
_MOST_PUSHES: Final = 5
_NODES_SECONDS: Final = 5.0
"""The time between two checks of which nodes have restarted."""


class _Question(NamedTuple):
    """A message that was sent, its ids, when (in seconds), and which start of the node it was sent again for."""

    message: Message
    name: str
    first: str
    sent_at: float
    started: float = 0.0


@dataclass
class _Arriving:
    """A reply that was announced (its proto), and the parts of it that are there."""

    reply: Any
    tree: Any
    parts: dict[str, bytes] = field(default_factory=dict)
    lost: bool = False
    """Whether the SuperLink does not know a part any more."""
    endless: bool = False
    """Whether it has more parts or bytes than any reply: nothing of it is kept."""

    def message(self) -> Message:
        """The reply, or an error where its parts are not what was announced. Never raises."""
        announced = self.reply.metadata
        try:
            found = None if self.lost else inflated(announced.message_id, self.parts)
        except Exception:
            found = None
        keys = ("run_id", "src_node_id", "reply_to_message_id", "created_at")
        if found and all(getattr(found.metadata, key) == getattr(announced, key) for key in keys):
            found.metadata.__dict__["_message_id"] = announced.message_id
            return found
        self.reply.ClearField("content")
        self.reply.error.code = ErrorCode.MESSAGE_UNAVAILABLE if self.lost else ErrorCode.UNREADABLE
        return message_from_proto(self.reply)


class PollingGrid(PromptGrid):
    """Looks for replies again after a tenth of the time waited so far, but within 0.05 s and 3 s.

    A node that restarts has lost what it was asked, and is asked again. Everything else is the other Grid's.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._arriving: dict[str, _Arriving] = {}
        """Arriving replies, by the question's id."""

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """Send, and return the replies within ``timeout`` seconds, each the first to any sending of its question."""
        started = looked = time.monotonic()
        # Flower gives no id to a message that it could not send, so no reply will come to that.
        waiting = {question.name: question for question in self._sent(list(messages)) if question.name}
        received: list[Message] = []
        while waiting:
            names = {name: question.first for question in waiting.values() for name in {question.first, question.name}}
            for reply in self.pull_messages(names):
                first = names[reply.metadata.reply_to_message_id]
                if waiting.pop(first, None):
                    reply.metadata.__dict__["_reply_to_message_id"] = first
                    received.append(reply)
            now = time.monotonic()
            waited = now - started
            if not waiting or (timeout is not None and waited >= timeout):
                break
            if now - looked >= _NODES_SECONDS:
                looked = now
                waiting |= self._asked_again(waiting.values())
            pause = min(max(_SHARE_OF_WAIT * waited, SHORTEST_SECONDS), LONGEST_SECONDS)
            time.sleep(pause if timeout is None else min(pause, timeout - waited))
        return received

    def _sent(self, messages: Sequence[Message]) -> list[_Question]:
        sent_at = time.time()
        names = self.push_messages(messages)
        return [_Question(message, name, name, sent_at) for message, name in zip(messages, names, strict=True)]

    def _asked_again(self, waiting: Iterable[_Question]) -> dict[str, _Question]:
        """Send again what restarted nodes have lost, by the id of the first sending."""
        started = {int(node.node_id): seconds_of(node.last_activated_at) for node in self.get_nodes()}
        # Once for each start: where the clock was set back, it lies after all that is sent.
        lost = [
            each._replace(started=start)
            for each in waiting
            if (start := started.get(each.message.metadata.dst_node_id, 0.0)) > each.sent_at and start != each.started
        ]
        if not lost:
            return {}
        logger.info("%s restarted and may have lost the question: asking again", count(len(lost), "node"))
        again = self._sent([copy_of(each.message) for each in lost])
        return {
            old.first: new._replace(name=new.name or old.name, first=old.first, started=old.started)
            for old, new in zip(lost, again, strict=True)
        }

    def set_run(self, run: Any) -> None:
        """Set the run."""
        self._grid.set_run(run)

    @property
    def run(self) -> Any:
        """The run."""
        return self._grid.run

    def get_node_ids(self) -> Iterable[int]:
        """All nodes."""
        return self._grid.get_node_ids()

    def get_nodes(self) -> Iterable[Any]:
        """All nodes, with the names that they are registered under."""
        return self._grid.get_nodes()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Send messages to their nodes, again where a SuperLink died meanwhile: it keeps what it has."""
        messages = list(messages)
        for _ in range(_MOST_PUSHES - 1):
            with contextlib.suppress(ObjectPushError):
                return self._grid.push_messages(messages)
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Replies to these messages that are there as a whole; a reply with a fault is an error in its place."""
        client: Any = getattr(self._grid, "_runtime_client", None)
        # Only a SuperLink's replies come in parts.
        return self._grid.pull_messages(message_ids) if client is None else self._whole(client, list(message_ids))

    def _whole(self, client: Any, message_ids: Sequence[str]) -> list[Message]:
        # The SuperLink reports each reply once.
        if new := [asked for asked in message_ids if asked not in self._arriving]:
            pulled = client.PullMessages(runtime.PullAppMessagesRequest(message_ids=new))
            for reply, tree in zip(pulled.messages_list, pulled.message_object_trees, strict=True):
                self._arriving[reply.metadata.reply_to_message_id] = _Arriving(reply, tree)
        for question in self._arriving.keys() - set(message_ids):
            # Not waited for now: what is there of it can be fetched again, and need not fill the memory.
            self._arriving[question].parts.clear()
        found = []
        for question in [asked for asked in message_ids if asked in self._arriving]:
            arriving = self._arriving[question]
            if self._is_whole(client, arriving):
                del self._arriving[question]
                if not arriving.lost:
                    client.ConfirmMessageReceived(self._about(messages.ConfirmMessageReceivedRequest, arriving,
                                                              message_object_id=arriving.tree.object_id))  # fmt: skip
                found.append(arriving.message())
        return found

    def _is_whole(self, client: Any, arriving: _Arriving) -> bool:
        """Fetch what is there of a reply. Whether nothing else will come."""
        room = MOST_BYTES - sum(map(len, arriving.parts.values()))
        for number, name in enumerate(part_ids(arriving.tree, MOST_PARTS + 1)):
            if arriving.endless or number == MOST_PARTS or room < 0:
                arriving.endless = True
                arriving.parts.clear()
                return False
            if name in arriving.parts:
                continue
            part = client.PullObject(self._about(messages.PullObjectRequest, arriving, object_id=name))
            if part.object_found and not part.object_available:
                return False
            arriving.lost |= not part.object_found
            arriving.parts[name] = part.object_content
            room -= len(part.object_content)
        arriving.endless = room < 0
        return not arriving.endless

    def _about(self, request: Any, arriving: _Arriving, **others: str) -> Any:
        node: Any = getattr(self._grid, "node", None)
        return request(node=node, run_id=arriving.reply.metadata.run_id, **others)


def copy_of(question: Message) -> Message:
    """The same question, for Flower to send once more."""
    metadata = question.metadata
    return Message(
        content=question.content,
        dst_node_id=metadata.dst_node_id,
        message_type=metadata.message_type,
        ttl=metadata.ttl,
        group_id=metadata.group_id,
    )
