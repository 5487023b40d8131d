"""What a silo answers that is asked for votes of its students: once, and charged for."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.types import Refusal
from fedct_flwr.wire.content import Instruction, Query, Soft
from tests.silo.real import TERMS, RealSilo

pytestmark = pytest.mark.usefixtures("without_gate", "in_a_run")

PROTECTED: dict[str, Any] = {
    "privacy": {"protection": "fedkt-l2", "epsilon": 7.0, "rounds": 1},
    # To look for the noise that keeps epsilon takes seconds.
    "transfer": {"gamma": 0.04},
}


def question(votes: int) -> Instruction:
    size = TERMS.num_public
    return Instruction(1, Query(5, size), np.full(size, -1, dtype=np.int16), votes)


@pytest.fixture
def silo(tmp_path: Path) -> RealSilo:
    return RealSilo(tmp_path / "cleveland", policy={"kinds": ["counts"]})


def test_too_few_records_are_refused_and_the_silos_own_log_says_how_many_teachers_fit(
    silo: RealSilo, caplog: pytest.LogCaptureFixture, wording: SnapshotAssertion
) -> None:
    silo.write(transfer={"teachers": 200})
    payload, outcome = silo.answer(question(2))
    assert outcome is Refusal.CONFIG
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == wording
    assert b"168" not in payload


def test_an_answer_is_charged_once_and_given_again_for_nothing(silo: RealSilo, monkeypatch: pytest.MonkeyPatch) -> None:
    silo.write(**PROTECTED)
    first, counts = silo.answer(question(1))
    assert (counts.sum(axis=1) == 1).all()
    assert silo.spent.charges == 1
    assert 5 < silo.spent.epsilon.upper <= 7
    monkeypatch.setattr("fedct_flwr.labelers.students.Transfer.answer", None)
    for answer in silo.state.glob("**/run-*"):
        answer.unlink()
    assert silo.answer(question(1))[0] == silo.answer(question(1), run=2)[0] == first
    assert silo.spent.charges == 1


@pytest.mark.parametrize(
    ("protection", "instruction", "asked_for"),
    [
        ("dp-linear", question(1), "votes of students"),
        ("randomized-response", question(1), "votes of students"),
        ("randomized-response", replace(question(0), soft=Soft()), "probabilities"),
    ],
)
def test_a_protection_of_labels_covers_no_other_answer(
    silo: RealSilo, protection: str, instruction: Instruction, asked_for: str, caplog: pytest.LogCaptureFixture
) -> None:
    silo.write(policy={"kinds": ["hard"]}, privacy={"protection": protection})
    assert silo.answer(instruction)[1] is Refusal.CONFIG
    assert f"asks for {asked_for}, which protection = '{protection}' does not cover" in caplog.text
