"""A SuperNode's client and Flower's SuperLink in this process, with HTTP in between: what the patches hold."""

import importlib
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.fleet_pb2 import ActivateNodeRequest, PullMessagesRequest, PushMessagesRequest
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, ObjectTree, PullObjectRequest, PushObjectRequest
from flwr.proto.node_pb2 import Node
from flwr.proto.runtime_pb2 import PushAppMessagesRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.fab import Fab
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from fedct_flwr.flower import supernode
from fedct_flwr.flower.grid import MOST_PARTS, part_ids
from fedct_flwr.flower.superlink import Isolation
from tests.hospital.runtime_api import RuntimeApi, odd_record
from tests.patience import eventually
from tests.processes.deployment import free_port


class SuperLink:
    """Flower's, patched, at a port of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        main: Any = importlib.import_module("flwr.superlink.main")
        self.app: Any = main.create_app()
        self.state: Any = self.app.state.linkstate_factory.state()
        fab = self.state.store_fab(Fab(hash_str="", content=b"code", verifications={}))
        about = {"series_description": "a study"}
        self.run = int(
            self.state.create_run("fedct", "1", fab, {}, "@none/default", None, "aid", TaskType.SERVER_APP, **about)
        )
        (task,) = self.state.get_tasks(run_ids=[self.run])
        self.state.claim_task(task.task_id)
        self.state.activate_task(task.task_id)
        self.task: Any = SimpleNamespace(run_id=self.run, task_id=task.task_id)
        for name, value in {"_task_id": task.task_id, "_run_id": self.run, "_node_id": 1}.items():
            monkeypatch.setattr(TaskIdentity, name, value)
        self.port = free_port()
        config = uvicorn.Config(self.app, port=self.port, log_level="error", lifespan="off", ws="none")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        eventually(lambda: self._server.started, "the SuperLink", seconds=60)

    def stop(self) -> None:
        self._server.should_exit = True
        self._server.force_exit = True
        self._thread.join()
        for store in (self.state, self.state.object_store):
            if engine := getattr(store, "_engine", None):
                engine.dispose()

    def ask(self, node: int, content: bytes) -> str:
        """Let the run ask a silo something. Returns the message's id."""
        handlers: Any = importlib.import_module("flwr.superlink.servicer.runtime.runtime_handlers")
        message = named(Message(RecordDict({"question": ConfigRecord({"bytes": content})}), node, "train", ttl=60))
        tree, objects = get_object_tree(message), get_all_nested_objects(message)
        request = PushAppMessagesRequest(messages_list=[message_to_proto(bare(message))], message_object_trees=[tree])
        told = handlers.push_messages(request, self.state, self.task)
        for name in told.objects_to_push:
            piece = PushObjectRequest(
                node=Node(node_id=1), run_id=self.run, object_id=name, object_content=objects[name].deflate(),
                session_id=told.session_id,
            )  # fmt: skip
            handlers.push_object(piece, self.state, self.task)
        return str(message.metadata.message_id)


def named(message: Message) -> Message:
    message.metadata.__dict__["_message_id"] = message.object_id
    return message


def bare(message: Message) -> Message:
    utils: Any = importlib.import_module("flwr.app.message")
    return utils.remove_content_from_message(message)  # type: ignore[no-any-return]


