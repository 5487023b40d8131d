"""A SuperNode's client and Flower's SuperLink in this process, with HTTP in between, in the short form and without."""

import importlib
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import uvicorn
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.control_pb2 import ListNodesRequest, ListNodesResponse
from flwr.proto.fleet_pb2 import ActivateNodeRequest, DeactivateNodeRequest, PullMessagesRequest, PushMessagesRequest
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, ObjectTree, PullObjectRequest, PushObjectRequest
from flwr.proto.node_pb2 import Node
from flwr.proto.runtime_pb2 import PushAppMessagesRequest
from flwr.supercore.constant import NodeStatus
from flwr.supercore.error import FlowerError
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from fedct_flwr.coordinator.whole_replies import MOST_PARTS
from fedct_flwr.engine import own_answers, silent_store, silo_versions
from fedct_flwr.engine.held_calls import Bells, HeldCalls
from fedct_flwr.engine.superlink import Questions
from fedct_flwr.hospital import short_calls
from fedct_flwr.hospital.noted_calls import QUESTION, note_calls
from fedct_flwr.hospital.short_calls import LONGEST_WAIT, shorten_calls
from fedct_flwr.hospital.short_form import MOST_BYTES, attach, attached, pack_parts, part_ids, read_version
from fedct_flwr.hospital.supervised_supernode import NODE
from fedct_flwr.version import __version__
from tests import superlink_state
from tests.patience import eventually
from tests.processes.deployment import free_port
from tests.processes.relay import Relay
from tests.superlink_state import begin_run

pytestmark = pytest.mark.filterwarnings("ignore:No path_separator:DeprecationWarning")

ROUND_BYTES = 4000


class SuperLink:
    """Flower's, at a port of its own; ``calls`` counts what it is asked from outside, by path."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, short: bool) -> None:
        self.calls: Counter[str] = Counter()
        main: Any = importlib.import_module("flwr.superlink.main")
        self.app: Any = main.create_app()
        self.state: Any = self.app.state.linkstate_factory.state()
        self.run, task = begin_run(self.state, b"code")
        self.task: Any = SimpleNamespace(run_id=self.run, task_id=task.task_id)
        for name, value in {"_task_id": task.task_id, "_run_id": self.run, "_node_id": 1}.items():
            monkeypatch.setattr(TaskIdentity, name, value)
        self.bells = Bells()
        self.questions = Questions(self.bells)
        self._inner: Any = HeldCalls(self.app, self.bells, self.questions.is_coming) if short else self.app
        self.port = free_port()
        config = uvicorn.Config(
            self._count, port=self.port, log_level="error", lifespan="off", ws="none", interface="asgi3"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        eventually(lambda: self._server.started, "the SuperLink", seconds=60)

    async def _count(self, scope: Any, receive: Any, send: Any) -> None:
        self.calls[scope["path"].rpartition("/")[2]] += 1
        await self._inner(scope, receive, send)

    def stop(self) -> None:
        self._server.should_exit = True
        self._server.force_exit = True
        self._thread.join()
        for store in (self.state, self.state.object_store):
            if engine := getattr(store, "_engine", None):
                engine.dispose()

    def ask(self, node: int, content: bytes, *, parts: bool = True) -> str:
        """Let the run ask a silo something. Returns the message's id."""
        handlers: Any = importlib.import_module("flwr.superlink.servicer.runtime.runtime_handlers")
        message = Message(RecordDict({"question": ConfigRecord({"bytes": content})}), node, "train", ttl=60)
        message.metadata.__dict__["_message_id"] = message.object_id
        tree, objects = get_object_tree(message), get_all_nested_objects(message)
        request = PushAppMessagesRequest(messages_list=[message_to_proto(bare(message))], message_object_trees=[tree])
        told = handlers.push_messages(request, self.state, self.task)
        for name in told.objects_to_push if parts else ():
            piece = PushObjectRequest(
                node=Node(node_id=1), run_id=self.run, object_id=name, object_content=objects[name].deflate(),
                session_id=told.session_id,
            )  # fmt: skip
            handlers.push_object(piece, self.state, self.task)
        return str(message.metadata.message_id)


