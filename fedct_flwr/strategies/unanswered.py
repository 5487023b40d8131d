"""Instructions that came back too late or not at all: whoever still works on one is not given another."""

from collections.abc import Iterable

from flwr.app import Message
from flwr.serverapp import Grid


class Unanswered:
    """The messages without a reply so far, by id.

    A node stays busy until its reply comes, Flower says that none will come, or the message expires. To give it
    more work meanwhile would only pile up; in a simulation it would take a second worker away from the others.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, int] = {}

    def add(self, asked: Iterable[Message], replies: Iterable[Message]) -> None:
        """Remember the messages that are not among those replied to."""
        answered = {reply.metadata.reply_to_message_id for reply in replies}
        self._nodes |= {
            message.metadata.message_id: message.metadata.dst_node_id
            for message in asked
            if message.metadata.message_id not in answered
        }

    def busy(self, grid: Grid) -> frozenset[int]:
        """The nodes that still owe a reply. What they send late is dropped unread."""
        if self._nodes:
            for reply in grid.pull_messages(list(self._nodes)):
                self._nodes.pop(reply.metadata.reply_to_message_id, None)
        return frozenset(self._nodes.values())