class Silo:
    """A SuperNode's calls, one after the other."""

    def __init__(self, superlink: SuperLink) -> None:
        private, public = generate_key_pairs()
        key = public_key_to_bytes(public)
        self.node_id: int = superlink.state.create_node("aid", "owner", key, 30.0, name="basel")
        module: Any = importlib.import_module("flwr.supernode.fleet_http_connection")
        self.client = module.FleetHttpClient.from_server_address(
            f"127.0.0.1:{superlink.port}", True, None, [NodeAuthHttpInterceptor(private, public)]
        )
        self.run = superlink.run
        self.node = Node(node_id=self.node_id)
        self.client.ActivateNode(ActivateNodeRequest(public_key=key, heartbeat_interval=30))

    def pull(self) -> tuple[Message, Any] | None:
        found = self.client.PullMessages(PullMessagesRequest(node=self.node))
        if not found.messages_list:
            return None
        return message_from_proto(found.messages_list[0]), found.message_object_trees[0]

    def fetch(self, pulled: tuple[Message, Any] | None) -> Message:
        assert pulled is not None
        message, tree = pulled
        parts = {
            name: self.client.PullObject(
                PullObjectRequest(node=self.node, run_id=self.run, object_id=name)
            ).object_content
            for name in part_ids(tree)
        }
        confirmed = ConfirmMessageReceivedRequest(node=self.node, run_id=self.run, message_object_id=tree.object_id)
        self.client.ConfirmMessageReceived(confirmed)
        content = inflate_object_from_contents(tree.object_id, parts)
        assert isinstance(content, Message)
        message.content = content.content
        return message

    def announce(self, reply: Message, tree: ObjectTree | None = None, **told: float | int | str) -> Any:
        """What the SuperLink says to an announcement that may tell something else than it should."""
        request = PushMessagesRequest(node=self.node, messages_list=[message_to_proto(bare(reply))])
        request.message_object_trees.append(tree or get_object_tree(reply))
        for name, value in told.items():
            setattr(request.messages_list[0].metadata, name, value)
        return self.client.PushMessages(request)

    def push(self, session: str, name: str, content: bytes) -> bool:
        """Whether the SuperLink takes a part."""
        piece = PushObjectRequest(
            node=self.node, run_id=self.run, object_id=name, object_content=content, session_id=session
        )
        return bool(self.client.PushObject(piece).stored)

    def answer(self, message: Message, content: bytes) -> Message:
        """Push an answer with all parts that the SuperLink asks for."""
        reply = named(Message(RecordDict({"answer": part_of(content)}), reply_to=message))
        told, objects = self.announce(reply), get_all_nested_objects(reply)
        for name in told.objects_to_push:
            self.push(told.session_id, name, objects[name].deflate())
        return reply


