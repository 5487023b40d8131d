"""A reply that is announced and does not come holds up nobody's, and counts as soon as it is there."""

import hashlib
from typing import Any

import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common.serde import message_to_proto
from flwr.proto.message_pb2 import ObjectTree, PullObjectRequest, PullObjectResponse
from flwr.proto.runtime_pb2 import PullAppMessagesRequest, PullAppMessagesResponse
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree, no_object_id_recompute
from flwr.supercore.run import Run
from flwr.superlink.grid import HttpGrid

from fedct_flwr.flower.grid import MOST_BYTES, MOST_PARTS, PollingGrid

pytestmark = pytest.mark.usefixtures("in_a_run")


class SuperLink:
    """As Flower's does, it tells of each reply once, and later says that it knows of none."""

    def __init__(self) -> None:
        self.replies: dict[str, tuple[Message, ObjectTree]] = {}
        self.parts: dict[str, bytes] = {}
        self.forgotten: set[str] = set()
        self.told: set[str] = set()
        self.fetched: list[str] = []

    def announce(self, number: int, says: int = 0) -> Message:
        """A node's reply to the question ``q1``, ``q2``, ..., none of whose parts is there yet."""
        question = Message(RecordDict({"c": ConfigRecord({"n": number})}), number, "train")
        question.metadata.__dict__["_message_id"] = f"q{number}"
        reply = Message(RecordDict({"c": ConfigRecord({"n": says or number})}), reply_to=question)
        with no_object_id_recompute():
            reply.metadata.__dict__["_message_id"] = reply.object_id
            self.replies[f"q{number}"] = reply, get_object_tree(reply)
        return reply

    def send(self, reply: Message, parts: int | None = None) -> None:
        """Its parts, or the first few of them."""
        with no_object_id_recompute():
            whole = get_all_nested_objects(reply)
            self.parts |= {name: whole[name].deflate() for name in list(whole)[:parts]}

    def PullMessages(  # noqa: N802 - Flower's name
        self, request: PullAppMessagesRequest
    ) -> PullAppMessagesResponse:
        assert request.message_ids
        assert not self.told & set(request.message_ids), "of these it has told"
        found = [self.replies[name] for name in request.message_ids if name in self.replies]
        self.told |= set(request.message_ids) & self.replies.keys()
        return PullAppMessagesResponse(
            messages_list=[message_to_proto(reply) for reply, _ in found],
            message_object_trees=[tree for _, tree in found],
        )

    def PullObject(  # noqa: N802 - Flower's name
        self, request: PullObjectRequest
    ) -> PullObjectResponse:
        name = request.object_id
        self.fetched.append(name)
        return PullObjectResponse(
            object_found=name not in self.forgotten,
            object_available=name in self.parts,
            object_content=self.parts.get(name, b""),
        )

    def ConfirmMessageReceived(self, request: object) -> None:  # noqa: N802 - Flower's name
        pass


@pytest.fixture
def superlink() -> SuperLink:
    return SuperLink()


@pytest.fixture
def grid(superlink: SuperLink) -> PollingGrid:
    grid = HttpGrid(token="token")
    grid.set_run(Run.create_empty(1))
    grid._client = superlink  # type: ignore[assignment]
    return PollingGrid(grid)


def read(grid: PollingGrid, *questions: str) -> list[int]:
    """Who replied, 0 for an error in a reply's place."""
    return sorted(0 if reply.has_error() else reply.content["c"]["n"] for reply in grid.pull_messages(questions))  # type: ignore[index,misc]


def test_a_reply_that_does_not_come_holds_up_no_other(grid: PollingGrid, superlink: SuperLink) -> None:
    """Flower alone would wait for the first for as long as its node likes."""
    superlink.announce(1)
    superlink.send(superlink.announce(2))
    assert read(grid, "q1", "q2", "q3") == [2]
    superlink.send(superlink.announce(3))
    assert read(grid, "q1", "q3") == [3]


@pytest.mark.parametrize("first", [0, 1, 2])
def test_it_counts_as_soon_as_it_is_there(first: int, grid: PollingGrid, superlink: SuperLink) -> None:
    slow = superlink.announce(1)
    superlink.send(slow, first)
    assert read(grid, "q1") == []
    assert read(grid, "q1") == []
    superlink.send(slow)
    assert read(grid, "q1") == [1]


