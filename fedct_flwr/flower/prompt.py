"""A Grid that returns with a round's last reply, and the errors that come in the place of replies."""

from abc import ABC
from datetime import datetime
from enum import IntEnum

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid


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