def bare(message: Message) -> Message:
    utils: Any = importlib.import_module("flwr.app.message")
    return utils.remove_content_from_message(message)  # type: ignore[no-any-return]


class Silo:
    """A SuperNode's calls, one after the other, as Flower's loop makes them."""

    def __init__(self, superlink: SuperLink, port: int | None = None, former: "Silo | None" = None) -> None:
        self.keys: tuple[Any, Any] = former.keys if former else generate_key_pairs()
        private, public = self.keys
        key = public_key_to_bytes(public)
        self.node_id: int = (
            former.node_id if former else superlink.state.create_node("aid", "owner", key, 30.0, name="basel")
        )
        module: Any = importlib.import_module("flwr.supernode.fleet_http_connection")
        self.store: dict[str, bytes] = {}
        self.client = module.FleetHttpClient.from_server_address(
            f"127.0.0.1:{port or superlink.port}", True, None, [NodeAuthHttpInterceptor(private, public)]
        )
        self.run = superlink.run
        self.node = Node(node_id=self.node_id)
        self.client.ActivateNode(ActivateNodeRequest(public_key=key, heartbeat_interval=30))

    def again(self, superlink: SuperLink) -> "Silo":
        """The SuperNode that is started in place of this one, which was killed."""
        self.client.DeactivateNode(DeactivateNodeRequest(node_id=self.node_id))
        return Silo(superlink, former=self)

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

    def answer(self, message: Message, content: bytes) -> Message:
        """Push an answer as Flower's loop does, whose store has its parts."""
        loop: Any = importlib.import_module("flwr.supernode.start_client_internal")
        reply = Message(RecordDict({"answer": ConfigRecord({"bytes": content})}), reply_to=message)
        reply.metadata.__dict__["_message_id"] = reply.object_id
        tree, objects = get_object_tree(reply), get_all_nested_objects(reply)
        self.store |= {name: part.deflate() for name, part in objects.items()}

        def push(**_: Any) -> None:
            request = PushMessagesRequest(
                node=self.node, messages_list=[message_to_proto(bare(reply))], message_object_trees=[tree]
            )
            told = self.client.PushMessages(request)
            for name in told.objects_to_push:
                self.client.PushObject(
                    PushObjectRequest(
                        node=self.node, run_id=self.run, object_id=name, object_content=self.store[name],
                        session_id=told.session_id,
                    )
                )  # fmt: skip

        PUSHERS.append(push)
        loop._push_messages(state=None, object_store=self.store, send=None, push_object=None)
        return reply


PUSHERS: list[Callable[..., None]] = []


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, str]]:
    """What a SuperNode in the short form notes; all that is patched in Flower is put back."""
    monkeypatch.setenv("FLWR_DATABASE", str(tmp_path / "state.db"))
    for module, names in {
        "flwr.supernode.fleet_http_connection": ("FleetHttpClient",),
        "flwr.superlink.servicer.fleet.fleet_handlers": (
            "activate_node",
            "pull_messages",
            "push_messages",
            "push_object",
            "pull_object",
            "confirm_message_received",
        ),
        "flwr.superlink.servicer.control.control_handlers": ("list_nodes",),
        "flwr.superlink.servicer.runtime.runtime_handlers": ("push_messages", "push_object"),
    }.items():
        for name in names:
            place: Any = importlib.import_module(module)
            monkeypatch.setattr(place, name, getattr(place, name))
    loop: Any = importlib.import_module("flwr.supernode.start_client_internal")
    monkeypatch.setattr(loop, "_push_messages", lambda **others: PUSHERS.pop()(**others))
    return []


