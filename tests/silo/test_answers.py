"""What a silo answers, asked directly: once per round, always in the same words, and never with an exception."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from safetensors.torch import load

from client_app.main import app
from fedct_flwr.config.run import RunConfig
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.silo.round import gated
from fedct_flwr.silo.simulated import simulated_site
from fedct_flwr.types import Refusal
from fedct_flwr.wire.codec import decode_reply, encode_instruction
from fedct_flwr.wire.content import Instruction, Query, Reply, Terms
from fedct_flwr.wire.messages import from_record, to_record
from tests.hospitals import STUDY, restart, write_silo_folder

pytestmark = pytest.mark.usefixtures("without_gate", "in_a_run")

SETTINGS: dict[str, Any] = {
    "study": STUDY, "data": STUDY, "learner": "decision-tree", "pseudo-weight": 1.0, "save-models": False,
}  # fmt: skip
SIMULATED: dict[str, Any] = {"partition-id": 0}
TREE = {"name": "decision-tree"}
NETWORK = {"name": "tests.federation.learners.network", "packages": ["tests"], "local-steps": 5, "batch-size": 16}


class Silo:
    """One silo and what it keeps; ``ask`` sends it a message and returns the payload of its reply."""

    def __init__(self, node_config: dict[str, Any], run_id: int = 1, **settings: Any) -> None:
        self.context = Context(run_id, 7, node_config, RecordDict(), {**SETTINGS, **settings})
        self.terms = simulated_site(RunConfig.from_flower(SETTINGS), 0).terms

    def ask(self, content: RecordDict) -> bytes:
        reply = app(Message(content, dst_node_id=7, message_type="train"), self.context)
        assert not reply.has_error()
        return from_record(reply.content)

    def instruction(self, number: int = 1, label: int = -1) -> Instruction:
        targets = np.full(self.terms.num_public, label, dtype=np.int16)
        return Instruction(number, Query(0, self.terms.num_public), targets)

    def reply(self, instruction: Instruction, terms: Terms | None = None) -> Reply:
        payload = self.ask(to_record(encode_instruction(instruction, terms or self.terms)))
        return decode_reply(payload, self.terms, instruction)

    def outcome(self, instruction: Instruction, terms: Terms | None = None) -> Any:
        return self.reply(instruction, terms).outcome


RealNode = Callable[..., dict[str, Any]]


@pytest.fixture
def real_node(tmp_path: Path) -> RealNode:
    """Writes a silo's folder and returns its node config; ``silo.toml`` may be written again with other settings."""

    def write(silo: str = "cleveland", **tables: dict[str, Any]) -> dict[str, Any]:
        path = write_silo_folder(tmp_path / silo, silo, **{"learner": TREE, **tables})
        restart()
        return {"silo-file": str(path)}

    return write


@pytest.fixture(params=["simulated", "real"])
def silo(request: pytest.FixtureRequest, real_node: RealNode) -> Silo:
    """A simulated silo, which keeps its state in Flower's context, and a real one, which keeps it on disk."""
    return Silo(dict(SIMULATED) if request.param == "simulated" else real_node())


def fail_from_now_on(silo: Silo, real_node: RealNode) -> None:
    """Let the silo's learner raise whenever it is trained."""
    silo.context.run_config["learner"] = "tests.federation.learners.Raising"
    if "silo-file" in silo.context.node_config:
        real_node(learner={"name": "tests.federation.learners.Raising", "packages": ["tests"]})


# --- once per round


def test_a_question_asked_twice_gets_the_same_bytes_without_training(silo: Silo, real_node: RealNode) -> None:
    question = to_record(encode_instruction(silo.instruction(), silo.terms))
    first = silo.ask(question)
    fail_from_now_on(silo, real_node)
    assert silo.outcome(silo.instruction(number=2)) is Refusal.TRAINING_FAILED
    assert silo.ask(question) == first


def test_a_round_that_was_answered_is_not_answered_again_with_other_targets(silo: Silo) -> None:
    silo.outcome(silo.instruction(number=2))
    restart()
    assert silo.outcome(silo.instruction(number=2, label=1)) is Refusal.ROUND
    assert silo.outcome(silo.instruction(number=1)) is Refusal.ROUND
    assert isinstance(silo.outcome(silo.instruction(number=3)), np.ndarray)


