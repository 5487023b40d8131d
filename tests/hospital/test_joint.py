"""The joint labeler at real silos: what was approved is added once, charged once, and drawn from a secure source."""

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.hospital.log_entry import Event
from fedct_flwr.labelers.joint_linear import joint_labeler
from fedct_flwr.privacy.ledger import common_budget
from fedct_flwr.secure_sum.coordinator import SecureSum
from fedct_flwr.secure_sum.terms import Shape, SumRefused, shape_of_records
from fedct_flwr.types import Refusal
from fedct_flwr.wire.codec import encode_instruction
from fedct_flwr.wire.content import STEPS, Instruction, Joint, Query
from fedct_flwr.wire.sums import GRADIENTS
from tests.hospital.gates import RUN
from tests.hospital.test_adding import Hospital, opened, summed

pytestmark = pytest.mark.usefixtures("in_a_run")

AGREED = "\n[joint]\nrecords = 500\n"


@pytest.fixture
def hospitals(tmp_path: Path) -> Iterator[dict[str, Hospital]]:
    with ExitStack() as stack:
        yield opened(tmp_path, stack, agreed=AGREED, kinds=["joint"])


def plan(hospital: Hospital) -> Joint:
    found = hospital.silo.study.joint
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
    return shape_of_records(GRADIENTS, question, hashlib.sha256(asked).digest())


def total(hospitals: dict[str, Hospital], question: Instruction) -> SecureSum:
    return summed(hospitals, shape_of(next(iter(hospitals.values())), question))


def test_a_step_is_charged_to_the_budget_over_all_studies_too(hospitals: dict[str, Hospital]) -> None:
    refused, covered = hospitals["zurich"], hospitals["cleveland"]
    for hospital, epsilon in ((refused, 0.001), (covered, 5.0)):
        path = hospital.silo.config.study.parent / "silo.toml"
        path.write_text(
            path.read_text() + f'\n[records]\nfolder = "../of-{hospital.silo.config.silo}"\nepsilon = {epsilon}\n'
        )
    assert refused.ask(step(refused)) is Refusal.PRIVACY_BUDGET
    assert not isinstance(covered.ask(step(covered)), Refusal)
    budget = common_budget(SiloConfig.read_toml(covered.silo.config.study.parent / "silo.toml"))
    assert budget is not None
    assert budget.spent(1e-5).upper > 0


def test_a_step_is_the_sum_of_what_silos_drew_and_each_is_charged_once(hospitals: dict[str, Hospital]) -> None:
    question = step(hospitals["zurich"])
    first = {name: hospital.ask(question) for name, hospital in hospitals.items()}
    drawn = {name: hospital.kept(shape_of(hospital, question)) for name, hospital in hospitals.items()}
    # Asked again, also in another run: the same bytes, and no other noise.
    assert {name: hospital.ask(question) for name, hospital in hospitals.items()} == first
    assert {name: hospital.ask(question, RUN + 1) for name, hospital in hospitals.items()} == first
    for name, hospital in hospitals.items():
        np.testing.assert_array_equal(hospital.kept(shape_of(hospital, question)), drawn[name])
        assert hospital.charges() == 1
    found = total(hospitals, question)
    np.testing.assert_array_equal(found.total, np.sum(list(drawn.values()), axis=0, dtype=np.uint64))
    with pytest.raises(SumRefused):
        total(hospitals, question)
    for hospital in hospitals.values():
        lines = list(hospital.gate._log.entries())
        assert len([line for line in lines if line.event is Event.ADDED and line.request]) == 1
        assert {line.kind for line in lines if line.event is Event.ADDED} == {"joint"}


def test_a_step_of_another_plan_than_the_approved_one_is_refused(hospitals: dict[str, Hospital]) -> None:
    hospital = hospitals["zurich"]
    asked = step(hospital).joint
    assert asked is not None
    others: list[dict[str, Any]] = [
        {"honest": 3}, {"epsilon": 0.5}, {"epsilon": 5.0}, {"steps": 1}, {"records": 1}, {"columns": 13},
    ]  # fmt: skip
    for changes in others:
        assert hospital.ask(step(hospital, **changes, weights=asked.weights)) is Refusal.POLICY, changes
    assert hospital.ask(step(hospital, seed=5)) is not Refusal.POLICY


def test_beyond_the_budget_nothing_is_ready_and_nothing_added(hospitals: dict[str, Hospital]) -> None:
    hospital = hospitals["zurich"]
    for number in range(1, STEPS + 1):
        assert isinstance(hospital.ask(step(hospital, number)), bytes)
    assert hospital.charges() == STEPS
    more = step(hospital, 1, seed=1)
    assert hospital.ask(more, RUN + 1) is Refusal.PRIVACY_BUDGET
    assert hospital.charges() == STEPS
    for other in hospitals.values():
        if other is not hospital:
            other.ask(more, RUN + 1)
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
        assert isinstance(hospital.ask(question), bytes)
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == wording
