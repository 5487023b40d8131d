"""What a silo answers, asked directly: once per round, always in the same words, and never with an exception."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.supercore.task_identity import TaskIdentity
from safetensors.torch import load

from client_app.main import app
from client_app.site import open_site
from fedct_flwr.config import RunConfig
from fedct_flwr.public_set import Query
from fedct_flwr.run_folder import RunFolder
from fedct_flwr.wire.codec import Instruction, Reply, Terms, decode_reply, encode_instruction
from fedct_flwr.wire.messages import from_record, to_record
from fedct_flwr.wire.refusal import Refusal

SETTINGS: dict[str, Any] = {"study": "test", "data": "heart-disease", "learner": "decision-tree", "save-models": False}


class Silo:
    """One silo and what it keeps; ``ask`` sends it a message and returns the payload of its reply."""

    def __init__(self, node_config: dict[str, Any], run_id: int = 1, **settings: Any) -> None:
        self.context = Context(run_id, 7, node_config, RecordDict(), {**SETTINGS, **settings})
        self.terms = open_site(RunConfig.from_flower(SETTINGS), "cleveland").terms

    def ask(self, content: RecordDict) -> bytes:
        reply = app(Message(content, dst_node_id=7, message_type="train"), self.context)
        assert not reply.has_error()
        return from_record(reply.content)

    def instruction(self, number: int = 1, label: int = -1) -> Instruction:
        targets = np.full(self.terms.num_public, label, dtype=np.int16)
        return Instruction(number, Query(0, self.terms.num_public), targets)

    def outcome(self, instruction: Instruction, terms: Terms | None = None) -> Any:
        payload = self.ask(to_record(encode_instruction(instruction, terms or self.terms)))
        return decode_reply(payload, self.terms, instruction).outcome


@pytest.fixture(autouse=True)
def _identity(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"_task_id": 1, "_run_id": 1, "_node_id": SUPERLINK_NODE_ID}.items():
        monkeypatch.setattr(TaskIdentity, name, value)


@pytest.fixture(params=["context", "folder"])
def silo(request: pytest.FixtureRequest, tmp_path: Path) -> Silo:
    """A silo that keeps its state in Flower's context, and one that keeps it on disk."""
    node: dict[str, Any] = {"silo": "cleveland"}
    return Silo(node | ({"state-dir": str(tmp_path / "state")} if request.param == "folder" else {}))


def test_a_question_asked_twice_gets_the_same_bytes_without_training(silo: Silo) -> None:
    question = to_record(encode_instruction(silo.instruction(), silo.terms))
    first = silo.ask(question)
    # A silo that trained again would now give other labels or fail.
    silo.context.run_config["learner-params"] = '{"max_depth": 1}'
    assert silo.ask(question) == first


def test_a_round_that_was_answered_is_not_answered_again_with_other_targets(silo: Silo) -> None:
    silo.outcome(silo.instruction(number=2))
    assert silo.outcome(silo.instruction(number=2, label=1)) is Refusal.ROUND
    assert silo.outcome(silo.instruction(number=1)) is Refusal.ROUND
    assert isinstance(silo.outcome(silo.instruction(number=3)), np.ndarray)


def test_state_on_disk_outlives_the_process_and_keeps_runs_apart(tmp_path: Path) -> None:
    node = {"silo": "cleveland", "state-dir": str(tmp_path / "state")}
    before, after, other_run = Silo(node), Silo(node), Silo(node, run_id=2)
    before.outcome(before.instruction(number=2))
    assert after.outcome(after.instruction(number=1)) is Refusal.ROUND
    assert isinstance(other_run.outcome(other_run.instruction(number=1)), np.ndarray)


def test_a_silo_with_a_folder_keeps_its_model_there_and_nowhere_else(tmp_path: Path) -> None:
    silo = Silo({"silo": "cleveland", "state-dir": str(tmp_path / "state")}, **{"run-dir": str(tmp_path / "run")})
    silo.outcome(silo.instruction())
    assert (tmp_path / "state" / "test.skops").exists()
    assert not (tmp_path / "run").exists()


def test_a_named_silo_writes_nothing_to_a_path_that_the_coordinator_chose(tmp_path: Path) -> None:
    silo = Silo({"silo": "cleveland"}, **{"run-dir": str(tmp_path / "run"), "save-models": True})
    silo.outcome(silo.instruction())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"study": "another"}, Refusal.STUDY),
        ({"public_fingerprint": bytes(32)}, Refusal.FINGERPRINT),
        ({"classes": ("diseased", "healthy")}, Refusal.CLASSES),
        ({"num_public": 229}, Refusal.QUERY),
    ],
)
def test_an_instruction_under_other_terms_is_refused(silo: Silo, change: dict[str, Any], reason: Refusal) -> None:
    terms = Terms(**{**vars(silo.terms), **change})
    size = terms.num_public
    instruction = Instruction(1, Query(0, size), np.full(size, -1, dtype=np.int16))
    assert silo.outcome(instruction, terms) is reason


@pytest.mark.parametrize(
    "content",
    [RecordDict(), to_record(b"\x00"), to_record(b"noise" * 50), RecordDict({"fedct": ConfigRecord({"payload": 1})})],
)
def test_garbage_is_refused_without_an_exception(silo: Silo, content: RecordDict) -> None:
    payload = silo.ask(content)
    assert decode_reply(payload, silo.terms, silo.instruction()).outcome is Refusal.MALFORMED


