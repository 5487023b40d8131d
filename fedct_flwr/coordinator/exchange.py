"""Send a round's messages and wait for the replies, without Flower's three seconds between two looks."""

import contextlib
import time
from abc import ABC
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from flwr.app import Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_utils import ObjectPushError
from flwr.supercore.run import Run

from fedct_flwr.coordinator.whole_replies import await_whole_replies
from fedct_flwr.text.log import logger
from fedct_flwr.text.plural import count

SHORTEST_SECONDS: Final = 0.05
LONGEST_SECONDS: Final = 3.0
_SHARE_OF_WAIT: Final = 0.1
_MOST_PUSHES: Final = 5
_NODES_SECONDS: Final = 5.0
"""So long after the last look at who has started anew, or after sending, comes the next one."""


class PromptGrid(Grid, ABC):
    """A Grid whose ``send_and_receive`` returns as soon as the last reply is there, or the time is up."""


def prompt(grid: Grid) -> PromptGrid:
    """The same Grid, made to notice replies soon."""
    return grid if isinstance(grid, PromptGrid) else PollingGrid(grid)


class _Question(NamedTuple):
    """A message that was sent: its id, that of its first sending, and when it was sent (seconds since the epoch).

    ``started``: which start of the node it was sent again for, by Flower's time of that, in seconds; 0: for none.
    """

    message: Message
    name: str
    first: str
    sent_at: float
    started: float = 0.0


class PollingGrid(PromptGrid):
    """Looks for replies again after a tenth of the time waited so far, but within 0.05 s and 3 s.

    A round of milliseconds is noticed in milliseconds, and one of hours costs the SuperLink no more than Flower's own
    loop does. A node that starts anew has lost what it was asked, and is asked again. Everything else is the other
    Grid's.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        await_whole_replies(grid)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """Send, and return the replies that come within ``timeout`` seconds; those of the last moment count.

        A question that was sent again is answered by the first reply to either.
        """
        started = looked = time.monotonic()
        # Flower gives no id to a message that it could not send: nobody will reply to that.
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
        """Send anew what nodes have lost that started anew, by the id of the first sending."""
        started = {int(node.node_id): seconds_of(node.last_activated_at) for node in self.get_nodes()}
        # Once for each start: where the clock was set back, it lies after all that is sent.
        lost = [
            each._replace(started=start)
            for each in waiting
            if (start := started.get(each.message.metadata.dst_node_id, 0.0)) > each.sent_at and start != each.started
        ]
        if not lost:
            return {}
        logger.info("%s started anew and may have lost the question: asking again", count(len(lost), "node"))
        again = self._sent([copy_of(each.message) for each in lost])
        return {
            old.first: new._replace(name=new.name or old.name, first=old.first, started=old.started)
            for old, new in zip(lost, again, strict=True)
        }

    def set_run(self, run: Run) -> None:
        """Set the run."""
        self._grid.set_run(run)

    @property
    def run(self) -> Run:
        """The run."""
        return self._grid.run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """A new message; ``Message(...)`` does the same."""
        return self._grid.create_message(content, message_type, dst_node_id, group_id, ttl)

    def get_node_ids(self) -> Iterable[int]:
        """All nodes."""
        return self._grid.get_node_ids()

    def get_nodes(self) -> Iterable[NodeInfo]:
        """All nodes, with the names that they are registered under."""
        return self._grid.get_nodes()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Send messages to their nodes.

        A SuperLink that dies meanwhile takes no more parts of them when it is back, or has a part whose receipt got
        lost: then all are sent again. It keeps what it has.
        """
        messages = list(messages)
        for _ in range(_MOST_PUSHES - 1):
            with contextlib.suppress(ObjectPushError):
                return self._grid.push_messages(messages)
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Replies to these messages, as far as they are there."""
        return self._grid.pull_messages(message_ids)


def copy_of(question: Message) -> Message:
    """The same question, for Flower to send once more."""
    told = question.metadata
    return Message(
        content=question.content,
        dst_node_id=told.dst_node_id,
        message_type=told.message_type,
        ttl=told.ttl,
        group_id=told.group_id,
    )


def seconds_of(timestamp: str) -> float:
    """Seconds since the epoch of a time as Flower writes it; 0 if there is none."""
    return datetime.fromisoformat(timestamp).timestamp() if timestamp else 0.0
