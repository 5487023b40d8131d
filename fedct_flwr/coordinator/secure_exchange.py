"""The exchanges of secure sums as Flower's messages: one request to each node, one reply from each that answers."""

from collections.abc import Mapping

from flwr.app import Message
from flwr.serverapp import Grid

from fedct_flwr.flower.grid import prompt
from fedct_flwr.secure_sum.coordinator import Exchange, Replies, Requests
from fedct_flwr.silo.summing import ACTION
from fedct_flwr.types import SiloName
from fedct_flwr.wire.messages import from_record, to_record
from fedct_flwr.wire.refusal import Refused


def over_flower(grid: Grid, nodes: Mapping[SiloName, int], group_id: str, timeout: float) -> Exchange:
    """Exchange messages of secure sums with Flower's nodes.

    ``nodes``: the node of each silo, by name; a silo without one is not asked. ``timeout``: seconds until a silo that
    has not answered counts as missing. An error in place of a reply, or one of another form, counts as missing too.
    """
    quick = prompt(grid)

    def exchange(requests: Requests) -> Replies:
        asked = {nodes[name]: name for name in requests if name in nodes}
        messages = [
            Message(to_record(requests[name]), node, f"query.{ACTION}", ttl=timeout, group_id=group_id)
            for node, name in asked.items()
        ]
        replies = {}
        for reply in quick.send_and_receive(messages, timeout=timeout):
            name = asked.get(reply.metadata.src_node_id)
            if name is None or reply.has_error():
                continue
            try:
                replies[name] = from_record(reply.content)
            except Refused:
                continue
        return replies

    return exchange
