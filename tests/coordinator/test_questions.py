"""Who is asked, and what is made of what comes back, on a grid that does as it is told."""

from datetime import UTC, datetime
from typing import Any
from unittest.mock import MagicMock

import pytest
from flwr.app import Error, Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.coordinator.questions import Questions
from fedct_flwr.coordinator.study import LONGEST_SECONDS, Roster, introduce
from fedct_flwr.flower.grid import PromptGrid
from fedct_flwr.types import Refusal, RunError
from fedct_flwr.wire.codec import encode_refusal
from fedct_flwr.wire.messages import to_record
from tests.sentences import sentence

pytestmark = pytest.mark.usefixtures("in_a_run")

SILOS = ("east", "west", "south")


class FakeGrid:
    """Three registered nodes. ``late`` are replies to earlier messages; ``restarted_at`` is when a node came back."""

    def __init__(self) -> None:
        self.late: list[Message] = []
        self.restarted_at: dict[int, str] = {}
        self.ids = iter(range(1000))
        self.away: dict[int, int] = {}
        """How many looks at the nodes do not find a node."""
        self.grid = MagicMock(spec=PromptGrid)
        self.grid.get_nodes.side_effect = self._nodes
        self.grid.pull_messages.side_effect = lambda ids: [
            m for m in self.late if m.metadata.reply_to_message_id in ids
        ]

    def _nodes(self) -> list[NodeInfo]:
        self.away = {node: looks - 1 for node, looks in self.away.items() if looks}
        return [
            NodeInfo(node_id=i, name=name, last_activated_at=self.restarted_at.get(i, ""))
            for i, name in enumerate(SILOS, start=1)
            if i not in self.away
        ]

    def send(self, messages: list[Message]) -> list[Message]:
        for message in messages:
            message.metadata.__dict__["_message_id"] = str(next(self.ids))
        return messages


@pytest.fixture
def fake() -> FakeGrid:
    return FakeGrid()


def reply(message: Message) -> Message:
    return Message(RecordDict(), reply_to=message)


def read(message: Message) -> tuple[str, str | Refusal]:
    return SILOS[message.metadata.src_node_id - 1], "yes"


def ask(questions: Questions, fake: FakeGrid, number: int) -> list[Message]:
    return fake.send(questions.ask(fake.grid, lambda silo: RecordDict(), number, 1.0))


def asked(messages: list[Message]) -> list[int]:
    return [message.metadata.dst_node_id for message in messages]


def first_round(fake: FakeGrid) -> tuple[Questions, Message]:
    """The third silo does not reply in the first round."""
    questions = Questions(Roster(SILOS, 2, 1.0), 2)
    messages = ask(questions, fake, 1)
    valid, absent = questions.sort(1, [reply(message) for message in messages[:2]], read)
    assert (list(valid), list(absent)) == (["east", "west"], ["south"])
    return questions, messages[2]


def test_who_owes_a_reply_is_not_asked_until_it_came(fake: FakeGrid, wording: SnapshotAssertion) -> None:
    questions, unanswered = first_round(fake)
    messages = ask(questions, fake, 2)
    assert asked(messages) == [1, 2]
    _, absent = questions.sort(2, map(reply, messages), read)
    assert absent == wording
    fake.late = [reply(unanswered)]
    assert asked(ask(questions, fake, 3)) == [1, 2, 3]


def test_a_node_that_has_started_anew_is_asked_again(fake: FakeGrid) -> None:
    questions, _ = first_round(fake)
    fake.restarted_at[3] = datetime.fromtimestamp(questions.asked_at - 60, UTC).isoformat()
    assert asked(ask(questions, fake, 2)) == [1, 2]
    fake.restarted_at[3] = datetime.fromtimestamp(questions.asked_at + 1, UTC).isoformat()
    assert asked(ask(questions, fake, 3)) == [1, 2, 3]


def test_what_flower_reports_under_its_own_id_is_the_silos_reason(fake: FakeGrid, wording: SnapshotAssertion) -> None:
    questions = Questions(Roster(SILOS, 2, 1.0), 2)
    messages = ask(questions, fake, 1)
    gone = Message(Error(ErrorCode.NODE_UNAVAILABLE, "a text"), reply_to=messages[2])
    gone.metadata.__dict__["_src_node_id"] = 1
    valid, absent = questions.sort(1, [*map(reply, messages[:2]), gone], read)
    assert list(valid) == ["east", "west"]
    assert absent == wording
    # There is nothing to wait for: as soon as it is there again, it is asked.
    assert asked(ask(questions, fake, 2)) == [1, 2, 3]


