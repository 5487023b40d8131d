"""Nodes without names say whose they are, and whatever else they say is not believed."""

from unittest.mock import MagicMock

import pytest
from flwr.app import Error, Message
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid

from fedct_flwr.coordinator.study import LONGEST_SECONDS, Roster, introduce
from fedct_flwr.types import Refusal
from fedct_flwr.wire.codec import encode_refusal
from fedct_flwr.wire.messages import to_record

pytestmark = pytest.mark.usefixtures("in_a_run")


def test_a_name_is_taken_from_a_refusal_and_from_nothing_else() -> None:
    answers = {
        1: to_record(encode_refusal("oslo", Refusal.MALFORMED)),
        2: to_record(encode_refusal("nowhere", Refusal.MALFORMED)),
        3: to_record(b"bergen"),
        4: None,
        5: to_record(encode_refusal("oslo", Refusal.MALFORMED)),
    }
    asked = []

    def replies(messages: list[Message], timeout: float) -> list[Message]:
        found = []
        for message in messages:
            node = message.metadata.dst_node_id
            asked.append(node)
            assert dict(message.content) == {}
            content = answers[node]
            reply = Message(Error(0), reply_to=message) if content is None else Message(content, reply_to=message)
            reply.metadata.__dict__["_src_node_id"] = node
            found.append(reply)
        return found

    grid = MagicMock(spec=Grid)
    grid.get_nodes.return_value = [NodeInfo(node_id=6, name="bergen"), *(NodeInfo(node_id=n) for n in answers)]
    grid.send_and_receive.side_effect = replies
    roster = Roster(["oslo", "bergen", "tromso"], min_silos=2, deadline=1.0)
    introduce(grid, roster, 1.0)
    assert asked == [1, 2, 3, 4, 5]
    assert [roster.name(node) for node in (1, 2, 3, 4, 5, 6)] == [
        "oslo",
        "node 2",
        "node 3",
        "node 4",
        "node 5",
        "bergen",
    ]
    introduce(grid, roster, 1.0)
    assert asked[5:] == [2, 3, 4, 5]
    assert [call.kwargs["timeout"] for call in grid.send_and_receive.call_args_list] == [1.0, 1.0]


def test_nobody_waits_for_a_name_as_long_as_for_an_answer(caplog: pytest.LogCaptureFixture) -> None:
    grid = MagicMock(spec=Grid)
    grid.get_nodes.return_value = [NodeInfo(node_id=1)]
    grid.send_and_receive.return_value = []
    introduce(grid, Roster(["oslo"], min_silos=2, deadline=1.0), 3600.0)
    assert grid.send_and_receive.call_args.kwargs["timeout"] == LONGEST_SECONDS == 60
    # It begins anew, and the run is another one than without an interruption.
    assert "1 node did not say within 60 s which silo it is" in caplog.text
