"""What a record changes in a vote among teachers."""

from typing import Self

import numpy as np
import pytest
from dp_accounting import DpEvent
from scipy.stats import chi2

from fedct_flwr.learners.labeler import Asked
from fedct_flwr.learners.teachers import TeachersLabeler, default_teachers
from fedct_flwr.learners.voters import trained_on, votes_of
from fedct_flwr.privacy.accounting import epsilon
from fedct_flwr.privacy.randomness import SecureNoise, SimulatedNoise, uniform_below
from fedct_flwr.types import ConfigError, Examples, TrainingError

PUBLIC = np.arange(40.0).reshape(-1, 1)


class Sensitive:
    """Its labels depend on every record of its part; it cannot learn from a part whose first record is 13."""

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: None = None) -> Self:
        if 13 in X:
            raise TrainingError("no luck")
        self._sum = int(X.sum() * 7 + y.sum())
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return ((self._sum + X[:, 0].astype(int) * 31) // 3 % 5).astype(np.int16)


def learner(_: int) -> Sensitive:
    return Sensitive()


def labeler(**settings: object) -> TeachersLabeler:
    given = {"num_records": 100, "num_teachers": 20, "num_queries": 40, "epsilon": 1.0, "delta": 1e-5, "seed": 0}
    return TeachersLabeler(learner, 40, 5, **(given | settings))  # type: ignore[arg-type]


def asked(positions: list[int], private: Examples | None = None) -> Asked:
    private = private or Examples(np.arange(100.0).reshape(-1, 1), np.zeros(100, np.int16))
    return Asked(private, PUBLIC, np.full(40, -1), np.zeros(len(positions), np.int16), np.array(positions))


@pytest.mark.parametrize("record", range(0, 100, 9))
def test_a_record_more_changes_one_teachers_votes_only(record: int) -> None:
    rng = np.random.default_rng(record)
    private = Examples(rng.integers(0, 14, (100, 1)).astype(float), rng.integers(0, 5, 100).astype(np.int16))
    parts = rng.integers(0, 40, 100)
    keep = np.arange(100) != record
    one = votes_of(trained_on(parts, private, 40, learner), PUBLIC, 5)
    other = votes_of(trained_on(parts[keep], Examples(private.X[keep], private.y[keep]), 40, learner), PUBLIC, 5)
    assert (one.sum(axis=1) <= 40).all()
    gone = np.minimum(other - one, 0).sum(axis=1)
    come = np.maximum(other - one, 0).sum(axis=1)
    assert gone.min() >= -1
    assert come.max() <= 1


def test_a_split_into_equal_parts_would_change_many() -> None:
    """The planted mistake, with the same learners."""
    rng = np.random.default_rng(0)
    X, y = rng.integers(14, 1000, (100, 1)).astype(float), np.zeros(100, np.int16)

    def cut(count: int) -> np.ndarray:
        return np.arange(count) * 20 // count

    one = trained_on(cut(100), Examples(X, y), 20, learner)
    other = trained_on(cut(99), Examples(X[1:], y[1:]), 20, learner)
    changed = [(a.predict(PUBLIC) != b.predict(PUBLIC)).any() for a, b in zip(one, other, strict=True)]
    assert sum(changed) > 10


def test_a_teacher_without_records_or_success_casts_no_vote() -> None:
    private = Examples(np.float64([[1], [13], [2]]), np.zeros(3, np.int16))
    assert (votes_of(trained_on(np.array([0, 4, 4]), private, 6, learner), PUBLIC, 5).sum(axis=1) == 1).all()
    assert not votes_of(trained_on(np.array([4, 4, 4]), private, 6, learner), PUBLIC, 5).any()


def test_records_draw_their_teachers_uniformly_from_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    def spy(noise: SecureNoise, bound: int, size: int) -> np.ndarray:
        parts = uniform_below(noise, bound, size)
        drawn.append((bound, parts))
        return parts

    monkeypatch.setattr("fedct_flwr.learners.teachers.uniform_below", spy)
    private = Examples(np.zeros((4000, 1)), np.zeros(4000, np.int16))
    labeler().answer(asked([0], private), SecureNoise())
    bound, parts = drawn[0]
    assert (bound, len(parts)) == (20, 4000)
    seen = np.bincount(parts, minlength=20)
    assert chi2.sf(((seen - 200) ** 2 / 200).sum(), 19) > 1e-6
    assert len(set(seen.tolist())) > 1  # equal parts would not be independent draws


@pytest.mark.parametrize("kind", ["gumbel", "gaussian"])
def test_only_new_examples_are_paid_for(kind: str) -> None:
    found = labeler(noise_kind=kind)
    first = found.answer(asked([3, 5]), SecureNoise())

    def cost(event: DpEvent) -> float:
        return epsilon(event, 1e-5).upper

    assert cost(found.event(asked([3, 5]))) == 0
    assert cost(found.event(asked([5, 9, 3]))) == cost(found.event(asked([9]))) > 0
    assert found.answer(asked([5, 9, 3]), SecureNoise())[[2, 0]].tolist() == first.tolist()


def test_beyond_the_plan_it_costs_more() -> None:
    found = labeler(num_queries=10)
    assert epsilon(found.event(asked(list(range(10)))), 1e-5).upper <= 1
    assert epsilon(found.event(asked(list(range(40)))), 1e-5).upper > 1.5


def test_a_tie_after_the_noise_goes_to_any_class() -> None:
    found = labeler(num_queries=1, epsilon=1e3, noise_kind="gaussian")
    nobody = Examples(np.empty((0, 1)), np.empty(0, np.int16))
    labels = found.answer(asked(list(range(40)), nobody), SimulatedNoise(np.random.default_rng(0)))
    assert len(set(labels.tolist())) == 5


def test_its_dump_holds_the_answers_alone() -> None:
    one, other = labeler(epsilon=1e-3), labeler(epsilon=1e-3)
    different = Examples(np.full((100, 1), 5.0), np.ones(100, np.int16))
    one.answer(asked([1, 2]), SecureNoise())
    other.answer(asked([1, 2], different), SecureNoise())
    assert len(one.dump()) == len(other.dump()) == 16 + 2 * 40
    given = np.frombuffer(one.dump()[16:], "<i2")
    assert np.flatnonzero(given >= 0).tolist() == [1, 2]


@pytest.mark.parametrize("count", [0, 1 << 16])
def test_an_impossible_number_of_teachers_is_refused(count: int) -> None:
    with pytest.raises(ConfigError, match="the number of teachers is"):
        labeler(num_teachers=count)


def test_more_teachers_than_records_are_refused() -> None:
    with pytest.raises(ConfigError, match=f"set teachers to {default_teachers(100)}, or to 0"):
        labeler(num_teachers=101)
