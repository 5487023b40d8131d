"""An agent with a Flower app that means harm, or that is asked by a coordinator that does."""

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict

from fedct_flwr.hospital import agent
from fedct_flwr.hospital.agent import run_agent
from fedct_flwr.hospital.app_code import AppError
from fedct_flwr.hospital.app_gate import FIRST_CODE
from fedct_flwr.hospital.log_entry import LOG_FILE, Event
from fedct_flwr.types import ConfigError, Refusal
from tests.hospital.agents import InThread
from tests.hospital.apps import SKLEARN, AppOnDisk, good_reply
from tests.hospital.runtime_api import SECRET, RuntimeApi

ODD = """
import sys
import numpy as np
from flwr.app import *
from flwr.clientapp import ClientApp

app = ClientApp()

@app.train()
def train(message, context):
    do = message.content["config"]["do"]
    if do == "raise":
        raise ValueError("Erika Mustermann is ill")
    if do == "exit":
        sys.exit("Erika Mustermann is ill")
    # Metadata of the question, from which that of the reply follows.
    message.metadata.group_id = "Erika Mustermann"
    message.metadata.__dict__["_message_id"] = "Erika Mustermann"
    assert context.node_config == {"data": context.node_config["data"]}
    context.state["seen"] = MetricRecord({"times": context.state.get("seen", {"times": 0})["times"] + 1})
    arrays = ArrayRecord({"0": Array(np.ones((1, 3))), "1": Array(np.zeros(1))})
    metrics = MetricRecord({"num-examples": context.state["seen"]["times"], "train-loss": 0.5})
    reply = Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)
    if do == "text":
        reply.content["note"] = ConfigRecord({"text": "Erika Mustermann is ill"})
    if do == "error":
        reply = Message(Error(1, "Erika Mustermann is ill"), reply_to=message)
    if do == "nothing":
        return None
    reply.metadata.group_id = "Erika Mustermann"
    return reply
"""


class Odd(AppOnDisk, InThread):
    """A silo with an app that does what the message says, its agent, and its SuperNode's API."""

    def __init__(self, folder: Path) -> None:
        self.api = RuntimeApi()
        super().__init__(folder, connection={"supernode": self.api.address})
        self.config.connection.secret.write_bytes(SECRET)
        self.code = folder / "code" / "odd_app.py"
        self.code.parent.mkdir()
        self.code.write_text(ODD)
        self.write({**SKLEARN, "client": "odd_app:app", "messages-a-run": 20})

    def ask(self, do: str, *, kind: str = "train", size: int = 1) -> Message:
        """The reply to a message."""
        arrays = ArrayRecord({str(number): Array(good_reply()["arrays"]["0"].numpy()) for number in range(size)})
        asked = self.api.ask(RecordDict({"arrays": arrays, "config": ConfigRecord({"do": do})}), message_type=kind)
        reply = self.api.reply()
        assert reply.metadata.reply_to_message_id == asked.metadata.message_id
        assert (reply.metadata.group_id, reply.metadata.message_type) == ("1", kind)
        return reply


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Odd]:
    monkeypatch.setattr(agent, "_MAX_REFUSAL_SECONDS", 0.01)
    monkeypatch.setattr("fedct_flwr.flower.runtime_client._BEAT_SECONDS", 0.05)
    silo = Odd(tmp_path)
    monkeypatch.syspath_prepend(silo.code.parent)
    silo.approve()
    yield silo
    silo.end_agent()
    silo.api.close()
    sys.modules.pop("odd_app", None)


def reason(reply: Message) -> Refusal:
    found = Refusal.from_number(reply.error.code - FIRST_CODE)
    assert reply.error.reason == found.sentence
    return found


def test_an_app_that_means_harm_sends_no_word(odd: Odd) -> None:
    odd.start_agent(odd.file)
    for do, why in (
        ("raise", Refusal.INTERNAL), ("exit", Refusal.INTERNAL), ("text", Refusal.POLICY), ("error", Refusal.POLICY),
        ("nothing", Refusal.POLICY),
    ):  # fmt: skip
        assert reason(odd.ask(do)) is why
    reply = odd.ask("well")
    assert list(reply.content) == ["arrays", "metrics"]
    # Its own state lasts from message to message: raise and exit came before it was written.
    assert reply.content["metrics"]["num-examples"] == 4
    log = (odd.config.state / LOG_FILE).read_text()
    assert "Erika" not in log
    assert [line.round for line, _ in odd.released()] == [6]


def test_a_coordinator_gets_no_other_message_through(odd: Odd) -> None:
    odd.start_agent(odd.file)
    assert reason(odd.ask("well", kind="query")) is Refusal.POLICY
    assert reason(odd.ask("well", kind="train.other")) is Refusal.POLICY
    # The app's sentence about a message that it does not understand stays here.
    assert reason(odd.ask("well" * 300_000)) is Refusal.INTERNAL
    assert odd.ask("well", size=100).has_content(), "more arrays than a message of labels has parts"
    assert any("which is not executed" in said for said in odd.said)


def test_changed_code_shuts_the_gate_until_it_is_approved(odd: Odd) -> None:
    odd.start_agent(odd.file)
    odd.code.write_text(ODD + "\n")
    assert reason(odd.ask("well")) is Refusal.NOT_APPROVED
    odd.code.write_text(ODD)
    assert odd.ask("well").has_content()


@pytest.mark.parametrize(
    ("client", "code"),
    [
        ("not_there:app", ODD), ("odd_app.sub:app", ODD), ("odd_app:other", ODD), ("odd_app:train", ODD),
        ("odd_app:app", "import sys; sys.exit('Erika')"), ("odd_app:app", "raise ValueError('Erika')"),
        ("odd_app:app", "import not_there_either"), ("odd_app:app", "def"), ("sys:path", ODD),
    ],
)  # fmt: skip
def test_an_app_that_cannot_be_imported_is_one_sentence_before_anything_is_written(
    odd: Odd, client: str, code: str
) -> None:
    odd.code.write_text(code)
    odd.write({**SKLEARN, "client": client})
    before = sorted(path for path in odd.folder.rglob("*") if "code" not in path.parts)
    with pytest.raises(AppError) as failed:
        run_agent(odd.file, stop=threading.Event(), say=print)
    sentence = str(failed.value)
    assert client in sentence
    assert "Erika" not in sentence
    assert "\n" not in sentence
    assert sorted(path for path in odd.folder.rglob("*") if "code" not in path.parts) == before
    assert [entry.event for entry in odd.entries()] == [Event.APPROVED]
    assert isinstance(failed.value, ConfigError)