@pytest.fixture
def superlink(heard: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> Iterator[SuperLink]:
    made = SuperLink(monkeypatch, short=True)
    silent_store.install()
    silo_versions.install()
    made.questions.install()
    own_answers.install()
    yield made
    made.stop()


@pytest.fixture
def plain(heard: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> Iterator[SuperLink]:
    made = SuperLink(monkeypatch, short=False)
    yield made
    made.stop()


@pytest.fixture
def held() -> list[float]:
    return []


@pytest.fixture
def short(heard: list[tuple[str, str]], held: list[float]) -> None:
    def note(call: str, trouble: str) -> None:
        heard.append((call, trouble))

    note_calls(note)
    shorten_calls(note, held.append)


def answered(superlink: SuperLink, reply: Message) -> bool:
    """Whether the SuperLink has the whole reply."""
    names = part_ids(get_object_tree(reply))
    return all(superlink.state.get_object(superlink.run, name) for name in names)


@pytest.mark.usefixtures("short")
def test_a_round_takes_two_calls_and_few_bytes(superlink: SuperLink, heard: list[tuple[str, str]]) -> None:
    with Relay(superlink.port) as relay:
        silo = Silo(superlink, relay.port)
        for number in range(3):
            superlink.calls.clear()
            before = relay.up + relay.down
            asked = superlink.ask(silo.node_id, b"%d" % number * 100)
            message = silo.fetch(silo.pull())
            assert message.metadata.message_id == asked
            assert message.content["question"] == ConfigRecord({"bytes": b"%d" % number * 100})
            assert answered(superlink, silo.answer(message, b"labels" * 20))
            assert superlink.calls == {"pull-messages": 1, "push-messages": 1}
            # TLS adds 22 bytes to each of about eight records.
            assert relay.up + relay.down - before < ROUND_BYTES - 8 * 22
        silo.client.close()
    assert heard.count((QUESTION, "")) == 3
    # Nothing of a question is kept once it is answered.
    assert superlink.state.object_store.get(asked) is None


def test_flowers_own_supernode_takes_nine_calls_as_ever(superlink: SuperLink) -> None:
    silo = Silo(superlink)
    superlink.ask(silo.node_id, b"question")
    message = silo.fetch(silo.pull())
    assert message.content["question"] == ConfigRecord({"bytes": b"question"})
    assert answered(superlink, silo.answer(message, b"labels"))
    assert superlink.calls["pull-object"] == superlink.calls["push-object"] == 3
    assert superlink.calls["confirm-message-received"] == 1
    silo.client.close()


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("offered", [False, True])
def test_flowers_own_superlink_is_talked_to_as_ever(
    plain: SuperLink, offered: bool, heard: list[tuple[str, str]]
) -> None:
    silo = Silo(plain)
    # As one that went back to Flower's own after it had offered the short form.
    if offered:
        silo.client._offered.set()
    plain.ask(silo.node_id, b"question")
    message = silo.fetch(silo.pull())
    assert message.content["question"] == ConfigRecord({"bytes": b"question"})
    assert answered(plain, silo.answer(message, b"labels"))
    assert plain.calls["pull-object"] == plain.calls["push-object"] == 3
    assert {trouble for call, trouble in heard if call != NODE} == {""}
    silo.client.close()


@pytest.mark.usefixtures("short")
def test_a_call_waits_for_a_question_and_is_answered_at_once(superlink: SuperLink, held: list[float]) -> None:
    silo = Silo(superlink)
    with ThreadPoolExecutor(1) as pool:
        pulled = pool.submit(silo.pull)
        time.sleep(0.5)
        assert not pulled.done()
        superlink.ask(silo.node_id, b"question")
        assert silo.fetch(pulled.result(LONGEST_WAIT / 2)).content["question"] == ConfigRecord({"bytes": b"question"})
    assert superlink.calls["pull-messages"] == 1
    silo.client._wait.seconds = 1
    began = time.monotonic()
    assert silo.pull() is None
    assert time.monotonic() - began >= 1
    assert len(held) == 1
    assert held[0] >= 1
    silo.client.close()


@pytest.mark.parametrize("question", [b"question", bytes(2 * MOST_BYTES)], ids=["small", "too large for one call"])
@pytest.mark.usefixtures("short")
def test_a_question_that_did_not_arrive_is_handed_out_again_and_one_that_did_is_not(
    superlink: SuperLink, question: bytes
) -> None:
    with Relay(superlink.port) as relay:
        silo = Silo(superlink, relay.port)
        relay.fail("cut-down")
        with ThreadPoolExecutor(1) as pool:
            lost = pool.submit(silo.pull)
            asked = superlink.ask(silo.node_id, question)
            eventually(lambda: silo.node_id in superlink.questions._handed, "the question's way")
            relay.heal()
            with pytest.raises(httpx.RequestError):
                lost.result()
        message = silo.fetch(silo.pull())
        assert message.metadata.message_id == asked
        assert message.content["question"] == ConfigRecord({"bytes": question})
        silo.client._wait.seconds = 1
        assert silo.pull() is None
        assert not superlink.questions._handed
        silo.client.close()


@pytest.mark.usefixtures("short")
def test_parts_are_awaited_from_the_moment_on_in_which_a_question_can_be_found(superlink: SuperLink) -> None:
    silo = Silo(superlink)
    runtime: Any = importlib.import_module("flwr.superlink.servicer.runtime.runtime_handlers")
    seen = []

    def stored(*arguments: Any) -> Any:
        # A call for work that comes right now.
        seen.append(superlink.questions.is_coming(silo.node_id))
        raise RuntimeError("the database is gone")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime, "push_messages", partial(superlink.questions.announce, stored))
        with pytest.raises(RuntimeError, match="gone"):
            superlink.ask(silo.node_id, b"question")
    assert seen == [True]
    assert not superlink.questions.is_coming(silo.node_id)
    silo.client.close()


@pytest.mark.usefixtures("short")
def test_a_supernode_that_starts_again_gets_the_question_that_the_one_before_did_not_answer(
    superlink: SuperLink,
) -> None:
    silo = Silo(superlink)
    asked = superlink.ask(silo.node_id, b"question")
    silo.fetch(silo.pull())
    # Killed while the agent is at work: another process takes its place, with the same key.
    again = silo.again(superlink)
    message = again.fetch(again.pull())
    assert message.metadata.message_id == asked
    assert answered(superlink, again.answer(message, b"labels"))
    third = again.again(superlink)
    third.client._wait.seconds = 1
    assert third.pull() is None
    for one in (silo, again, third):
        one.client.close()


@pytest.mark.usefixtures("short")
def test_a_silo_that_hangs_up_or_says_goodbye_swallows_no_question(superlink: SuperLink) -> None:
    with Relay(superlink.port) as relay:
        silo = Silo(superlink, relay.port)
        with ThreadPoolExecutor(1) as pool:
            waits = pool.submit(silo.pull)
            eventually(lambda: silo.node_id in superlink.bells._waiting, "the call")
            relay.fail("reset")
            with pytest.raises(httpx.RequestError):
                waits.result()
            eventually(lambda: silo.node_id not in superlink.bells._waiting, "the end of the call")
            relay.heal()
            waits = pool.submit(silo.pull)
            eventually(lambda: silo.node_id in superlink.bells._waiting, "the call")
            silo.client.DeactivateNode(DeactivateNodeRequest(node_id=silo.node_id))
            assert waits.result(LONGEST_WAIT / 2) is None
        superlink.ask(silo.node_id, b"question")
        assert len(superlink.state.get_message_ins(silo.node_id, limit=None)) == 1
        silo.client.close()


@pytest.mark.usefixtures("short")
def test_a_question_without_its_parts_does_not_wait_for_them_for_ever(superlink: SuperLink) -> None:
    silo = Silo(superlink)
    superlink.ask(silo.node_id, b"question", parts=False)
    began = time.monotonic()
    pulled = silo.pull()
    assert pulled is not None
    assert 1 < time.monotonic() - began < LONGEST_WAIT / 2
    found = silo.client.PullObject(PullObjectRequest(node=silo.node, run_id=silo.run, object_id=pulled[1].object_id))
    assert found.object_found
    assert not found.object_available
    silo.client.close()


@pytest.mark.usefixtures("short")
def test_a_call_for_work_is_a_heartbeat(superlink: SuperLink, monkeypatch: pytest.MonkeyPatch) -> None:
    silo = Silo(superlink)
    silo.client._wait.seconds = 1
    (before,) = superlink.state.get_node_info(node_ids=[silo.node_id])
    time.sleep(0.1)
    assert silo.pull() is None
    (after,) = superlink.state.get_node_info(node_ids=[silo.node_id])
    assert after.status == NodeStatus.ONLINE
    assert after.online_until > before.online_until
    beat = SendNodeHeartbeatRequest(node=silo.node, heartbeat_interval=30)
    assert silo.client.SendNodeHeartbeat(beat).success
    assert superlink.calls["send-node-heartbeat"] == 0
    # A silo that has not asked for long says so itself.
    silo.client._answered -= 21
    assert silo.client.SendNodeHeartbeat(beat).success
    assert superlink.calls["send-node-heartbeat"] == 1
    silo.client.close()


@pytest.mark.usefixtures("short")
def test_a_silo_at_work_counts_as_there_from_its_question_on(superlink: SuperLink) -> None:
    silo = Silo(superlink)
    with ThreadPoolExecutor(1) as pool:
        pulled = pool.submit(silo.pull)
        eventually(lambda: superlink.calls["pull-messages"] == 1, "the call", seconds=60)
        time.sleep(2)
        asked_at = time.time()
        superlink.ask(silo.node_id, b"question")
        assert pulled.result(LONGEST_WAIT / 2)
    (now,) = superlink.state.get_node_info(node_ids=[silo.node_id])
    # Not from the beginning of its call, which may be 40 s ago.
    assert now.online_until >= asked_at + 60
    # While it trains it makes no call for work: every heartbeat is sent.
    beat = SendNodeHeartbeatRequest(node=silo.node, heartbeat_interval=30)
    assert silo.client.SendNodeHeartbeat(beat).success
    assert superlink.calls["send-node-heartbeat"] == 1
    silo.client.close()


@pytest.mark.usefixtures("short")
def test_a_call_in_anothers_name_is_refused_at_once(superlink: SuperLink) -> None:
    silo, other = Silo(superlink), Silo(superlink)
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(silo.pull)
        eventually(lambda: superlink.calls["pull-messages"] == 1, "the call", seconds=60)
        time.sleep(1)
        with pytest.raises(httpx.HTTPStatusError) as refused:
            other.client.PullMessages(PullMessagesRequest(node=silo.node))
        assert refused.value.response.status_code == 401
        # It has not taken the place of the silo's own.
        assert not waits.done()
        superlink.ask(silo.node_id, b"question")
        assert waits.result(LONGEST_WAIT / 2)
    for one in (silo, other):
        one.client.close()


@pytest.mark.usefixtures("short")
def test_where_long_calls_are_cut_off_they_become_shorter(superlink: SuperLink) -> None:
    with Relay(superlink.port) as relay:
        silo = Silo(superlink, relay.port)
        with ThreadPoolExecutor(1) as pool:
            waits = pool.submit(silo.pull)
            time.sleep(5.5)
            relay.fail("drop")
            with pytest.raises(httpx.RequestError):
                waits.result()
        assert silo.client._wait.seconds == LONGEST_WAIT // 2
        # The next call is a short one, so that it shows soon whether the link is up.
        with pytest.raises(httpx.RequestError):
            silo.pull()
        relay.heal()
        began = time.monotonic()
        assert silo.pull() is None
        assert time.monotonic() - began < LONGEST_WAIT / 4
        # Neither changed how long others may wait.
        assert silo.client._wait.seconds == LONGEST_WAIT // 2
        with ThreadPoolExecutor(1) as pool:
            waits = pool.submit(silo.pull)
            time.sleep(3)
            assert not waits.done()
            superlink.ask(silo.node_id, b"question")
            assert waits.result(LONGEST_WAIT / 4)
        silo.client.close()


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


@pytest.mark.usefixtures("short")
def test_a_silo_fetches_no_part_of_anothers_answer(guessing: tuple[Silo, Message]) -> None:
    liar, _ = guessing
    for votes in VOTES:
        name = part_of(votes).object_id
        found = liar.client.PullObject(PullObjectRequest(node=liar.node, run_id=liar.run, object_id=name))
        assert not found.object_found


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("guessed", [part_of, lambda votes: RecordDict({"answer": part_of(votes)})])
@pytest.mark.parametrize("sent", [False, True])
def test_a_silo_that_announces_what_another_has_sent_learns_nothing_by_that(
    guessing: tuple[Silo, Message], superlink: SuperLink, guessed: Any, sent: bool
) -> None:
    """Of 100,000 guesses in one answer the SuperLink told which one it had: it asked for all others."""
    liar, question = guessing
    told = []
    for number, votes in enumerate(VOTES):
        part = guessed(votes)
        reply = Message(RecordDict({"answer": ConfigRecord({"number": number})}), reply_to=question)
        reply.metadata.__dict__["_message_id"] = reply.object_id
        tree, objects = get_object_tree(reply), get_all_nested_objects(reply)
        # As if it had no parts of its own: of another tree than the one that the SuperLink has, if it has one.
        tree.children.append(ObjectTree(object_id=part.object_id))
        request = PushMessagesRequest(node=liar.node, messages_list=[message_to_proto(bare(reply))])
        request.message_object_trees.append(tree)
        if sent:
            attach(request, pack_parts([one.deflate() for one in (*objects.values(), part)]) or b"")
        answer = liar.client.PushMessages(request)
        piece = PushObjectRequest(
            node=liar.node, run_id=liar.run, object_id=part.object_id, object_content=part.deflate(),
            session_id=answer.session_id,
        )  # fmt: skip
        wrong = PushObjectRequest(
            node=liar.node, run_id=liar.run, object_id=part.object_id, object_content=b"another",
            session_id=answer.session_id,
        )  # fmt: skip
        told.append(
            (
                [part.object_id if name == part.object_id else "own" for name in answer.objects_to_push].count("own"),
                part.object_id in answer.objects_to_push,
                list(answer.results.values()),
                liar.client.PushObject(wrong).stored,
                liar.client.PushObject(piece).stored,
            )
        )
        # Each answer may be the first to the question.
        superlink.ask(liar.node_id, b"question")
        question = liar.fetch(liar.pull())
    assert told[0] == told[1]


@pytest.mark.usefixtures("short")
def test_silos_that_answer_alike_have_both_answered(superlink: SuperLink) -> None:
    silos = [Silo(superlink), Silo(superlink)]
    for silo in silos:
        superlink.ask(silo.node_id, b"question")
    for silo in silos:
        assert answered(superlink, silo.answer(silo.fetch(silo.pull()), b"labels"))
        silo.client.close()
    assert superlink.calls["push-object"] == 0


@pytest.mark.usefixtures("short")
def test_an_answer_of_many_parts_holds_up_nobody(superlink: SuperLink) -> None:
    """One that announced 20,000 parts kept the database at work for 30 s, and other silos' calls failed."""
    silo = Silo(superlink)
    superlink.ask(silo.node_id, b"question")
    reply = Message(RecordDict({"answer": part_of(VOTES[0])}), reply_to=silo.fetch(silo.pull()))
    reply.metadata.__dict__["_message_id"] = reply.object_id
    tree = get_object_tree(reply)
    names = [part_of(b"%d" % number).object_id for number in range(MOST_PARTS)]
    tree.children.extend(ObjectTree(object_id=name) for name in names)
    request = PushMessagesRequest(node=silo.node, messages_list=[message_to_proto(bare(reply))])
    request.message_object_trees.append(tree)
    assert not silo.client.PushMessages(request).objects_to_push
    # None of them is noted.
    assert {superlink.state.object_store.get(name) for name in names} == {None}
    silo.client.close()


def versions(superlink: SuperLink) -> list[str]:
    """What the coordinator is told of each node."""
    handlers: Any = importlib.import_module("flwr.superlink.servicer.control.control_handlers")
    told = handlers.list_nodes(ListNodesRequest(), SimpleNamespace(flwr_aid="aid"), superlink.state)
    # As it travels.
    return [read_version(attached(node)) for node in ListNodesResponse.FromString(told.SerializeToString()).nodes_info]


@pytest.mark.usefixtures("short")
def test_the_coordinator_is_told_a_silos_version_also_after_its_superlink_was_started_anew(
    superlink: SuperLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    silo = Silo(superlink)
    assert versions(superlink) == [__version__]
    # As after an update, for which the SuperNode was ended.
    monkeypatch.setattr(short_calls, "__version__", "0.2.0")
    silo.again(superlink).client.close()
    silo.client.close()
    assert versions(superlink) == ["0.2.0"]
    with superlink_state.superlink(Path(os.environ["FLWR_DATABASE"])) as state:
        assert versions(SimpleNamespace(state=state)) == ["0.2.0"]  # type: ignore[arg-type]


def test_flowers_own_supernode_has_no_version_of_ours_nor_that_of_the_one_before_it(
    superlink: SuperLink, short: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    silo = Silo(superlink)
    monkeypatch.setattr(short_calls, "attach", lambda *_: None)
    silo.again(superlink).client.close()
    assert versions(superlink) == [""]
    silo.client.close()


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("told", ["\x1b[2J", "", "1" * 33, "0.1.0\n"])
def test_what_is_no_version_reaches_no_terminal(
    superlink: SuperLink, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(short_calls, "__version__", told)
    silo = Silo(superlink)
    assert versions(superlink) == [""]
    silo.client.close()


@pytest.mark.usefixtures("short")
def test_who_is_not_let_in_leaves_no_version(superlink: SuperLink) -> None:
    handlers: Any = importlib.import_module("flwr.superlink.servicer.fleet.fleet_handlers")
    silo = Silo(superlink)
    stranger = ActivateNodeRequest(public_key=public_key_to_bytes(generate_key_pairs()[1]), heartbeat_interval=30)
    attach(stranger, b"6.6.6")
    with pytest.raises(FlowerError):
        handlers.activate_node(request=stranger, state=superlink.state)
    assert silo_versions.noted(superlink.state) == {silo.node_id: __version__}
    silo.client.close()


def announced(silo: Silo, question: Message, **told: float | int | str) -> Any:
    """What the SuperLink says to an answer whose announcement tells something else than it should."""
    reply = Message(RecordDict({"answer": part_of(VOTES[0])}), reply_to=question)
    reply.metadata.__dict__["_message_id"] = reply.object_id
    request = PushMessagesRequest(node=silo.node, messages_list=[message_to_proto(bare(reply))])
    request.message_object_trees.append(get_object_tree(reply))
    for name, value in told.items():
        setattr(request.messages_list[0].metadata, name, value)
    return silo.client.PushMessages(request)


@pytest.mark.usefixtures("short")
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


@pytest.mark.usefixtures("short")
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
