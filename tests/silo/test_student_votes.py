"""What a silo answers that is asked for votes of its students: as many as were asked for, once, and charged for."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.types import Refusal
from fedct_flwr.wire.content import Instruction, Query
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


@pytest.fixture
def no_training(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def forbid() -> None:
        monkeypatch.setattr("fedct_flwr.labelers.students.Transfer.answer", None)

    return forbid


def test_more_votes_than_the_silo_has_students_are_refused_and_its_log_says_why(
    silo: RealSilo, caplog: pytest.LogCaptureFixture, wording: SnapshotAssertion
) -> None:
    assert silo.answer(question(3))[1] is Refusal.CONFIG
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == wording
    silo.write(transfer={"partitions": 3})
    assert silo.answer(question(3))[1].sum(axis=1).max() == 3


def test_too_few_records_are_refused_and_the_silos_own_log_says_how_many_teachers_fit(
    silo: RealSilo, caplog: pytest.LogCaptureFixture, wording: SnapshotAssertion
) -> None:
    silo.write(transfer={"teachers": 200})
    payload, outcome = silo.answer(question(2))
    assert outcome is Refusal.CONFIG
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == wording
    assert b"168" not in payload


class TestWithAPromise:
    """FedKT-L2 at a real silo: secure noise on its teachers' votes, and a ledger."""

    def test_an_answer_is_charged_once_and_given_again_for_nothing(
        self, silo: RealSilo, no_training: Callable[[], None]
    ) -> None:
        silo.write(**PROTECTED)
        first, counts = silo.answer(question(1))
        assert (counts.sum(axis=1) == 1).all()
        assert silo.spent.charges == 1
        assert 5 < silo.spent.epsilon.upper <= 7
        no_training()
        for answer in silo.state.glob("**/run-*"):
            answer.unlink()
        assert silo.answer(question(1))[0] == silo.answer(question(1), run=2)[0] == first
        assert silo.spent.charges == 1

    @pytest.mark.parametrize("protection", ["dp-linear", "randomized-response"])
    def test_a_protection_of_labels_covers_no_votes(
        self, silo: RealSilo, protection: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        silo.write(privacy={"protection": protection})
        assert silo.answer(question(1))[1] is Refusal.CONFIG
        assert f"which protection = '{protection}' does not cover" in caplog.text


@pytest.mark.parametrize("promise", [{}, PROTECTED])
def test_a_real_silo_keeps_no_student(silo: RealSilo, tmp_path: Path, promise: dict[str, Any]) -> None:
    RunFolder.create(tmp_path / "run", {}, {}).close()
    silo.write(**promise)
    _, counts = silo.answer(question(1), **{"run-dir": str(tmp_path / "run"), "save-models": True})
    assert (counts.sum(axis=1) == 1).all()
    assert not list(tmp_path.rglob("*.skops"))
