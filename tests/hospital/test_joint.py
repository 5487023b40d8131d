"""The joint labeler at real silos: what was approved is added once, charged once, and drawn from a secure source."""

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, Message, RecordDict
from syrupy.assertion import SnapshotAssertion

from client_app.main import app
from fedct_flwr.config import SiloConfig
from fedct_flwr.datasets.federated import Query
from fedct_flwr.hospital.gate import Held
from fedct_flwr.hospital.log_entry import Event
from fedct_flwr.kinds.joint import GRADIENTS, STEPS
from fedct_flwr.privacy.ledger import Ledger, common_budget
from fedct_flwr.secure_sum.coordinator import SecureSum
from fedct_flwr.secure_sum.faults import SumRefused
from fedct_flwr.secure_sum.terms import Shape
from fedct_flwr.silo.context import gated
from fedct_flwr.silo.noisy_sum import joint_labeler
from fedct_flwr.silo.release import DATA_SET
from fedct_flwr.silo.site import joint_of
from fedct_flwr.wire.codec import decode_reply, encode_instruction
from fedct_flwr.wire.content import Instruction, Joint
from fedct_flwr.wire.messages import from_record, to_record
from fedct_flwr.wire.refusal import Refusal
from tests.hospital.gates import CODE, RUN
from tests.hospital.test_adding import Hospital, opened, summed
from tests.hospitals import STUDY

pytestmark = pytest.mark.usefixtures("in_a_run")

AGREED = "\n[joint]\nrecords = 500\n"
NODE = 3


@pytest.fixture
def hospitals(tmp_path: Path) -> Iterator[dict[str, Hospital]]:
    with ExitStack() as stack:
        yield opened(tmp_path, stack, agreed=AGREED, kinds=["joint"])


def plan(hospital: Hospital) -> Joint:
    found = joint_of(hospital.silo.study)
    assert found is not None
    return found


def step(hospital: Hospital, number: int = 1, **changes: Any) -> Instruction:
    """The question of a step, from weights of zero."""
    study = hospital.silo.study
    joint = plan(hospital)._replace(**changes)
    if "weights" not in changes:
        joint = joint._replace(weights=joint_labeler(joint, study.public, study.schema).start.weights)
    nothing = np.full(len(study.public), -1, dtype=np.int16)
    return Instruction(number, Query(0, len(study.public)), nothing, joint=joint)


def shape_of(hospital: Hospital, question: Instruction) -> Shape:
    asked = encode_instruction(question, hospital.silo.terms)
    return GRADIENTS.shape(question, hashlib.sha256(asked).digest())


def ask(hospital: Hospital, question: Instruction, run: int = RUN) -> bytes | Refusal:
    """The client app answers what the gate lets in; the gate lets the answer out."""
    silo = hospital.silo
    try:
        payload = hospital.gate.admit(to_record(encode_instruction(question, silo.terms)), run, CODE)
    except Held as held:
        return held.reason
    path = silo.config.study.parent / "silo.toml"
    message = Message(to_record(payload), NODE, "train")
    with gated() as later:
        answer = app(message, Context(run, NODE, {"silo-file": str(path)}, RecordDict(), {}))
    left = hospital.gate.release(answer.content, payload, run, CODE)
    for work in later:
        work()
    assert left is not None
    reply = from_record(left)
    refused = decode_reply(reply, silo.terms, question).outcome
    return refused if isinstance(refused, Refusal) else reply


def total(hospitals: dict[str, Hospital], question: Instruction) -> SecureSum:
    return summed(hospitals, shape_of(next(iter(hospitals.values())), question))


def kept(hospital: Hospital, question: Instruction) -> np.ndarray[Any, Any]:
    """The silo's part of a sum, as it keeps it."""
    assert hospital.gate._adding is not None
    return hospital.gate._adding[1].ready.vector(shape_of(hospital, question))


def charges(hospital: Hospital) -> int:
    with Ledger(hospital.silo.config.state) as ledger:
        found = ledger.spent(STUDY, DATA_SET)
    assert found is not None
    return found.charges