@pytest.mark.parametrize(
    ("settings", "node", "reason"),
    [
        ({"learnr": "svm"}, {}, Refusal.CONFIG),
        ({"learner": "no-such-learner"}, {}, Refusal.CONFIG),
        ({"data": "no-such-data"}, {}, Refusal.CONFIG),
        ({}, {"silo": ""}, Refusal.CONFIG),
        ({}, {"sillo": "cleveland"}, Refusal.CONFIG),
        ({}, {"silo": "atlantis"}, Refusal.NO_DATA),
        ({"learner": "tests.federation.learners.Raising"}, {"learner-packages": "tests"}, Refusal.TRAINING_FAILED),
        ({"learner": "tests.federation.learners.Raising"}, {}, Refusal.CONFIG),
        ({"data": "files", "data-dir": "/", "label-column": "y"}, {}, Refusal.CONFIG),
    ],
)
def test_whatever_is_wrong_at_the_silo_travels_as_a_number(
    settings: dict[str, Any], node: dict[str, Any], reason: Refusal
) -> None:
    silo = Silo({"silo": "cleveland", **node}, **settings)
    payload = silo.ask(to_record(encode_instruction(silo.instruction(), silo.terms)))
    reply: Reply = decode_reply(payload, silo.terms, silo.instruction())
    assert reply.outcome is reason
    assert len(payload) < 20


def test_a_full_disk_at_the_silo_costs_the_answer_but_no_exception(tmp_path: Path) -> None:
    silo = Silo({"silo": "cleveland", "state-dir": str(tmp_path / "state")})
    silo.outcome(silo.instruction())
    (tmp_path / "state").rename(tmp_path / "gone")
    (tmp_path / "state").write_text("not a folder")
    assert silo.outcome(silo.instruction(number=2)) is Refusal.INTERNAL


def test_silos_answer_differently_only_because_their_data_differs() -> None:
    votes = []
    for name in ("cleveland", "budapest", "zurich", "long-beach"):
        silo = Silo({"silo": name})
        votes.append(silo.outcome(silo.instruction()).tobytes())
    assert all(a != b for a, b in itertools.combinations(votes, 2))


def test_a_named_silo_tells_its_scores_only_if_its_own_node_allows_it() -> None:
    def scores(**node: Any) -> Any:
        silo = Silo({"silo": "cleveland", **node}, **{"report-scores": True})
        instruction = silo.instruction()
        payload = silo.ask(to_record(encode_instruction(instruction, silo.terms)))
        return decode_reply(payload, silo.terms, instruction).scores

    assert scores() is None
    assert scores(**{"allow-scores": True}) is not None


def test_a_simulated_silo_writes_only_to_a_folder_where_a_run_was_begun(tmp_path: Path) -> None:
    settings = {"run-dir": str(tmp_path / "run"), "save-models": True}
    silo = Silo({"partition-id": 0}, **settings)
    silo.outcome(silo.instruction())
    assert list(tmp_path.iterdir()) == []
    RunFolder.create(tmp_path / "run", {}, {}).close()
    silo.outcome(silo.instruction(number=2))
    assert (tmp_path / "run" / "models" / "cleveland.skops").exists()


def test_a_model_that_cannot_be_written_leaves_none_of_an_earlier_round(tmp_path: Path) -> None:
    silo = Silo({"silo": "cleveland", "state-dir": str(tmp_path / "state"), "learner-packages": "tests"})
    silo.outcome(silo.instruction())
    assert (tmp_path / "state" / "test.skops").exists()
    silo.context.run_config["learner"] = "tests.federation.learners.Unwritable"
    assert isinstance(silo.outcome(silo.instruction(number=2)), np.ndarray)
    assert not (tmp_path / "state" / "test.skops").exists()


def test_a_network_goes_on_from_its_model_when_the_run_was_resumed(tmp_path: Path) -> None:
    network = {"learner": "tests.federation.learners.network", "local-steps": 5, "batch-size": 16}
    node = {"silo": "cleveland", "state-dir": str(tmp_path / "state"), "learner-packages": "tests"}

    def steps(run_id: int, number: int, resume: bool = False) -> int:
        silo = Silo(node, run_id, **network, resume=resume)
        silo.outcome(silo.instruction(number))
        return int(load((tmp_path / "state" / "test.safetensors").read_bytes())["steps"])

    assert [steps(1, 1), steps(1, 2), steps(2, 3, resume=True)] == [5, 10, 15]
    # In a new run of the same study it begins anew, also if it is late.
    assert [steps(3, 1), steps(4, 2)] == [5, 5]


WEIGHTS = RecordDict({"arrays": ArrayRecord([np.zeros(3)]), "config": ConfigRecord()})


def test_a_silo_of_its_own_hands_out_no_weights_and_trains_on_none(silo: Silo) -> None:
    silo.context.run_config["learner"] = "tests.federation.learners.network"
    silo.context.node_config["learner-packages"] = "tests"
    payload = silo.ask(WEIGHTS)
    assert decode_reply(payload, silo.terms, silo.instruction()).outcome is Refusal.WEIGHTS
    assert len(silo.context.state) == 0


def test_a_simulated_silo_without_weights_has_none_to_hand_out() -> None:
    silo = Silo({"partition-id": 0})
    assert decode_reply(silo.ask(WEIGHTS), silo.terms, silo.instruction()).outcome is Refusal.WEIGHTS
