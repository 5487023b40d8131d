"""Send a round's messages and wait for the replies, without Flower's three seconds between two looks."""

import contextlib
import importlib
import time
from abc import ABC
from collections.abc import Iterable
from typing import Any, Final

from flwr.app import Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_utils import ObjectPushError
from flwr.supercore.run import Run

from fedct_flwr.coordinator.restarts import outlast_restarts
from fedct_flwr.coordinator.whole_replies import await_whole_replies

SHORTEST_SECONDS: Final = 0.05
LONGEST_SECONDS: Final = 3.0
_SHARE_OF_WAIT: Final = 0.1
_MOST_PUSHES: Final = 5


class PromptGrid(Grid, ABC):
    """A Grid whose ``send_and_receive`` returns as soon as the last reply is there, or the time is up."""

    @property
    def interruptions(self) -> int:
        """How many calls to the SuperLink failed so far, and were made again."""
        return 0


def prompt(grid: Grid) -> PromptGrid:
    """The same Grid, made to notice replies soon."""
    return grid if isinstance(grid, PromptGrid) else PollingGrid(grid)


class PollingGrid(PromptGrid):
    """Looks for replies again after a tenth of the time waited so far, but within 0.05 s and 3 s.

    A round of milliseconds is noticed in milliseconds, and one of hours costs the SuperLink no more than Flower's own
    loop does. Everything else is the other Grid's.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        await_whole_replies(grid)
        self._interruptions = outlast_restarts(grid)
        # A reply is announced before its parts are there; Flower waits a second before it looks for them again.
        parts: Any = importlib.import_module("flwr.supercore.inflatable.inflatable_utils")
        parts.pull_objects.__kwdefaults__["initial_backoff"] = SHORTEST_SECONDS

    @property
    def interruptions(self) -> int:
        """How many calls to the SuperLink failed so far, and were made again."""
        return self._interruptions.count

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """Send, and return the replies that come within ``timeout`` seconds; those of the last moment count."""
        # Flower gives no id to a message that it could not send: nobody will reply to that.
        pending = {name for name in self.push_messages(messages) if name}
        started = time.monotonic()
        received: list[Message] = []
        while pending:
            replies = list(self.pull_messages(pending))
            received.extend(replies)
            pending.difference_update(reply.metadata.reply_to_message_id for reply in replies)
            waited = time.monotonic() - started
            if not pending or (timeout is not None and waited >= timeout):
                break
            pause = min(max(_SHARE_OF_WAIT * waited, SHORTEST_SECONDS), LONGEST_SECONDS)
            time.sleep(pause if timeout is None else min(pause, timeout - waited))
        return received

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