@pytest.mark.parametrize("learner", [TREE, NETWORK], ids=["tree", "network"])
def test_a_silo_that_was_stopped_in_a_round_answers_as_if_it_had_not_been(
    real_node: RealNode, tmp_path: Path, learner: dict[str, Any]
) -> None:
    node = real_node(learner=learner)
    silo = Silo(node)
    questions = [
        to_record(encode_instruction(silo.instruction(number, number % 2), silo.terms)) for number in (1, 2, 3)
    ]
    state = tmp_path / "cleveland" / "state"
    kept, answers = [], []
    for question in questions:
        answers.append(silo.ask(question))
        kept.append({path: path.read_bytes() for path in state.iterdir()})
    # Whatever was written last before the power went: nothing of the second round, or its answer and not its model.
    answered = {path: kept[1 if path.name.startswith("run-") else 0][path] for path in kept[0]}
    for found in (kept[0], answered):
        for path, content in found.items():
            path.write_bytes(content)
        restart()
        assert [silo.ask(question) for question in questions[1:]] == answers[1:]
    assert silo.ask(questions[2]) == answers[2]
    assert answers[0] != answers[1]


# --- models


@pytest.mark.parametrize("is_there", [False, True])
def test_a_real_silo_keeps_its_model_in_its_folder_and_not_where_the_coordinator_chose(
    real_node: RealNode, tmp_path: Path, is_there: bool
) -> None:
    run = tmp_path / "run"
    if is_there:
        RunFolder.create(run, {}, {}).close()
    before = sorted(run.rglob("*"))
    silo = Silo(real_node(), **{"run-dir": str(run), "save-models": True, "resume": is_there})
    silo.outcome(silo.instruction())
    assert (tmp_path / "cleveland" / "state" / "model-heart-disease.skops").exists()
    assert run.exists() is is_there
    assert sorted(run.rglob("*")) == before


def test_a_network_goes_on_from_its_model_when_the_run_was_resumed(real_node: RealNode, tmp_path: Path) -> None:
    node = real_node(learner=NETWORK)
    model = tmp_path / "cleveland" / "state" / "model-heart-disease.safetensors"

    def steps(run_id: int, number: int, resume: bool = False, label: int = -1) -> int:
        silo = Silo(node, run_id, resume=resume)
        silo.outcome(silo.instruction(number, label))
        return int(load(model.read_bytes())["steps"])

    assert [steps(1, 1), steps(1, 2), steps(2, 3, resume=True)] == [5, 10, 15]
    # In a new run of the same study it begins anew, also if it is late.
    assert [steps(3, 1), steps(4, 2, label=1)] == [5, 5]


# --- refusals


@pytest.mark.parametrize(
    ("tables", "reason"),
    [
        ({"learner": {"name": "no-such-learner"}}, Refusal.CONFIG),
        ({"learner": {"name": "tests.federation.learners.Raising"}}, Refusal.CONFIG),
        ({"learner": {"name": "tests.federation.learners.Raising", "packages": ["tests"]}}, Refusal.TRAINING_FAILED),
        ({"data": {"file": "nowhere.csv"}}, Refusal.NO_DATA),
        ({"data": {"mapping": {"0": "no-such-class"}}}, Refusal.NO_DATA),
        ({"policy": {"kinds": ["weights"]}}, Refusal.CONFIG),
    ],
)
def test_whatever_is_wrong_at_a_real_silo_travels_as_a_number(
    real_node: RealNode, tables: dict[str, Any], reason: Refusal
) -> None:
    refused_with(reason, Silo(real_node(**tables)))


@pytest.mark.parametrize("gone", ["silo.toml", "study", "study/study.toml", "study/public.csv", "data.csv"])
def test_whatever_is_missing_at_a_real_silo_travels_as_a_number(real_node: RealNode, tmp_path: Path, gone: str) -> None:
    silo = Silo(real_node())
    (tmp_path / "cleveland" / gone).rename(tmp_path / "gone")
    reason = Refusal.NO_DATA if gone.endswith(".csv") else Refusal.CONFIG
    refused_with(reason, silo)
    # Put back, it works without a restart: nothing was read that could be out of date.
    (tmp_path / "gone").rename(tmp_path / "cleveland" / gone)
    assert isinstance(silo.outcome(silo.instruction()), np.ndarray)


def refused_with(reason: Refusal, silo: Silo) -> None:
    payload = silo.ask(to_record(encode_instruction(silo.instruction(), silo.terms)))
    assert decode_reply(payload, silo.terms, silo.instruction()).outcome is reason
    assert len(payload) < 20


def test_a_full_disk_at_the_silo_costs_the_answer_but_no_exception(real_node: RealNode, tmp_path: Path) -> None:
    silo = Silo(real_node())
    silo.outcome(silo.instruction())
    state = tmp_path / "cleveland" / "state"
    state.rename(tmp_path / "gone")
    state.write_text("not a folder")
    assert silo.outcome(silo.instruction(number=2)) is Refusal.INTERNAL


def test_a_real_silo_hands_out_no_weights_and_trains_on_none(real_node: RealNode, tmp_path: Path) -> None:
    silo = Silo(real_node(learner=NETWORK), learner=NETWORK["name"])
    weights = RecordDict({"arrays": ArrayRecord([np.zeros(3)]), "config": ConfigRecord()})
    for content, reason in ((weights, Refusal.WEIGHTS), (to_record(b"noise" * 50), Refusal.MALFORMED)):
        assert decode_reply(silo.ask(content), silo.terms, silo.instruction()).outcome is reason
    assert len(silo.context.state) == 0
    assert list((tmp_path / "cleveland" / "state").iterdir()) == []


