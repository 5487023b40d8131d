"""Students of a silo: what they say of the public set, what a record changes in it, and what settings make of them."""

from typing import Any, Self

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier
from syrupy.assertion import SnapshotAssertion

from fedct_flwr import datasets
from fedct_flwr.config.learner import LearnerSettings
from fedct_flwr.config.privacy import PrivacySettings, TransferSettings
from fedct_flwr.config.run import RunConfig
from fedct_flwr.labelers.labeler import Asked
from fedct_flwr.labelers.students import Transfer, check_votes, teachers_noise, transfer_for
from fedct_flwr.learners.sklearn import SklearnLearner
from fedct_flwr.privacy.accounting import epsilon, quick_epsilon
from fedct_flwr.privacy.mechanisms import Gumbel, Laplace, Mechanism, repeated
from fedct_flwr.privacy.randomness import SimulatedNoise
from fedct_flwr.types import ConfigError, Examples, TrainingError
from tests.sentences import sentence

RNG = np.random.default_rng(0)
PUBLIC = RNG.normal(size=(60, 2))
RECORDS = Examples(X := RNG.normal(size=(100, 2)), (X[:, 0] > 0).astype(np.int16))
ALL = np.arange(60)


def asked(private: Examples, public: np.ndarray = PUBLIC, positions: np.ndarray = ALL) -> Asked:
    nothing = np.zeros(0, dtype=np.int16)
    return Asked(private, public, np.full(len(public), -1, dtype=np.int16), nothing, positions)


class Majority:
    """Says of everything what most of its records are."""

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: None = None) -> Self:
        self._label = np.bincount(y).argmax()
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.full(len(X), self._label, dtype=np.int16)


class Echo(Majority):
    """Says of a public example what it was told of it, of others what it was told last."""

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: None = None) -> Self:
        self._told = dict(zip(map(tuple, X), y, strict=True))
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        last = list(self._told.values())[-1]
        return np.array([self._told.get(tuple(row), last) for row in X], dtype=np.int16)


class Diary(Majority):
    """Remembers what all of its kind were trained on."""

    entries: list[Examples]

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: None = None) -> Self:
        self.entries.append(Examples(X, y))
        return super().fit(X, y)


def tree(random_state: int) -> SklearnLearner:
    return SklearnLearner(DecisionTreeClassifier(max_depth=3, max_features=1, random_state=random_state))


def noise(seed: int = 0) -> SimulatedNoise:
    return SimulatedNoise(np.random.default_rng(seed))


def transfer(make_learner: object = tree, **settings: object) -> Transfer:
    given = {"partitions": 2, "teachers": 5, "num_units": 100, "seed": 0} | settings
    return Transfer(make_learner, 2, **given)  # type: ignore[arg-type]


def entries(private: Examples = RECORDS, **settings: object) -> list[Examples]:
    """What teachers, then students were trained on."""
    kind = type("Diary", (Diary,), {"entries": []})
    source = noise() if "mechanism" in settings else None
    transfer(lambda _: kind(), **settings).answer(asked(private, PUBLIC, ALL[:7]), source)
    return kind.entries


def test_students_have_learned_what_the_records_say() -> None:
    counts = transfer().answer(asked(RECORDS, PUBLIC), None)
    assert counts.dtype == np.int32
    assert (counts.sum(axis=1) == 2).all()
    assert (counts.argmax(axis=1) == (PUBLIC[:, 0] > 0)).mean() > 0.8


