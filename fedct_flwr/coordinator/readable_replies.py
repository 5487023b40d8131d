"""Whether the parts of a reply are the reply that was announced: a silo may send any bytes, and none ends the run.

Flower 1.41 looks at parts only when it makes a message of them, after it has been told of the reply, and raises
whatever it stumbles over. It then believes what the parts say they reply to, which the SuperLink has not checked.
"""

from collections.abc import Mapping
from typing import Final

from flwr.app import Error, Message
from flwr.app.message import make_message
from flwr.common.serde_utils import metadata_from_proto
from flwr.proto.message_pb2 import Message as ReplyProto
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

from fedct_flwr.wire.parts import is_short

UNREADABLE: Final = 1000
"""The code of the error in place of a reply that cannot be read. Flower has smaller ones."""


def is_readable(announced: ReplyProto, parts: Mapping[str, bytes]) -> bool:
    """Whether ``parts``, by their ids, are the reply that was ``announced``. Never raises."""
    told = announced.metadata
    try:
        if not all(map(is_short, parts.values())):
            return False
        found = inflate_object_from_contents(told.message_id, dict(parts))
        if not isinstance(found, Message):
            return False
        says = found.metadata
    except Exception:
        return False
    return (says.run_id, says.src_node_id, says.reply_to_message_id, says.created_at) == (
        told.run_id,
        told.src_node_id,
        told.reply_to_message_id,
        told.created_at,
    )


def in_its_place(announced: ReplyProto) -> Message:
    """The error that is handed out in place of a reply that cannot be read."""
    error = make_message(metadata_from_proto(announced.metadata), error=Error(UNREADABLE))
    error.metadata.__dict__["_message_id"] = error.object_id
    return error