def test_of_a_reply_that_will_never_come_there_is_an_error(grid: PollingGrid, superlink: SuperLink) -> None:
    """The SuperLink forgets one whose parts stay away."""
    lost = superlink.announce(1)
    superlink.send(lost, 1)
    assert read(grid, "q1") == []
    superlink.forgotten = set(get_all_nested_objects(lost)) - set(superlink.parts)
    superlink.send(superlink.announce(2))
    assert read(grid, "q1", "q2") == [0, 2]


def test_one_of_countless_parts_costs_no_more_than_one_of_few(grid: PollingGrid, superlink: SuperLink) -> None:
    endless = superlink.announce(1)
    superlink.replies["q1"] = (
        endless,
        ObjectTree(object_id="x", children=[ObjectTree(object_id=f"{n}") for n in range(9999)]),
    )
    superlink.parts = {f"{n}": b"" for n in range(9999)}
    assert read(grid, "q1") == []
    assert read(grid, "q1") == []
    assert len(superlink.fetched) == MOST_PARTS


def a_part(kind: str, body: bytes) -> bytes:
    """A part as Flower writes it."""
    return f"{kind}  {len(body)}".encode() + bytes(1) + body


@pytest.mark.parametrize(
    "part",
    [
        b"",
        b"no part at all",
        a_part("Message", b"\xff\xff"),
        a_part("Message", b""),
        a_part("Nothing", b""),
        ConfigRecord({"n": 1}).deflate(),
        ConfigRecord({"n": [0] * 1_000_000}).deflate(),
        ConfigRecord({f"{n}": 0 for n in range(1000)}).deflate(),
    ],
)
def test_parts_that_are_no_reply_make_an_error_of_this_one_alone(
    part: bytes, grid: PollingGrid, superlink: SuperLink
) -> None:
    """Flower alone raises what it stumbles over, and the run ends."""
    lie, name = superlink.announce(1), hashlib.sha256(part).hexdigest()
    lie.metadata.__dict__["_message_id"] = name
    superlink.replies["q1"] = lie, ObjectTree(object_id=name)
    superlink.parts[name] = part
    superlink.send(superlink.announce(2))
    assert read(grid, "q1", "q2") == [0, 2]


@pytest.mark.parametrize(
    "said",
    [
        {"reply_to_message_id": "q2"},
        {"reply_to_message_id": "q3"},
        {"src_node_id": 2},
        {"created_at": float("inf")},
        {"created_at": float("nan")},
        {"run_id": 2},
    ],
)
def test_a_reply_that_says_otherwise_in_its_parts_is_an_error(
    said: dict[str, Any], grid: PollingGrid, superlink: SuperLink
) -> None:
    """The SuperLink checks what is announced: the parts could make it another silo's reply, or one to no question."""
    announce_as(superlink, superlink.announce(1), said)
    superlink.send(superlink.announce(2))
    found = grid.pull_messages(["q1", "q2"])
    assert {reply.metadata.reply_to_message_id: reply.has_error() for reply in found} == {"q1": True, "q2": False}


def announce_as(superlink: SuperLink, reply: Message, said: dict[str, Any]) -> None:
    """Announce a reply to ``q1``, and send parts in which it says something else."""
    before = {f"_{name}": getattr(reply.metadata, name) for name in said}
    reply.metadata.__dict__.update({f"_{name}": value for name, value in said.items()})
    reply.metadata.__dict__["_message_id"] = reply.object_id
    with no_object_id_recompute():
        superlink.replies["q1"] = reply, get_object_tree(reply)
    superlink.send(reply)
    reply.metadata.__dict__.update(before)


def kept(grid: PollingGrid) -> int:
    """Bytes of parts that are kept of replies that are not whole."""
    return sum(len(part) for one in grid._arriving.values() for part in one.parts.values())


def test_one_of_countless_bytes_is_not_kept_and_holds_up_no_other(grid: PollingGrid, superlink: SuperLink) -> None:
    """Those of five parts are all that a reply may have, and the last part never comes."""
    endless = superlink.announce(1)
    names = [f"{n}" for n in range(1, MOST_PARTS)]
    part = bytes(MOST_BYTES // (MOST_PARTS - 3))
    for missing in ([], names[-1:]):
        superlink.told, superlink.fetched = set(), []
        grid._arriving.clear()
        superlink.replies["q1"] = endless, ObjectTree(object_id="0", children=[ObjectTree(object_id=n) for n in names])
        superlink.parts = {name: part for name in ["0", *names] if name not in missing}
        superlink.send(superlink.announce(2))
        assert read(grid, "q1", "q2") == [2]
        assert len(superlink.fetched) <= MOST_PARTS + 3
        assert kept(grid) == 0
        assert read(grid, "q1") == []
        assert len(superlink.fetched) <= MOST_PARTS + 3
