"""A SuperNode whose connection broke off while a question came is not one answer behind from then on."""

import importlib
from collections.abc import Iterator
from typing import Any

import pytest
from flwr.app import Message, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_object_tree

from fedct_flwr.hospital.late_answers import send_late_answers
from tests.hospital.runtime_api import RuntimeApi, odd_record


@pytest.fixture
def api() -> Iterator[RuntimeApi]:
    made = RuntimeApi()
    yield made
    made.close()


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Flower's own two steps, as its loop takes them."""
    module: Any = importlib.import_module("flwr.supernode.start_client_internal")
    monkeypatch.setattr(module, "_pull_and_store_message", module._pull_and_store_message)
    return module


class Coordinator:
    """Notes to which questions answers came."""

    def __init__(self, api: RuntimeApi, loop: Any) -> None:
        self._api, self._loop = api, loop
        self.answered: list[str] = []

    def look(self) -> bool:
        """A turn of Flower's loop that finds no question; whether it goes on to send an answer, for which it waits."""
        run = self._loop._pull_and_store_message(
            state=self._api.state, object_store=self._api.state.object_store, node_config={}, receive=lambda: None,
            get_run=None, get_fab=None, pull_object=None, confirm_message_received=None, trusted_entities=None,
        )  # fmt: skip
        if run is not None:
            self.send()
        return run is not None

    def send(self) -> None:
        """The loop's other step."""
        state = self._api.state
        self._loop._push_messages(
            state=state, object_store=state.object_store, send=self._send, push_object=lambda *_: None
        )

    def _send(self, message: Message, *_: object) -> tuple[set[str], str]:
        self.answered.append(message.metadata.reply_to_message_id)
        return set(), ""


def answer(api: RuntimeApi, question: Message) -> str:
    """What an agent does that has answered."""
    reply = Message(RecordDict(), reply_to=question)
    reply.metadata.__dict__["_message_id"] = reply.object_id
    api.state.object_store.preregister(question.metadata.run_id, get_object_tree(reply))
    api.state.store_message(reply)
    return question.metadata.message_id


def test_an_answer_that_nobody_waits_for_leaves_at_the_next_look(api: RuntimeApi, loop: Any) -> None:
    coordinator = Coordinator(api, loop)
    name = answer(api, api.ask(odd_record()))
    assert not coordinator.look()  # as Flower alone does
    send_late_answers()
    assert coordinator.look()
    assert coordinator.answered == [name]
    assert not coordinator.look()


def test_where_there_is_no_answer_nothing_waits_for_one(api: RuntimeApi, loop: Any) -> None:
    send_late_answers()
    api.ask(odd_record())
    assert not Coordinator(api, loop).look()


def test_the_question_after_a_lost_one_is_answered_in_its_own_round(api: RuntimeApi, loop: Any) -> None:
    """The first is answered although it was given up, so the loop sends that in place of the second's answer."""
    send_late_answers()
    coordinator = Coordinator(api, loop)
    lost = answer(api, api.ask(odd_record()))
    second = api.ask(odd_record())
    coordinator.send()
    assert coordinator.answered == [lost]
    name = answer(api, second)
    assert coordinator.look()
    assert coordinator.answered == [lost, name]


def test_flowers_loop_still_takes_the_step_that_is_replaced(loop: Any) -> None:
    names = loop.start_client_internal.__code__.co_names
    assert {"_pull_and_store_message", "_push_messages"} <= set(names)
