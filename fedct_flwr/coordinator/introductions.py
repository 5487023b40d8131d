"""Which silos nodes stand for that have no names, where that must be known before they are asked."""

from typing import Final

import numpy as np
from flwr.app import DEFAULT_TTL, Message, RecordDict
from flwr.serverapp import Grid

from fedct_flwr.coordinator.roster import Roster
from fedct_flwr.datasets.public_set import Query
from fedct_flwr.text.log import logger
from fedct_flwr.text.plural import count
from fedct_flwr.types import LABEL_DTYPE
from fedct_flwr.wire.codec import decode_reply
from fedct_flwr.wire.content import NO_TERMS, Instruction
from fedct_flwr.wire.messages import from_record
from fedct_flwr.wire.refusal import Refused

LONGEST_SECONDS: Final = 60.0
"""To say a name takes no training: a silo reads the data set at most, which its process does once."""

_NOTHING: Final = Instruction(0, Query(0, 0), np.zeros(0, dtype=LABEL_DTYPE))


def introduce(grid: Grid, roster: Roster, deadline: float) -> None:
    """Ask each node without a name, as in a simulation, for its silo's, and wait at most ``deadline`` seconds.

    The question is an empty message: all that a silo can do is to refuse it, and a refusal has its name. It costs the
    silo nothing, and tells nothing else. Who does not reply stays unknown, and nobody waits for it longer than a
    minute, however long a round may take.
    """
    messages = [
        Message(content=RecordDict(), dst_node_id=node, message_type="train", ttl=DEFAULT_TTL, group_id="names")
        for node in roster.nodes(grid)
        if roster.name(node) not in roster.silos
    ]
    seconds = min(deadline, LONGEST_SECONDS)
    for reply in grid.send_and_receive(messages, timeout=seconds) if messages else ():
        if reply.has_error():
            continue
        try:
            silo = decode_reply(from_record(reply.content), NO_TERMS, _NOTHING).silo
        except Refused:
            continue
        roster.introduce(reply.metadata.src_node_id, silo)
    if unknown := sum(roster.name(message.metadata.dst_node_id) not in roster.silos for message in messages):
        logger.warning(
            "%s did not say within %g s which silo it is: until it answers, such a node is asked as one that never has",
            count(unknown, "node"), seconds,
        )  # fmt: skip
