"""FedAvg, the baseline that shares weights: the same silos, data, network and steps, without a consensus."""

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, Context, Message, RecordDict
from safetensors.numpy import load_file
from syrupy.assertion import SnapshotAssertion

from client_app.main import app as client_app
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.wire.messages import to_reply, to_weights
from tests.federation.conftest import Federation
from tests.federation.learners import SECRET

FEDAVG: dict[str, Any] = {
    "algorithm": "fedavg",
    "learner": "tests.federation.learners.network",
    "learner_params": "{}",
    "local_steps": 5,
    "learning_rate": 0.01,
    "num_server_rounds": 3,
    "device": "cpu",
}
FAULTY = 1  # budapest


def global_weights(folder: RunFolder) -> dict[str, Any]:
    stored = load_file(folder.models / "global.safetensors")
    prefix = "network."
    return {name.removeprefix(prefix): value for name, value in stored.items() if name.startswith(prefix)}


def raises(message: Message, context: Context) -> Message:
    raise ValueError(SECRET)


def sends(change: Callable[[dict[str, Any]], dict[str, Any]], num_examples: int = 1) -> Any:
    def behave(message: Message, context: Context) -> Message:
        weights = change(to_weights(message.content.array_records["arrays"]))
        return Message(to_reply("budapest", weights, num_examples), reply_to=message)

    return behave


def refuses(message: Message, context: Context) -> Message:
    context.run_config["learner"] = "tests.federation.learners.Raising"
    return client_app(message, context)


@pytest.mark.parametrize(
    "behave",
    [
        raises,
        refuses,
        sends(lambda weights: {name: value * np.nan for name, value in weights.items()}),
        sends(lambda weights: {name: value[:1] for name, value in weights.items()}),
        sends(lambda weights: {"other": np.zeros(3)}),
        sends(lambda weights: weights, num_examples=0),
        lambda message, context: Message(RecordDict({"arrays": ArrayRecord([np.zeros(3)])}), reply_to=message),
        lambda message, context: Message(RecordDict(), reply_to=message),
    ],
    ids=["raises", "refuses", "nan", "other shapes", "other names", "weighs nothing", "nameless", "empty"],
)
def test_a_silo_that_fails_is_left_out_and_its_words_go_no_further(
    federation: Federation, caplog: pytest.LogCaptureFixture, behave: Any, wording: SnapshotAssertion
) -> None:
    def in_the_second_round(message: Message, context: Context) -> Message:
        return (behave if message.metadata.group_id == "2" else client_app)(message, context)

    federation.behave[FAULTY] = in_the_second_round
    with caplog.at_level(logging.INFO, "flwr"):
        folder = federation.run(**{**FEDAVG, "num_server_rounds": 2})
    first, entry = folder.rounds()
    assert first["absent"] == {}
    assert list(entry["silos"]) == ["cleveland", "long-beach", "zurich"]
    assert entry["absent"] == wording
    assert SECRET not in (folder.path / "rounds.jsonl").read_text()
    if behave is not refuses:  # here the silo's own log is the coordinator's
        assert SECRET not in caplog.text
