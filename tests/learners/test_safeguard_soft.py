"""When a silo trusts others' probabilities and values."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, Ridge

from fedct_flwr.learners.safeguard import Lesson, SoftSafeguard, Trust
from fedct_flwr.learners.sklearn import SklearnLearner, SklearnRegressor
from fedct_flwr.learners.soft import soft_labels, train_on_values, train_soft
from fedct_flwr.types import Examples, Features, SoftVotes

CLASSES = 2


def records(count: int, *, values: bool, seed: int = 0) -> Examples:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, 3))
    told = X.sum(axis=1) + rng.normal(size=count)
    return Examples(X, told if values else (told > 0).astype(np.int16))


def targets_of(X: Features, *, values: bool, right: bool) -> SoftVotes:
    told = X.sum(axis=1) * (1 if right else -1)
    if values:
        return np.float32(told)[:, np.newaxis]
    ill = 1 / (1 + np.exp(-2 * told))
    return np.float32(np.stack([1 - ill, ill], axis=1))


def guarded(private: Examples, *, values: bool, groups: NDArray[np.intp] | None = None) -> SoftSafeguard:
    return SoftSafeguard(private, 0 if values else CLASSES, 0, "essen", groups)


def lesson_of(values: bool, right: bool, public: Features, number: int = 0) -> Lesson:
    learner = SklearnRegressor(Ridge()) if values else SklearnLearner(LogisticRegression())
    targets = targets_of(public, values=values, right=right)

    def train(part: Examples, share: float) -> None:
        (train_on_values if values else train_soft)(learner, part, public, targets if share else None, 2 * share)

    def answer(X: Features) -> NDArray[np.floating]:
        return learner.predict(X) if values else soft_labels(learner, X, CLASSES)

    return Lesson(train, answer, bytes([right, number]))


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("right", [False, True])
def test_what_the_records_speak_against_is_not_learned(values: bool, right: bool):
    private, public = records(100, values=values), records(300, values=values, seed=1).X
    trust = guarded(private, values=values).trust(lesson_of(values, right, public))
    assert trust.evidence is not None
    assert trust.weight == (1.0 if right else 0.0)
    assert (trust.evidence.errors > -1) == right


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("count", [1, 2])
def test_records_that_cannot_tell_trust(values: bool, count: int):
    private, public = records(count, values=values), records(30, values=values, seed=1).X
    if values and count > 1:
        private = private._replace(y=np.zeros(count))
    guard = guarded(private, values=values)
    assert guard.trust(lesson_of(values, False, public)) == Trust(1.0)
