"""The SuperLink's store tells a silo nothing of what other silos have sent.

Flower 1.41 calls each part of a message by its SHA-256, keeps a part once whoever sent it, and tells any silo whether
it has one. So a silo could work out the part that another silo's answer would be, guess for guess, and ask: is that one
there? A part's name is no secret where few answers are possible. Here a silo is given parts of its own questions alone,
and is told to send each part of its answers, whether or not the store has it.

All of Flower's insides that are touched are in ``install`` and ``_is_of_own_question``.
"""

import importlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from fedct_flwr.coordinator.whole_replies import MOST_PARTS


def install() -> None:
    """From now on this process's SuperLink answers silos so."""
    fleet: Any = importlib.import_module("flwr.superlink.servicer.fleet.fleet_handlers")
    for name, around in (("push_messages", push), ("push_object", push_part), ("pull_object", pull_part)):
        setattr(fleet, name, partial(around, getattr(fleet, name)))


def push(flowers: Callable[..., Any], request: Any, state: Any) -> Any:
    """Take an answer, and ask for all of its parts. Raises what Flower raises for one that nobody waits for.

    One of more parts than any of ours is not taken: each costs the database a few calls, and others wait meanwhile.
    """
    protos: Any = importlib.import_module("flwr.proto.fleet_pb2")
    metadata, parts = request.messages_list[0].metadata, part_ids(request.message_object_trees[0])
    answer = protos.PushMessagesResponse(reconnect=protos.Reconnect(reconnect=5), results={metadata.message_id: 0})
    if len(parts) > MOST_PARTS:
        return answer
    try:
        answer = flowers(request=request, state=state)
    except ValueError:
        # The store has a part of this name that is made of other parts. Which it is, another silo may have sent.
        answer.session_id = state.start_session(metadata.run_id)
    del answer.objects_to_push[:]
    answer.objects_to_push.extend(parts)
    return answer


def push_part(flowers: Callable[..., Any], request: Any, state: Any) -> Any:
    """Take a part; one that the store has is taken as any other. Raises what Flower raises."""
    inflatable: Any = importlib.import_module("flwr.supercore.inflatable.inflatable_object")
    answer = flowers(request=request, state=state)
    answer.stored = inflatable.get_object_id(request.object_content) == request.object_id
    return answer


def pull_part(flowers: Callable[..., Any], request: Any, state: Any) -> Any:
    """Give a part of a silo's own question. Of any other part there is none. Raises what Flower raises."""
    if _is_of_own_question(request.node.node_id, request.run_id, request.object_id, state):
        return flowers(request=request, state=state)
    protos: Any = importlib.import_module("flwr.proto.message_pb2")
    return protos.PullObjectResponse(object_found=False, object_available=False)


def _is_of_own_question(node: int, run: int, name: str, state: Any) -> bool:
    """By the database, which outlasts a restart of the SuperLink between a question and its parts."""
    link: Any = importlib.import_module("flwr.server.superlink.linkstate.sql_linkstate")
    stores: Any = importlib.import_module("flwr.supercore.object_store")
    question = link.MessageInsModel
    of_this_silo = (question.dst_node_id == link.uint64_to_int64(node), question.run_id == link.uint64_to_int64(run))
    with state.session() as session:
        asked = session.scalars(link.select(question.message_id).where(*of_this_silo)).all()
    for message in asked:
        try:
            if name in part_ids(state.object_store.get_object_tree(message)):
                return True
        except stores.NoObjectInStoreError:
            # It has arrived, and was deleted.
            continue
    return False


def part_ids(tree: Any) -> list[str]:
    """The names of a message's parts (``ObjectTree``), each once."""

    def names(tree: Any) -> Iterator[str]:
        yield tree.object_id
        for child in tree.children:
            yield from names(child)

    return list(dict.fromkeys(names(tree)))
