"""Replies are noticed soon, in rounds of milliseconds as in rounds of hours, and nobody is waited for twice."""

from collections.abc import Iterable

import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
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
    """The node with id ``n`` replies after ``delays[n]`` seconds on the clock; one without an entry, never."""

    def __init__(self, clock: Clock, delays: dict[int, float], unsent: frozenset[int] = frozenset()) -> None:
        self._clock, self._delays, self._unsent = clock, delays, unsent
        self._messages: dict[str, tuple[Message, float]] = {}
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
        names = []
        for message in messages:
            node = message.metadata.dst_node_id
            name = "" if node in self._unsent else f"message-{node}"
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
    assert slow.asked_for[0] == {"message-1", "message-2"}
    assert set(map(frozenset, slow.asked_for[1:])) == {frozenset({"message-2"})}


def test_a_message_that_could_not_be_sent_is_not_waited_for(clock: Clock) -> None:
    grid = PollingGrid(SlowGrid(clock, {1: 1.0, 2: 1.0}, unsent=frozenset({2})))
    assert senders(grid.send_and_receive(messages(1, 2))) == [1]
