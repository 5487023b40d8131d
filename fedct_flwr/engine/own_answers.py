"""The SuperLink takes a silo's own answers alone, with times that are numbers.

Flower 1.41 checks who calls, but not that an answer names the caller as its sender. And a time that is no number (NaN)
is nothing at all in its database: whoever asks for replies gets an error from then on, and the run ends.

Needs nothing of Flower's insides but the handler that ``install`` replaces.
"""

import importlib
import math
from collections.abc import Callable
from functools import partial
from typing import Any

from fedct_flwr.text.log import logger


def install() -> None:
    """From now on this process's SuperLink takes answers so. Before all other handlers, which believe the sender."""
    fleet: Any = importlib.import_module("flwr.superlink.servicer.fleet.fleet_handlers")
    fleet.push_messages = partial(take, fleet.push_messages)


def take(flowers: Callable[..., Any], request: Any, state: Any) -> Any:
    """Take an answer, or leave it without asking for its parts. Raises what Flower raises."""
    metadata = request.messages_list[0].metadata
    times = (metadata.created_at, metadata.ttl, *request.clientapp_runtime_list)
    if metadata.src_node_id == request.node.node_id and all(map(math.isfinite, times)):
        return flowers(request=request, state=state)
    logger.warning("node %d sent an answer of another node, or without a time: it counts nothing", request.node.node_id)
    protos: Any = importlib.import_module("flwr.proto.fleet_pb2")
    return protos.PushMessagesResponse(results={metadata.message_id: 0})
