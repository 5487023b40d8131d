"""From settings to students: how many, how many teachers each, how much noise, and what questions are answered."""

from typing import Any

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr import datasets
from fedct_flwr.config import LearnerSettings, PrivacySettings, RunConfig, TransferSettings
from fedct_flwr.labelers.labeler import Asked
from fedct_flwr.labelers.students import StudentVotes, check_votes, teachers_noise, transfer_for
from fedct_flwr.labelers.transfer import Transfer
from fedct_flwr.privacy.accounting import epsilon, quick_epsilon
from fedct_flwr.privacy.mechanisms import Gumbel, Laplace, repeated
from fedct_flwr.privacy.randomness import SimulatedNoise
from fedct_flwr.types import ConfigError, TrainingError
from tests.sentences import sentence

DATA = datasets.load(RunConfig.from_flower({"study": "s", "data": "heart-disease"}))
PRIVATE = DATA.silos[0].private
BARE, PROMISED = PrivacySettings(), PrivacySettings(protection="fedkt-l2", epsilon=50.0, rounds=1)


def made(votes: int = 2, privacy: PrivacySettings = BARE, **settings: Any) -> Transfer:
    learner = LearnerSettings(name="decision-tree")
    transfer = TransferSettings(**settings)
    return transfer_for(transfer, privacy, learner, "a", DATA.schema, DATA.public, PRIVATE.X, votes)


def test_a_question_for_fewer_votes_is_answered_and_one_for_more_is_not(wording: SnapshotAssertion) -> None:
    for votes in (1, 2):
        check_votes(TransferSettings(), BARE, votes)
    assert sentence(ConfigError, lambda: check_votes(TransferSettings(), BARE, 3)) == wording
    assert sentence(ConfigError, lambda: check_votes(TransferSettings(), PROMISED, 2)) == wording


def test_what_is_wrong_with_the_learner_is_said_before_anything_is_charged() -> None:
    wrong = LearnerSettings(name="decision-tree", params={"depth": 3})
    with pytest.raises(ConfigError, match="depth"):
        transfer_for(TransferSettings(), PROMISED, wrong, "a", DATA.schema, DATA.public, PRIVATE.X, 1)


class TestNoise:
    def test_gamma_is_one_by_the_scale(self) -> None:
        assert teachers_noise(TransferSettings(gamma=0.04), PROMISED, 100, 1) == Laplace(25.0)
        assert teachers_noise(TransferSettings(gamma=0.5, noise="gumbel"), PROMISED, 100, 3) == Gumbel(2.0)

    def test_only_lessons_are_paid_for(self) -> None:
        few = teachers_noise(TransferSettings(lessons=40), PROMISED, 200, 1)
        assert few == teachers_noise(TransferSettings(), PROMISED, 40, 1)
        assert few == teachers_noise(TransferSettings(lessons=300), PROMISED, 40, 1)

    @pytest.mark.parametrize("partitions", [1, 2])
    def test_without_one_the_budget_covers_all_partitions(self, partitions: int) -> None:
        mechanism = teachers_noise(TransferSettings(), PROMISED, 40, partitions)
        assert 49 < quick_epsilon(repeated(mechanism.event(40), partitions), 1e-5) <= 50

    def test_of_private_records_only_their_number_counts(self) -> None:
        """Preprocessing takes its statistics from the public set."""
        learner = LearnerSettings(name="decision-tree")
        answers = []
        for X in (PRIVATE.X, PRIVATE.X * 1000):
            transfer = transfer_for(TransferSettings(gamma=1.0), PROMISED, learner, "a", DATA.schema, DATA.public, X, 1)
            noise = SimulatedNoise(np.random.default_rng(0))
            answers.append(transfer.votes(PRIVATE, DATA.public.X, np.arange(20), noise))
        assert (answers[0] == answers[1]).all()


def test_students_are_a_labeler_that_keeps_nothing() -> None:
    students = StudentVotes(made(1, PROMISED, gamma=0.5))
    empty = np.zeros(0, dtype=np.int16)
    asked = Asked(PRIVATE, DATA.public.X, np.full(len(DATA.public), -1, dtype=np.int16), empty, np.arange(9))
    assert epsilon(students.event(asked), 0).upper == pytest.approx(9.0)
    assert students.answer(asked, SimulatedNoise(np.random.default_rng(0))).sum() == 9
    assert students.dump() == b""
    students.restore(b"")
    students.reset()
    with pytest.raises(TrainingError, match="another labeler's"):
        students.restore(b"something")
