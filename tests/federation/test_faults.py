"""Silos that raise, hang or send garbage in the middle of a run: the others finish, and nothing leaks."""

import json
import logging
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, Message, RecordDict
from syrupy.assertion import SnapshotAssertion

from client_app.main import app as client_app
from fedct_flwr.runs.run_folder import Checkpoint, RunFolder
from fedct_flwr.types import RunError
from fedct_flwr.wire.messages import to_record
from tests.federation.conftest import Federation
from tests.federation.learners import SECRET
from tests.sentences import sentence

FAULTY = 2
NAME = "zurich"


def absences(folder: RunFolder) -> list[dict[str, str]]:
    return [entry["absent"] for entry in folder.rounds()]


def from_round(number: int, behave):  # type: ignore[no-untyped-def]
    """The silo behaves well before this round."""

    def act(message: Message, context: Context) -> Message:
        healthy = int(message.metadata.group_id) < number
        return (client_app if healthy else behave)(message, context)

    return act


def raises(message: Message, context: Context) -> Message:
    raise RuntimeError(SECRET)


def sends(content: RecordDict) -> Any:
    return lambda message, context: Message(content, reply_to=message)


@pytest.mark.parametrize(
    "behave",
    [raises, sends(RecordDict()), sends(to_record(b"\xff" * 100))],
    ids=["raises", "sends nothing", "sends noise"],
)
def test_the_run_goes_on_without_a_silo_that_raises_or_sends_garbage(
    federation: Federation, caplog: pytest.LogCaptureFixture, behave: Any
) -> None:
    logging.getLogger("flwr").propagate = True
    federation.behave[FAULTY] = from_round(2, behave)
    folder = federation.run(stop_at_fixed_point=False)
    assert [set(absent) for absent in absences(folder)] == [set(), {NAME}, {NAME}]
    assert f"without {NAME}" in caplog.text
    assert SECRET not in caplog.text
    assert SECRET not in (folder.path / "rounds.jsonl").read_text()


def test_without_a_quorum_the_run_fails_with_one_sentence_and_keeps_its_checkpoint(
    federation: Federation, wording: SnapshotAssertion
) -> None:
    federation.behave = {0: from_round(2, raises), 1: from_round(2, raises)}
    assert sentence(RunError, federation.run, min_silos=3, stop_at_fixed_point=False) == wording
    folder = RunFolder(federation.path / "run")
    assert folder.load_checkpoint().round == 1
    result = folder.read_json("result.json")
    assert result["status"] == "failed"
    assert "min-silos is 3" in result["reason"]
    federation.behave = {}
    assert len(federation.run(min_silos=3, resume=True, num_server_rounds=2).rounds()) == 2


def test_a_simulation_with_too_few_supernodes_is_refused(federation: Federation) -> None:
    with pytest.raises(RunError, match=r'3 SuperNodes for 4 silos: .*"num-supernodes=4"'):
        federation.run(silos=3, num_server_rounds=1)


def test_a_run_folder_that_cannot_be_written_to_fails_with_one_sentence(federation: Federation, tmp_path) -> None:  # type: ignore[no-untyped-def]
    def fill(message: Message, context: Context) -> Message:
        # Whatever the reason, a folder that is gone cannot be written to.
        (federation.path / "run").rename(federation.path / "elsewhere")
        return client_app(message, context)

    federation.behave[0] = from_round(2, fill)
    with pytest.raises(RunError, match=r"cannot write .* then resume the run"):
        federation.run(stop_at_fixed_point=False)
    assert json.loads((federation.path / "elsewhere" / "rounds.jsonl").read_text().splitlines()[0])["round"] == 1


# --- a run that ended between answers and checkpoint


NETWORKS: dict[str, Any] = {
    "learner": "tests.federation.learners.network,tests.federation.learners.network,decision-tree,decision-tree",
    "learner_params": "{}",
    "local_steps": 5,
    "learning_rate": 0.02,
    "save_models": True,
    "report_scores": True,
}
LABELS: dict[str, Any] = {**NETWORKS, "algorithm": "fedct"}
PROBABILITIES: dict[str, Any] = {**NETWORKS, "algorithm": "prediction-consensus", "trust": "dynamic"}


class Killed(Exception):
    """In place of the signal that ends a process."""


def models(folder: RunFolder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.models.iterdir() if path.suffix == ".safetensors"}


@pytest.mark.parametrize("settings", [LABELS, PROBABILITIES], ids=["labels", "probabilities"])
@pytest.mark.parametrize("times", [1, 2])
def test_killed_between_answers_and_checkpoint(
    settings: dict[str, Any], times: int, federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = federation.run(**settings, run_dir=str(federation.path / "whole"))

    def killed(folder: RunFolder, checkpoint: Checkpoint) -> None:
        if checkpoint.round == 2:
            raise Killed
        save(folder, checkpoint)

    save = RunFolder.save_checkpoint
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "save_checkpoint", killed)
        for resume in range(times):
            with pytest.raises(Killed):
                federation.run(**settings, resume=bool(resume))
    resumed = federation.run(**settings, resume=True)
    first, second = resumed.load_checkpoint(), whole.load_checkpoint()
    assert first.round == second.round == 3
    np.testing.assert_array_equal(first.targets, second.targets)
    assert first.state.keys() == second.state.keys()
    for name, value in first.state.items():
        np.testing.assert_array_equal(value, second.state[name])
    assert len(models(resumed)) == 2
    assert models(resumed) == models(whole)
    scores = [
        [{name: silo["scores"] for name, silo in entry["silos"].items()} for entry in folder.rounds()]
        for folder in (resumed, whole)
    ]
    assert scores[0] == scores[1]


def test_networks_that_were_not_kept_cannot_go_on(federation: Federation) -> None:
    settings = {**LABELS, "save_models": False}
    federation.run(**settings, num_server_rounds=2)
    with pytest.raises(RunError, match=r"networks of this run were not kept \(save-models = false\)"):
        federation.run(**settings, resume=True)
    # Nobody is asked any more: there is nothing to go on with.
    federation.run(**settings, num_server_rounds=2, resume=True, student="decision-tree")