def test_a_reply_to_something_else_or_a_second_one_does_not_count(fake: FakeGrid) -> None:
    questions, unanswered = first_round(fake)
    messages = ask(questions, fake, 2)
    said: Any = iter(["first", "second", "west"])
    replies = [reply(messages[0]), reply(messages[0]), reply(messages[1]), reply(unanswered)]
    valid, _ = questions.sort(2, replies, lambda message: (read(message)[0], next(said)))
    assert {silo: word for silo, (word, _) in valid.items()} == {"east": "first", "west": "second"}


def test_too_few_replies_end_the_run_with_every_reason(fake: FakeGrid, wording: SnapshotAssertion) -> None:
    questions = Questions(Roster(SILOS, 2, 1.0), 2)
    messages = ask(questions, fake, 1)
    assert sentence(RunError, lambda: questions.sort(1, [reply(messages[0])], read)) == wording


def test_a_round_begins_when_enough_silos_are_there(fake: FakeGrid) -> None:
    questions = Questions(Roster(SILOS, 2, 1.0), 2)
    fake.away = {2: 3, 3: 6}
    assert asked(questions.ask(fake.grid, lambda silo: RecordDict(), 1, 60.0)) == [1, 2]
    fake.grid.get_nodes.side_effect = lambda: [NodeInfo(node_id=1, name="east")]
    assert asked(questions.ask(fake.grid, lambda silo: RecordDict(), 2, 0.1)) == [1]


def test_a_node_that_answers_for_another_silo_does_not_count(fake: FakeGrid) -> None:
    questions = Questions(Roster(SILOS, 2, 1.0), 2)
    replies = [reply(message) for message in ask(questions, fake, 1)]
    valid, absent = questions.sort(
        1, replies, lambda message: ("east", "forged") if message.metadata.src_node_id == 3 else read(message)
    )
    assert {silo: answer for silo, (answer, _) in valid.items()} == {"east": "yes", "west": "yes"}
    assert [*absent] == ["south"]


# --- nodes without names


def test_a_name_is_taken_from_a_refusal_and_from_nothing_else() -> None:
    answers = {
        1: to_record(encode_refusal("oslo", Refusal.MALFORMED)),
        2: to_record(encode_refusal("nowhere", Refusal.MALFORMED)),
        3: to_record(b"bergen"),
        4: None,
        5: to_record(encode_refusal("oslo", Refusal.MALFORMED)),
    }
    asked = []

    def replied(message: Message) -> Message:
        node = message.metadata.dst_node_id
        asked.append(node)
        assert dict(message.content) == {}
        content = answers[node]
        reply = Message(Error(0), reply_to=message) if content is None else Message(content, reply_to=message)
        reply.metadata.__dict__["_src_node_id"] = node
        return reply

    grid = MagicMock(spec=Grid)
    grid.get_nodes.return_value = [NodeInfo(node_id=6, name="bergen"), *(NodeInfo(node_id=n) for n in answers)]
    grid.send_and_receive.side_effect = lambda messages, timeout: [*map(replied, messages)]
    roster = Roster(["oslo", "bergen", "tromso"], min_silos=2, deadline=1.0)
    introduce(grid, roster, 1.0)
    assert asked == [1, 2, 3, 4, 5]
    assert [roster.name(node) for node in (1, 2, 3, 6)] == ["oslo", "node 2", "node 3", "bergen"]
    assert [roster.name(node) for node in (4, 5)] == ["node 4", "node 5"]
    introduce(grid, roster, 1.0)
    assert asked[5:] == [2, 3, 4, 5]


def test_nobody_waits_for_a_name_as_long_as_for_an_answer(caplog: pytest.LogCaptureFixture) -> None:
    grid = MagicMock(spec=Grid)
    grid.get_nodes.return_value = [NodeInfo(node_id=1)]
    grid.send_and_receive.return_value = []
    introduce(grid, Roster(["oslo"], min_silos=2, deadline=1.0), 3600.0)
    assert grid.send_and_receive.call_args.kwargs["timeout"] == LONGEST_SECONDS == 60
    # It begins anew, and the run is another one than without an interruption.
    assert "1 node did not say within 60 s which silo it is" in caplog.text