def test_a_real_silo_answers_nobody_but_its_agent(
    real_node: RealNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    silo = Silo(real_node())
    for value in ("", "0", "true", None):
        if value is None:
            monkeypatch.delenv("FEDCT_WITHOUT_GATE")
        else:
            monkeypatch.setenv("FEDCT_WITHOUT_GATE", value)
        monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)
        refused_with(Refusal.CONFIG, silo)
        assert "fedct silo start" in caplog.text
        caplog.clear()
    assert not (tmp_path / "cleveland" / "state").exists()
    # That an agent is at work in one thread says nothing for another.
    answers: list[Any] = []
    with gated():
        thread = threading.Thread(target=lambda: answers.append(silo.outcome(silo.instruction())))
        thread.start()
        thread.join()
        assert isinstance(silo.outcome(silo.instruction()), np.ndarray)
    assert answers == [Refusal.CONFIG]
    refused_with(Refusal.CONFIG, silo)


# --- answers


def test_an_answer_new_or_kept_has_scores_only_where_policy_and_run_want_them(real_node: RealNode) -> None:
    node, outcomes = real_node(policy={"metrics": True}), []
    runs: list[tuple[bool, Any]] = [(True, True), (True, False), (True, True), (False, True)]
    for run_id, (allowed, wanted) in enumerate([*runs, (True, "true"), (True, 1), (True, None)]):
        real_node(policy={"metrics": allowed})
        silo = Silo(node, run_id=run_id, **{"report-scores": wanted})
        outcome, scores = (reply := silo.reply(silo.instruction())).outcome, reply.scores
        outcomes.append(outcome)
        assert (scores is not None) is (allowed and wanted is True)
    assert all(np.array_equal(outcome, outcomes[0]) for outcome in outcomes)


def opted_out(real_node: RealNode, patients: int, **tables: Any) -> dict[str, Any]:
    """The node of a silo whose records are numbered, and so many of whose first patients have opted out."""
    node = real_node(**tables, data={"tables": {"group": "id"}}, records={"opt-out": "ids.csv"})
    folder = Path(node["silo-file"]).parent
    for name in ("data.csv", "test.csv"):
        table = pd.read_csv(folder / name)
        table.assign(id=range(len(table))).to_csv(folder / name, index=False)
    (folder / "ids.csv").write_text("\n".join(["id", *map(str, range(patients)), ""]), "utf-8")
    return node


def test_scores_do_not_tell_how_many_patients_opted_out(real_node: RealNode) -> None:
    for patients in (0, 1):
        silo = Silo(opted_out(real_node, patients, policy={"metrics": True}), **{"report-scores": True})
        scores = silo.reply(silo.instruction()).scores
        assert scores is not None
        assert all(score == round(score, 2) for score in scores)


@pytest.mark.parametrize("privacy", [{}, {"protection": "randomized-response", "epsilon": 400.0, "rounds": 1}])
def test_after_an_opt_out_only_a_paid_answer_leaves_again(real_node: RealNode, privacy: dict[str, Any]) -> None:
    answers = []
    for run_id, patients in enumerate((0, 0, 150)):
        silo = Silo(opted_out(real_node, patients, privacy=privacy), run_id)
        answers.append(silo.ask(to_record(encode_instruction(silo.instruction(), silo.terms))))
    assert answers[0] == answers[1]
    assert (answers[0] == answers[2]) is bool(privacy)


HOSTILE: list[dict[str, Any]] = [
    {"learner": "os.system", "learner-params": '{"command": "touch /tmp/hacked"}'},
    {"learner": "tests.federation.learners.Raising"},
    {"study": "another", "data": "breast-cancer", "partition": "dirichlet", "num-silos": 3},
    {"pseudo-weight": 1000.0, "local-steps": 1, "seed": 99, "preprocessing": "none", "device": "cuda:7"},
    {"no-such-key": 1, "resume": "perhaps", "run-dir": "/", "save-models": True},
]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_run_config_has_no_say_in_what_a_real_silo_answers(real_node: RealNode, hostile: dict[str, Any]) -> None:
    node = real_node()
    questions = [Silo(node).instruction(number, number - 2) for number in (1, 2)]

    def answers(run_id: int, **settings: Any) -> list[bytes]:
        silo = Silo(node, run_id, **settings)
        return [silo.ask(to_record(encode_instruction(question, silo.terms))) for question in questions]

    expected = answers(1)
    assert answers(2, **hostile) == expected
    restart()
    assert answers(3, **hostile) == expected
