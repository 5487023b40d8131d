"""What a silo's students say of the public set, and what a record changes in it."""

from typing import Self

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from fedct_flwr.labelers.transfer import Transfer
from fedct_flwr.learners.sklearn import SklearnLearner
from fedct_flwr.privacy.accounting import epsilon
from fedct_flwr.privacy.mechanisms import Gumbel, Mechanism
from fedct_flwr.privacy.randomness import SimulatedNoise
from fedct_flwr.types import Examples, TrainingError

RNG = np.random.default_rng(0)
PUBLIC = RNG.normal(size=(60, 2))
PRIVATE = Examples(X := RNG.normal(size=(100, 2)), (X[:, 0] > 0).astype(np.int16))
ALL = np.arange(60)


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


def entries(private: Examples = PRIVATE, **settings: object) -> list[Examples]:
    """What teachers, then students were trained on."""
    kind = type("Diary", (Diary,), {"entries": []})
    source = noise() if "mechanism" in settings else None
    transfer(lambda _: kind(), **settings).votes(private, PUBLIC, ALL[:7], source)
    return kind.entries


def test_students_have_learned_what_the_records_say() -> None:
    counts = transfer().votes(PRIVATE, PUBLIC, ALL, None)
    assert counts.dtype == np.int32
    assert (counts.sum(axis=1) == 2).all()
    assert (counts.argmax(axis=1) == (PUBLIC[:, 0] > 0)).mean() > 0.8


class Shift:
    """Preprocessing that cannot take the first record."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def transform(self, X: np.ndarray) -> np.ndarray:
        self.sizes.append(len(X))
        if PRIVATE.X[0].tolist() in X.tolist():
            raise ValueError("a record that is none")
        return X + 5


def test_a_record_that_cannot_be_preprocessed_silences_its_teachers_and_no_others() -> None:
    counts = transfer(transformer=Shift()).votes(PRIVATE, PUBLIC, ALL, None)
    assert (counts.argmax(axis=1) == (PUBLIC[:, 0] > 0)).mean() > 0.8
    with pytest.raises(TrainingError, match="could not be preprocessed: a record that is none"):
        transfer(transformer=Shift()).votes(PRIVATE, PRIVATE.X, ALL, None)


def test_each_partition_splits_all_records_anew() -> None:
    parts = entries()[:10]
    assert [part.size for part in parts] == [20] * 10
    for partition in (parts[:5], parts[5:]):
        records = np.concatenate([part.X for part in partition])
        assert sorted(records.tolist()) == sorted(PRIVATE.X.tolist())
    assert not any(np.array_equal(one.X, other.X) for one, other in zip(parts[:5], parts[5:], strict=True))


def test_students_learn_from_the_whole_public_set_or_from_the_lessons_that_were_paid_for() -> None:
    students = entries()[10:]
    assert [student.X.tolist() for student in students] == [PUBLIC.tolist()] * 2
    paid = entries(mechanism=Gumbel(0.1))[-2:]
    assert [student.X.tolist() for student in paid] == [PUBLIC[:7].tolist()] * 2


def test_ties_of_teachers_favor_no_class_and_stay_as_they_are() -> None:
    """Two teachers of a record each, of two classes: all public examples are ties."""
    private = Examples(PRIVATE.X[:2], np.int16([0, 1]))
    labels = []
    for seed in range(2):
        tied = transfer(lambda _: Echo(), partitions=1, teachers=2, num_units=2, seed=seed)
        first, again = (tied.votes(private, PUBLIC, ALL, None) for _ in range(2))
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

    monkeypatch.setattr("fedct_flwr.privacy.mechanisms.noisy_max", spy)
    drawn = RNG.integers(0, 8, 100)
    for left_out in range(0, 100, 7):
        keep = np.arange(100) != left_out
        counts.clear()
        for kept in (np.full(100, True), keep):
            monkeypatch.setattr("fedct_flwr.labelers.transfer.uniform_below", lambda *_, kept=kept: drawn[kept])
            fewer = Examples(PRIVATE.X[kept], PRIVATE.y[kept])
            transfer(teachers=8, mechanism=Gumbel(1.0)).votes(fewer, PUBLIC, ALL, noise())
        for one, other in zip(counts[:2], counts[2:], strict=True):
            assert np.minimum(other - one, 0).sum(axis=1).min() >= -1
            assert np.maximum(other - one, 0).sum(axis=1).max() <= 1


def test_partitions_cost_as_much_each() -> None:
    one, three = (transfer(partitions=number, mechanism=Gumbel(5.0)).event(40) for number in (1, 3))
    assert epsilon(one, 1e-5).upper == epsilon(Gumbel(5.0).event(40), 1e-5).upper
    assert epsilon(three, 1e-5).upper == epsilon(Gumbel(5.0).event(120), 1e-5).upper
    with pytest.raises(ValueError, match="no price"):
        transfer().event(40)