@pytest.fixture
def superlink(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[SuperLink]:
    monkeypatch.setenv("FLWR_DATABASE", str(tmp_path / "state.db"))
    fleet: Any = importlib.import_module("flwr.superlink.servicer.fleet.fleet_handlers")
    for name in ("pull_messages", "push_messages", "push_object", "pull_object"):
        # Put back afterwards.
        monkeypatch.setattr(fleet, name, getattr(fleet, name))
    made = SuperLink(monkeypatch)
    Isolation().install()
    yield made
    made.stop()


def answered(superlink: SuperLink, reply: Message) -> bool:
    """Whether the SuperLink has the whole reply."""
    names = part_ids(get_object_tree(reply))
    return all(superlink.state.get_object(superlink.run, name) for name in names)


VOTES = (b"0110", b"0111")
"""What another silo has answered, and what it could have answered."""


def part_of(votes: bytes) -> ConfigRecord:
    return ConfigRecord({"bytes": votes})


@pytest.fixture
def guessing(superlink: SuperLink) -> Iterator[tuple[Silo, Message]]:
    """A silo that lies, and its question; another one has answered the same question with the first of ``VOTES``."""
    honest, liar = Silo(superlink), Silo(superlink)
    for silo in (honest, liar):
        superlink.ask(silo.node_id, b"question")
    honest.answer(honest.fetch(honest.pull()), VOTES[0])
    yield liar, liar.fetch(liar.pull())
    for silo in (honest, liar):
        silo.client.close()


def test_a_silo_fetches_no_part_of_anothers_answer(guessing: tuple[Silo, Message]) -> None:
    liar, _ = guessing
    for votes in VOTES:
        name = part_of(votes).object_id
        found = liar.client.PullObject(PullObjectRequest(node=liar.node, run_id=liar.run, object_id=name))
        assert not found.object_found


@pytest.mark.parametrize("guessed", [part_of, lambda votes: RecordDict({"answer": part_of(votes)})])
def test_a_silo_that_announces_what_another_has_sent_learns_nothing_by_that(
    guessing: tuple[Silo, Message], superlink: SuperLink, guessed: Any
) -> None:
    """Of 100,000 guesses in one answer the SuperLink told which one it had: it asked for all others."""
    liar, question = guessing
    told = []
    for number, votes in enumerate(VOTES):
        part = guessed(votes)
        reply = named(Message(RecordDict({"answer": ConfigRecord({"number": number})}), reply_to=question))
        tree = get_object_tree(reply)
        # As if it had no parts of its own: of another tree than the one that the SuperLink has, if it has one.
        tree.children.append(ObjectTree(object_id=part.object_id))
        answer = liar.announce(reply, tree)
        told.append(
            (
                [part.object_id if name == part.object_id else "own" for name in answer.objects_to_push].count("own"),
                part.object_id in answer.objects_to_push,
                list(answer.results.values()),
                *(liar.push(answer.session_id, part.object_id, sent) for sent in (b"another", part.deflate())),
            )
        )
        # Each answer may be the first to the question.
        superlink.ask(liar.node_id, b"question")
        question = liar.fetch(liar.pull())
    assert told[0] == told[1]


def test_silos_that_answer_alike_have_both_answered(superlink: SuperLink) -> None:
    silos = [Silo(superlink), Silo(superlink)]
    for silo in silos:
        superlink.ask(silo.node_id, b"question")
    for silo in silos:
        assert answered(superlink, silo.answer(silo.fetch(silo.pull()), b"labels"))
        silo.client.close()


def test_an_answer_of_many_parts_holds_up_nobody(superlink: SuperLink) -> None:
    """One that announced 20,000 parts kept the database at work for 30 s, and other silos' calls failed."""
    silo = Silo(superlink)
    superlink.ask(silo.node_id, b"question")
    reply = named(Message(RecordDict({"answer": part_of(VOTES[0])}), reply_to=silo.fetch(silo.pull())))
    tree = get_object_tree(reply)
    names = [part_of(b"%d" % number).object_id for number in range(MOST_PARTS)]
    tree.children.extend(ObjectTree(object_id=name) for name in names)
    assert not silo.announce(reply, tree).objects_to_push
    # None of them is noted.
    assert {superlink.state.object_store.get(name) for name in names} == {None}
    silo.client.close()


def announced(silo: Silo, question: Message, **told: float | int | str) -> Any:
    return silo.announce(named(Message(RecordDict({"answer": part_of(VOTES[0])}), reply_to=question)), **told)


@pytest.mark.parametrize("name", ["created_at", "ttl"])
def test_an_answer_without_a_time_is_not_taken(name: str, superlink: SuperLink) -> None:
    """The database has nothing in place of such a number, and nobody could read any reply from then on."""
    silo, other = Silo(superlink), Silo(superlink)
    asked = {superlink.ask(silo.node_id, b"question"), superlink.ask(other.node_id, b"question")}
    assert not announced(silo, silo.fetch(silo.pull()), **{name: float("nan")}).objects_to_push
    reply = other.answer(other.fetch(other.pull()), b"labels")
    found = superlink.state.get_message_res(asked, superlink.run)
    assert [message.metadata.message_id for message in found] == [reply.metadata.message_id]
    for one in (silo, other):
        one.client.close()


def test_a_silo_answers_for_itself_alone(superlink: SuperLink) -> None:
    """Even if it knows another silo's number, and of which question it was asked."""
    honest, liar = Silo(superlink), Silo(superlink)
    asked = superlink.ask(honest.node_id, b"question")
    question = honest.fetch(honest.pull())
    assert not announced(liar, question, src_node_id=honest.node_id).objects_to_push
    assert superlink.state.get_message_res({asked}, superlink.run) == []
    assert answered(superlink, honest.answer(question, b"labels"))
    for silo in (honest, liar):
        silo.client.close()


def test_a_reply_that_is_not_waited_for_leaves_at_the_next_look(monkeypatch: pytest.MonkeyPatch) -> None:
    loop: Any = importlib.import_module("flwr.supernode.start_client_internal")
    monkeypatch.setattr(loop, "_pull_and_store_message", lambda **_: None)
    api, looks = RuntimeApi(), list[bool]()
    supernode.send_what_waits(lambda: looks.append(True))
    try:
        question = api.ask(odd_record())
        assert loop._pull_and_store_message(state=api.state) is None, "there is no reply yet"
        api.state.store_message(named(Message(RecordDict(), reply_to=question)))
        assert loop._pull_and_store_message(state=api.state) is not None
        assert len(looks) == 2
    finally:
        api.close()
