"""Replies are noticed soon, in rounds of milliseconds as in rounds of hours, and nobody is waited for twice."""

from collections.abc import Iterable
from datetime import UTC, datetime

import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_utils import ObjectPushError
from flwr.supercore.run import Run

from fedct_flwr.flower import grid as exchange
from fedct_flwr.flower.grid import PollingGrid

pytestmark = pytest.mark.usefixtures("in_a_run")


class Clock:
    """Time that passes only where somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return self.now

    time = monotonic

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(exchange, "time", clock)
    return clock


class SlowGrid(Grid):
    """The node with id ``n`` replies after ``delays[n]`` seconds on the clock; one without an entry, never.

    A message is named after its node and the number of its sending. ``refused``: so often no part is taken.
    """

    def __init__(
        self, clock: Clock, delays: dict[int, float], unsent: frozenset[int] = frozenset(), refused: int = 0
    ) -> None:
        self._clock, self._delays, self._unsent, self._refused = clock, delays, unsent, refused
        self._messages: dict[str, tuple[Message, float]] = {}
        self.sendings: list[list[int]] = []
        self.asked_for: list[set[str]] = []
        self.of_run: Run | None = None

    def set_run(self, run: Run) -> None:
        self.of_run = run

    @property
    def run(self) -> Run:
        return Run.create_empty(7)

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        return list(self._delays)

    def get_nodes(self) -> Iterable[NodeInfo]:
        return [NodeInfo(node_id=node, name=f"silo-{node}") for node in self._delays]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        names, messages = [], list(messages)
        self.sendings.append([message.metadata.dst_node_id for message in messages])
        if len(self.sendings) <= self._refused:
            raise ObjectPushError("part", 1, "session")
        for message in messages:
            node = message.metadata.dst_node_id
            name = "" if node in self._unsent else f"{node}.{len(self.sendings)}"
            message.metadata.__dict__["_message_id"] = name
            self._messages[name] = message, self._clock.now
            names.append(name)
        return names

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        wanted = set(message_ids)
        self.asked_for.append(wanted)
        there = []
        for name in sorted(wanted):
            message, sent = self._messages[name]
            if sent + self._delays.get(message.metadata.dst_node_id, float("inf")) <= self._clock.now:
                there.append(Message(message.content, reply_to=message))
        return there

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        raise AssertionError("Flower's own loop, which is not to be used")


def messages(*nodes: int) -> list[Message]:
    return [Message(RecordDict({"c": ConfigRecord({"n": node})}), node, "train") for node in nodes]


def senders(replies: Iterable[Message]) -> list[int]:
    return [reply.content["c"]["n"] for reply in replies]  # type: ignore[index,misc]


@pytest.mark.parametrize("delay", [0.0, 0.01, 0.3, 2.0, 25.0, 400.0])
def test_a_reply_is_noticed_within_a_tenth_of_the_time_that_it_took(clock: Clock, delay: float) -> None:
    grid = PollingGrid(SlowGrid(clock, {1: delay}))
    assert senders(grid.send_and_receive(messages(1), timeout=600)) == [1]
    assert clock.now - 100 <= delay + max(0.05, min(3.0, 0.1 * delay)) + 1e-9


def test_the_deadline_holds_and_a_reply_of_the_last_moment_counts(clock: Clock) -> None:
    grid = PollingGrid(SlowGrid(clock, {1: 50.0, 2: 50.1}))
    assert senders(grid.send_and_receive(messages(1, 2), timeout=50.0)) == [1]
    assert clock.now == pytest.approx(150.0)


def test_a_reply_that_is_there_is_not_asked_for_again(clock: Clock) -> None:
    slow = SlowGrid(clock, {1: 0.0, 2: 1.0})
    PollingGrid(slow).send_and_receive(messages(1, 2), timeout=10)
    assert slow.asked_for[0] == {"1.1", "2.1"}
    assert set(map(frozenset, slow.asked_for[1:])) == {frozenset({"2.1"})}


def test_a_message_that_could_not_be_sent_is_not_waited_for(clock: Clock) -> None:
    grid = PollingGrid(SlowGrid(clock, {1: 1.0, 2: 1.0}, unsent=frozenset({2})))
    assert senders(grid.send_and_receive(messages(1, 2))) == [1]


def test_where_the_superlink_does_not_take_a_part_all_are_sent_again(clock: Clock) -> None:
    refuses = SlowGrid(clock, {1: 0.0, 2: 0.0}, refused=2)
    # Messages that can be read once, as strategies may give them.
    assert sorted(senders(PollingGrid(refuses).send_and_receive(iter(messages(1, 2)), timeout=10))) == [1, 2]
    assert refuses.sendings == [[1, 2]] * 3


def test_a_part_that_is_never_taken_is_not_sent_for_ever(clock: Clock) -> None:
    refuses = SlowGrid(clock, {1: 0.0}, refused=100)
    with pytest.raises(ObjectPushError):
        PollingGrid(refuses).send_and_receive(messages(1), timeout=10)
    assert len(refuses.sendings) == 5


class Restarting(SlowGrid):
    """The first node starts anew ``after`` so many seconds, and has then lost what it was asked.

    Whatever it is asked afterwards it answers 4 s later. ``set_back``: seconds by which the clock went back. Then it
    started at a time that is still to come, has lost nothing, and takes a minute for an answer.
    """

    def __init__(self, clock: Clock, after: float, set_back: float = 0.0) -> None:
        super().__init__(clock, {1: 0.0, 2: 0.0})
        self._after, self._ahead = clock.now + after, set_back

    def get_nodes(self) -> list[NodeInfo]:
        restarted = datetime.fromtimestamp(self._after + self._ahead, UTC).isoformat()
        return [NodeInfo(node_id=1, last_activated_at=restarted if self._clock.now >= self._after else ""),
                NodeInfo(node_id=2)]  # fmt: skip

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        there = []
        for name in sorted(message_ids):
            message, sent = self._messages[name]
            restarted = sent >= self._after and not self._ahead
            seconds = 0.0 if name.startswith("2.") else 4.0 if restarted else 60.0 if self._ahead else 1e9
            if sent + seconds <= self._clock.now:
                there.append(Message(message.content, reply_to=message))
        return there


def test_a_node_that_starts_anew_in_a_round_is_asked_again_and_answers_in_it(clock: Clock) -> None:
    grid = Restarting(clock, after=20)
    sent = messages(1, 2)
    replies = PollingGrid(grid).send_and_receive(sent, timeout=600)
    assert senders(replies) == [2, 1]
    # Whoever asked knows the first sending alone.
    asked = [message.metadata.message_id for message in sent]
    assert {reply.metadata.reply_to_message_id for reply in replies} == set(asked) == {"1.1", "2.1"}
    assert grid.sendings == [[1, 2], [1]]
    assert clock.now < 100 + 20 + 4 + 10


def test_a_node_is_asked_again_once_where_the_clock_was_set_back(clock: Clock) -> None:
    """By the clock, it will start four minutes from now. Each question would cost its silo an answer."""
    grid = Restarting(clock, after=0, set_back=240)
    assert senders(PollingGrid(grid).send_and_receive(messages(1, 2), timeout=600)) == [2, 1]
    assert grid.sendings == [[1, 2], [1]]
