"""The SuperLink takes a silo's own answers alone, with times that are numbers.

Flower checks who calls, but not that an answer names the caller as its sender. And a time that is no number (NaN) is
nothing at all in its database: from then on every request for replies fails, and the run ends.

Issue for Flower, "Fleet API: push_messages trusts src_node_id and times of the message": compare
`metadata.src_node_id` with the authenticated node, and refuse times that are not finite.
"""

import importlib
import math
from collections.abc import Callable
from functools import partial
from typing import Any

from flwr.proto.fleet_pb2 import PushMessagesResponse

from fedct_flwr.text.log import logger


def install() -> None:
    """From now on this process's SuperLink takes answers so. Before all other handlers, which believe the sender."""
    handlers: Any = importlib.import_module("flwr.superlink.servicer.fleet.fleet_handlers")
    handlers.push_messages = partial(take, handlers.push_messages)


def take(flowers: Callable[..., Any], request: Any, state: Any) -> Any:
    """Take an answer, or leave it without asking for its parts. Raises what Flower raises."""
    metadata = request.messages_list[0].metadata
    times = (metadata.created_at, metadata.ttl, *request.clientapp_runtime_list)
    if metadata.src_node_id == request.node.node_id and all(map(math.isfinite, times)):
        return flowers(request=request, state=state)
    logger.warning("node %d sent an answer of another node, or without a time: it counts nothing", request.node.node_id)
    return PushMessagesResponse(results={metadata.message_id: 0})
