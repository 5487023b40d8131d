"""Flower's SuperLink, which shows no silo another silo's messages and takes no answer in another's name.

Takes Flower's options. Flower calls each part of a message by its SHA-256, keeps a part once whichever node sent it,
and tells any node whether it has one: a silo could guess the part that another silo's answer would be, and ask. Here a
silo is given parts of its own questions alone, and is told to send each part of its answers. Flower checks who calls,
but not that an answer names the caller as its sender; and after a time that is no number (NaN) every request for
replies fails.

Issues for Flower. "Fleet API: content-addressed object store leaks other nodes' messages": `pull_object` gives any
object of a run to any node of that run, and `push_messages` and `push_object` reveal whether an object exists. "Fleet
API: push_messages trusts src_node_id and times of the message".
"""

import hashlib
import importlib
import math
import os
import sys
from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial
from importlib.metadata import entry_points
from typing import Any, Final

from flwr.proto import fleet_pb2 as fleet
from flwr.proto import message_pb2 as messages

from fedct_flwr.flower.grid import MOST_PARTS, part_ids
from fedct_flwr.text.printable import logger

COMMAND: Final = (sys.executable, "-P", "-m", "fedct_flwr.flower.superlink")
"""Without options."""
_PROGRAM: Final = "flower-superlink"
MOST_PARTS_VARIABLE: Final = "FEDCT_MOST_PARTS"
"""In the environment: most parts of one answer, where other apps than ours send more; two for each array, and six."""
_QUESTIONS: Final = 8
"""A silo's last questions, whose parts it may fetch. A SuperNode fetches one before it asks for the next."""


class Isolation:
    """Wraps Flower's handlers. Questions from before a restart of the SuperLink are asked again."""

    def __init__(self, most_parts: int = MOST_PARTS) -> None:
        self._most_parts = most_parts
        self._own: defaultdict[int, deque[frozenset[str]]] = defaultdict(lambda: deque(maxlen=_QUESTIONS))

    def install(self) -> None:
        """Replace the handlers of this process's SuperLink."""
        handlers: Any = importlib.import_module("flwr.superlink.servicer.fleet.fleet_handlers")
        around: dict[str, Callable[..., Any]] = {
            "pull_messages": self.pull, "push_messages": self.push,
            "push_object": self.push_part, "pull_object": self.pull_part,
        }  # fmt: skip
        for name, handler in around.items():
            setattr(handlers, name, partial(handler, getattr(handlers, name)))

    def pull(self, flowers: Callable[..., Any], request: Any, **others: Any) -> Any:
        """A silo's next question, whose parts it may fetch from now on."""
        answer = flowers(request=request, **others)
        for tree in answer.message_object_trees:
            self._own[request.node.node_id].append(frozenset(part_ids(tree)))
        return answer

    def push(self, flowers: Callable[..., Any], request: Any, state: Any) -> Any:
        """Take an answer of the caller's own, with times and few parts, and ask for all parts. Raises as Flower."""
        metadata = request.messages_list[0].metadata
        times = (metadata.created_at, metadata.ttl, *request.clientapp_runtime_list)
        if metadata.src_node_id != request.node.node_id or not all(map(math.isfinite, times)):
            logger.warning(
                "node %d sent an answer of another node, or without a time: it counts nothing", request.node.node_id
            )
            return fleet.PushMessagesResponse(results={metadata.message_id: 0})
        parts = part_ids(request.message_object_trees[0], self._most_parts + 1)
        answer = fleet.PushMessagesResponse(reconnect=fleet.Reconnect(reconnect=5), results={metadata.message_id: 0})
        if len(parts) > self._most_parts:
            return answer
        try:
            answer = flowers(request=request, state=state)
        except ValueError:
            # The store has a part of this name that is made of other parts. Which it is, another silo may have sent.
            answer.session_id = state.start_session(metadata.run_id)
        del answer.objects_to_push[:]
        answer.objects_to_push.extend(parts)
        return answer

    def push_part(self, flowers: Callable[..., Any], request: Any, state: Any) -> Any:
        """Take a part; one that the store has is taken as any other. Raises what Flower raises."""
        answer = flowers(request=request, state=state)
        answer.stored = hashlib.sha256(request.object_content).hexdigest() == request.object_id
        return answer

    def pull_part(self, flowers: Callable[..., Any], request: Any, state: Any) -> Any:
        """Give a part of a silo's own question. Of any other part there is none. Raises what Flower raises."""
        if any(request.object_id in parts for parts in self._own[request.node.node_id]):
            return flowers(request=request, state=state)
        return messages.PullObjectResponse(object_found=False, object_available=False)


def main() -> None:
    """Run ``flower-superlink``."""
    Isolation(int(os.environ.get(MOST_PARTS_VARIABLE, MOST_PARTS))).install()
    (program,) = entry_points(group="console_scripts", name=_PROGRAM)
    sys.argv[0] = _PROGRAM
    program.load()()


if __name__ == "__main__":
    main()
