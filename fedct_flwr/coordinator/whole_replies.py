"""A reply counts once all its parts are there: one that is announced and does not come holds up no other.

A node announces a reply and sends its parts afterwards. Flower 1.41 takes all replies that are announced, and waits for
the parts of one before it looks at the next: three minutes for a node whose connection broke off in between, two hours
for one that sends a part now and then. Whatever the others sent has expired by then, and the round has no replies.

Whole parts that are no reply, or another than was announced, make an error of that silo's reply alone.

What is used of Flower's insides: where its grid keeps its client, and two of that client's calls.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from flwr.app import Message
from flwr.common.serde import message_to_proto
from flwr.proto.message_pb2 import Message as ReplyProto
from flwr.proto.message_pb2 import ObjectTree, PullObjectRequest, PullObjectResponse
from flwr.proto.runtime_pb2 import PullAppMessagesRequest, PullAppMessagesResponse
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import get_object_tree, iterate_object_tree

from fedct_flwr.coordinator.http_grid import is_http
from fedct_flwr.coordinator.readable_replies import in_its_place, is_readable

if TYPE_CHECKING:
    from flwr.superlink.grid import HttpGrid

MOST_PARTS: Final = 8
"""Of one reply; all of ours have three. A reply that announces more never counts as there. Each part passes the
gateway, so 16 silos that lie can fill 256 MB with the usual ``max-message``, where 64 parts of each filled 1 GiB."""
MOST_BYTES: Final = 64 << 20
"""Of one reply, over all its parts, each of which may be as long as the gateway lets in. Probabilities have 450 kB."""


def await_whole_replies(grid: Grid) -> None:
    """From now on this grid hands out whole replies alone. Others than the one to a SuperLink do so anyway."""
    if is_http(grid) and not isinstance(grid._client, WholeReplies):
        grid._client = WholeReplies(grid._runtime_client, grid)  # type: ignore[assignment]


@dataclass
class _Arriving:
    reply: ReplyProto
    tree: ObjectTree
    parts: dict[str, PullObjectResponse] = field(default_factory=dict)
    endless: bool = False
    """Whether it has more parts or bytes than any reply: nothing of it is kept."""

    @classmethod
    def of(cls, error: Message) -> Self:
        """An error in place of a reply, all of which is there."""
        part = PullObjectResponse(object_found=True, object_available=True, object_content=error.deflate())
        return cls(message_to_proto(error), get_object_tree(error), {error.object_id: part})

    def is_readable(self) -> bool:
        """Whether its parts are what was announced, or the SuperLink has lost some, of which Flower makes an error."""
        if not all(part.object_found for part in self.parts.values()):
            return True
        return is_readable(self.reply, {name: part.object_content for name, part in self.parts.items()})


class WholeReplies:
    """Stands in for the grid's client, and keeps a reply to itself until nothing of it is on its way any more.

    A part that the SuperLink does not know any more will not come: Flower makes an error of such a reply.
    """

    def __init__(self, client: Any, grid: "HttpGrid") -> None:
        self._client = client
        self._grid = grid
        self._arriving: dict[str, _Arriving] = {}
        """By the question's id."""
        self._parts: dict[str, PullObjectResponse] = {}
        """Of the replies that were handed out last."""

    def PullMessages(self, request: PullAppMessagesRequest) -> PullAppMessagesResponse:  # noqa: N802 - Flower's name
        """The replies to these questions that are there as a whole."""
        # Of a reply that it has told of, the SuperLink says when asked again that there is none.
        if new := [asked for asked in request.message_ids if asked not in self._arriving]:
            told = self._client.PullMessages(PullAppMessagesRequest(message_ids=new))
            for reply, tree in zip(told.messages_list, told.message_object_trees, strict=True):
                self._arriving[reply.metadata.reply_to_message_id] = _Arriving(reply, tree)
        self._parts, whole = {}, PullAppMessagesResponse()
        for question in self._arriving.keys() - set(request.message_ids):
            # Nobody waits for it now: what is there of it can be fetched again, and need not fill the memory.
            self._arriving[question].parts.clear()
        for question in [asked for asked in request.message_ids if asked in self._arriving]:
            arriving = self._arriving[question]
            if self._fetch(arriving):
                del self._arriving[question]
                if not arriving.is_readable():
                    arriving = _Arriving.of(in_its_place(arriving.reply))
                self._parts |= arriving.parts
                whole.messages_list.append(arriving.reply)
                whole.message_object_trees.append(arriving.tree)
        return whole

    def PullObject(self, request: PullObjectRequest) -> PullObjectResponse:  # noqa: N802 - Flower's name
        """A part of a reply that was handed out."""
        return self._parts.get(request.object_id) or self._client.PullObject(request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def _fetch(self, arriving: _Arriving) -> bool:
        """Fetch what is there of a reply. Whether nothing else will come."""
        room = MOST_BYTES - sum(len(part.object_content) for part in arriving.parts.values())
        for number, part in enumerate(iterate_object_tree(arriving.tree)):
            if arriving.endless or number == MOST_PARTS or room < 0:
                arriving.endless = True
                arriving.parts.clear()
                return False
            if part.object_id in arriving.parts:
                continue
            run = arriving.reply.metadata.run_id
            found = self._client.PullObject(
                PullObjectRequest(node=self._grid.node, run_id=run, object_id=part.object_id)
            )
            if found.object_found and not found.object_available:
                return False
            arriving.parts[part.object_id] = found
            room -= len(found.object_content)
        arriving.endless = room < 0
        return not arriving.endless
