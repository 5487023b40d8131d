"""One round at a silo: what it trains on and what it votes on."""

from typing import Self

import numpy as np
import pytest
from numpy.typing import NDArray

from fedct_flwr.datasets.federated import PublicSet, Query
from fedct_flwr.kinds.hard import cotrain
from fedct_flwr.kinds.probabilities import PROBABILITIES, VALUES
from fedct_flwr.types import ABSTAIN, Examples, Features, HardLabels

PRIVATE = Examples(np.float64([[100.0], [101.0]]), np.int16([1, 0]))
PUBLIC = PublicSet(np.float64([[0.0], [1.0], [2.0], [3.0], [4.0]]))
EVERYTHING = Query(seed=0, size=5)
NO_TARGETS = np.full(5, ABSTAIN, dtype=np.int16)


class Recorder:
    """Remembers what it was trained on and labels an example by its first feature."""

    def fit(self, X: Features, y: HardLabels, sample_weight: NDArray[np.float64] | None = None) -> Self:
        self.X, self.y, self.weights = X, y, sample_weight
        return self

    def predict(self, X: Features) -> HardLabels:
        self.queried = X
        return X[:, 0].astype(np.int16)


@pytest.fixture
def learner() -> Recorder:
    return Recorder()


def test_drops_public_examples_without_a_label(learner: Recorder):
    cotrain(learner, PRIVATE, PUBLIC, np.int16([ABSTAIN, 1, ABSTAIN, ABSTAIN, 0]), EVERYTHING)
    assert learner.X.ravel().tolist() == [100, 101, 1, 4]
    assert learner.y.tolist() == [1, 0, 1, 0]


def test_pseudo_labeled_examples_have_the_weight_asked_for(learner: Recorder):
    cotrain(learner, PRIVATE, PUBLIC, np.int16([ABSTAIN, 1, 2, ABSTAIN, 0]), EVERYTHING, pseudo_weight=0.25)
    assert learner.weights.tolist() == [1, 1, 0.25, 0.25, 0.25]


@pytest.mark.parametrize("seed", range(5))
def test_votes_on_the_query_alone_and_in_public_order(seed: int, learner: Recorder):
    query = Query(seed, size=3)
    votes = cotrain(learner, PRIVATE, PUBLIC, NO_TARGETS, query)
    assert votes.tolist() == query.positions(5).tolist()
    assert learner.queried.ravel().tolist() == votes.tolist()


class Sure:
    """Trains on and remembers on what, and is sure that all is class 1."""

    def __init__(self) -> None:
        self.trained: list[object] = []

    def reset(self) -> None: ...

    def advance(self, private: Examples, public: Features, targets: HardLabels, pseudo_weight: float) -> None:
        self.trained.append("alone")

    def advance_soft(self, private: Examples, public: Features, targets: NDArray[np.float32], weight: float) -> None:
        self.trained.append((public.ravel().tolist(), targets.tolist(), weight))

    def distill(self, X: Features, targets: NDArray[np.float32], steps: int) -> None:
        self.trained.append((X.ravel().tolist(), targets.tolist(), steps))

    def logits(self, X: Features) -> NDArray[np.float32]:
        return np.zeros((len(X), 2), dtype=np.float32)

    def label(self, public: Features, positions: NDArray[np.intp]) -> HardLabels:
        return np.ones(len(positions), dtype=np.int16)

    def dump(self) -> bytes:
        return b""

    def restore(self, state: bytes) -> None: ...

    def fit(self, X: Features, y: HardLabels, sample_weight: NDArray[np.float64] | None = None) -> Self:
        return self

    def predict(self, X: Features) -> HardLabels:
        return np.ones(len(X), dtype=np.int16)

    def probabilities(self, X: Features, num_classes: int) -> NDArray[np.float64]:
        self.queried = X
        return np.tile(np.eye(num_classes)[1], (len(X), 1))


def test_probabilities_are_told_without_targets_after_training_alone():
    learner, query = Sure(), Query(seed=0, size=2)
    votes = PROBABILITIES.learn(learner, PRIVATE, PUBLIC, PUBLIC.X[:0], None, query, weight=0.0, steps=1, num_classes=2)
    assert learner.trained == ["alone"]
    assert votes.tolist() == [[0, 1], [0, 1]]
    assert learner.queried.ravel().tolist() == query.positions(5).tolist()


def test_targets_are_learned_with_their_weight():
    learner, targets = Sure(), np.float32([[0.25, 0.75], [1, 0]])
    PROBABILITIES.learn(
        learner, PRIVATE, PUBLIC, PUBLIC.X[2:4], targets, EVERYTHING, weight=0.5, steps=1, num_classes=2
    )
    assert learner.trained == [([2, 3], targets.tolist(), 0.5)]


def test_without_a_weight_targets_are_learned_first_and_then_private_examples_alone():
    learner, targets = Sure(), np.float32([[0.25, 0.75], [1, 0]])
    PROBABILITIES.learn(learner, PRIVATE, PUBLIC, PUBLIC.X[2:4], targets, EVERYTHING, weight=0, steps=7, num_classes=2)
    assert learner.trained == [([2, 3], targets.tolist(), 7), "alone"]


def test_values_of_others_weigh_as_much_in_all_as_is_asked_for(learner: Recorder):
    own = Examples(PRIVATE.X, np.float64([7.5, 8.5]))
    targets, query = np.float32([[1.5], [2.5], [3.5]]), Query(seed=3, size=2)
    votes = VALUES.learn(learner, own, PUBLIC, PUBLIC.X[:3], targets, query, weight=0.5)
    assert learner.X.ravel().tolist() == [100, 101, 0, 1, 2]
    assert learner.y.tolist() == [7.5, 8.5, 1.5, 2.5, 3.5]
    # Two private examples: their mean loss and half the mean loss on three others.
    assert learner.weights is not None
    np.testing.assert_allclose(learner.weights, [1, 1, 1 / 3, 1 / 3, 1 / 3])
    assert votes.tolist() == PUBLIC.X[query.positions(5)].tolist()
    assert votes.dtype == np.float32