class Shift:
    """Preprocessing that cannot take the first record."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def transform(self, X: np.ndarray) -> np.ndarray:
        self.sizes.append(len(X))
        if RECORDS.X[0].tolist() in X.tolist():
            raise ValueError("a record that is none")
        return X + 5


def test_a_record_that_cannot_be_preprocessed_silences_its_teachers_and_no_others() -> None:
    counts = transfer(transformer=Shift()).answer(asked(RECORDS, PUBLIC), None)
    assert (counts.argmax(axis=1) == (PUBLIC[:, 0] > 0)).mean() > 0.8
    with pytest.raises(TrainingError, match="could not be preprocessed: a record that is none"):
        transfer(transformer=Shift()).answer(asked(RECORDS, RECORDS.X), None)


def test_each_partition_splits_all_records_anew() -> None:
    parts = entries()[:10]
    assert [part.size for part in parts] == [20] * 10
    for partition in (parts[:5], parts[5:]):
        records = np.concatenate([part.X for part in partition])
        assert sorted(records.tolist()) == sorted(RECORDS.X.tolist())
    assert not any(np.array_equal(one.X, other.X) for one, other in zip(parts[:5], parts[5:], strict=True))


def test_students_learn_from_the_whole_public_set_or_from_the_lessons_that_were_paid_for() -> None:
    students = entries()[10:]
    assert [student.X.tolist() for student in students] == [PUBLIC.tolist()] * 2
    paid = entries(mechanism=Gumbel(0.1))[-2:]
    assert [student.X.tolist() for student in paid] == [PUBLIC[:7].tolist()] * 2


def test_ties_of_teachers_favor_no_class_and_stay_as_they_are() -> None:
    """Two teachers of a record each, of two classes: all public examples are ties."""
    private = Examples(RECORDS.X[:2], np.int16([0, 1]))
    labels = []
    for seed in range(2):
        tied = transfer(lambda _: Echo(), partitions=1, teachers=2, num_units=2, seed=seed)
        first, again = (tied.answer(asked(private, PUBLIC), None) for _ in range(2))
        assert first.tolist() == again.tolist()
        labels.append(first.argmax(axis=1).tolist())
    assert labels[0] != labels[1]
    assert 15 < sum(labels[0]) < 45


def test_with_noise_a_record_more_changes_one_vote_of_each_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the other records drew."""
    counts: list[np.ndarray] = []

    def spy(mechanism: Mechanism, votes: np.ndarray, noise: object) -> np.ndarray:
        counts.append(votes)
        return np.zeros(len(votes), np.int16)

    monkeypatch.setattr("fedct_flwr.privacy.noisy_max", spy)
    drawn = RNG.integers(0, 8, 100)
    for left_out in range(0, 100, 7):
        keep = np.arange(100) != left_out
        counts.clear()
        for kept in (np.full(100, True), keep):
            monkeypatch.setattr("fedct_flwr.labelers.students.uniform_below", lambda *_, kept=kept: drawn[kept])
            fewer = Examples(RECORDS.X[kept], RECORDS.y[kept])
            transfer(teachers=8, mechanism=Gumbel(1.0)).answer(asked(fewer, PUBLIC), noise())
        for one, other in zip(counts[:2], counts[2:], strict=True):
            assert np.minimum(other - one, 0).sum(axis=1).min() >= -1
            assert np.maximum(other - one, 0).sum(axis=1).max() <= 1


def test_partitions_cost_as_much_each() -> None:
    one, three = (transfer(partitions=number, mechanism=Gumbel(5.0)).price(40) for number in (1, 3))
    assert epsilon(one, 1e-5).upper == epsilon(Gumbel(5.0).event(40), 1e-5).upper
    assert epsilon(three, 1e-5).upper == epsilon(Gumbel(5.0).event(120), 1e-5).upper
    with pytest.raises(ValueError, match="no price"):
        transfer().price(40)


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
            answers.append(transfer.answer(asked(PRIVATE, DATA.public.X, np.arange(20)), noise()))
        assert (answers[0] == answers[1]).all()


def test_students_are_a_labeler_that_keeps_nothing() -> None:
    students, question = made(1, PROMISED, gamma=0.5), asked(PRIVATE, DATA.public.X, np.arange(9))
    assert epsilon(students.event(question), 0).upper == pytest.approx(9.0)
    assert students.answer(question, noise()).sum() == 9
    with pytest.raises(TrainingError, match="another labeler's"):
        students.restore(b"something")