def test_a_step_is_charged_to_the_budget_over_all_studies_too(hospitals: dict[str, Hospital]) -> None:
    refused, covered = hospitals["zurich"], hospitals["cleveland"]
    for hospital, epsilon in ((refused, 0.001), (covered, 5.0)):
        path = hospital.silo.config.study.parent / "silo.toml"
        path.write_text(
            path.read_text() + f'\n[records]\nfolder = "../of-{hospital.silo.config.silo}"\nepsilon = {epsilon}\n'
        )
    assert ask(refused, step(refused)) is Refusal.PRIVACY_BUDGET
    assert not isinstance(ask(covered, step(covered)), Refusal)
    budget = common_budget(SiloConfig.read_toml(covered.silo.config.study.parent / "silo.toml"))
    assert budget is not None
    assert budget.spent().upper > 0


def test_a_step_is_the_sum_of_what_silos_drew_and_each_is_charged_once(hospitals: dict[str, Hospital]) -> None:
    question = step(hospitals["zurich"])
    first = {name: ask(hospital, question) for name, hospital in hospitals.items()}
    drawn = {name: kept(hospital, question) for name, hospital in hospitals.items()}
    # Asked again, also in another run: the same bytes, and no other noise.
    assert {name: ask(hospital, question) for name, hospital in hospitals.items()} == first
    assert {name: ask(hospital, question, RUN + 1) for name, hospital in hospitals.items()} == first
    for name, hospital in hospitals.items():
        np.testing.assert_array_equal(kept(hospital, question), drawn[name])
        assert charges(hospital) == 1
    found = total(hospitals, question)
    np.testing.assert_array_equal(found.total, np.sum(list(drawn.values()), axis=0, dtype=np.uint64))
    with pytest.raises(SumRefused):
        total(hospitals, question)
    for hospital in hospitals.values():
        lines = list(hospital.gate._log.entries())
        assert len([line for line in lines if line.event is Event.ADDED and line.request]) == 1
        assert {line.kind for line in lines if line.event is Event.ADDED} == {"joint"}


@pytest.mark.parametrize(
    "changes",
    [{"honest": 3}, {"epsilon": 0.5}, {"epsilon": 5.0}, {"steps": 1}, {"records": 1}, {"columns": 13}],
)
def test_a_step_of_another_plan_than_the_approved_one_is_refused(
    hospitals: dict[str, Hospital], changes: dict[str, Any]
) -> None:
    weights = step(hospitals["zurich"]).joint
    assert weights is not None
    question = step(hospitals["zurich"], **changes, weights=weights.weights)
    assert ask(hospitals["zurich"], question) is Refusal.POLICY
    assert ask(hospitals["zurich"], step(hospitals["zurich"], seed=5)) is not Refusal.POLICY


def test_beyond_the_budget_nothing_is_ready_and_nothing_added(hospitals: dict[str, Hospital]) -> None:
    hospital = hospitals["zurich"]
    for number in range(1, STEPS + 1):
        assert isinstance(ask(hospital, step(hospital, number)), bytes)
    assert charges(hospital) == STEPS
    more = step(hospital, 1, seed=1)
    assert ask(hospital, more, RUN + 1) is Refusal.PRIVACY_BUDGET
    assert charges(hospital) == STEPS
    for other in hospitals.values():
        if other is not hospital:
            ask(other, more, RUN + 1)
    assert total(hospitals, more).summands == ("budapest", "cleveland", "long-beach")


def test_the_model_learns_the_labels_once_the_answer_has_left_whatever_becomes_of_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, wording: SnapshotAssertion
) -> None:
    with ExitStack() as stack:
        hospital = opened(tmp_path, stack, agreed=AGREED, kinds=["joint"])["zurich"]
        path = hospital.silo.config.study.parent / "silo.toml"
        learner = 'name = "tests.federation.learners.Raising"\npackages = ["tests"]'
        path.write_text(path.read_text().replace('name = "logistic-regression"', learner))
        question = replace(step(hospital, STEPS + 1, weights=None), targets=np.zeros(228, dtype=np.int16))
        assert isinstance(ask(hospital, question), bytes)
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == wording
