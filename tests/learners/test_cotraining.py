"""One round at a silo: what it trains on and what it votes on."""

from typing import Self

import numpy as np
import pytest
from numpy.typing import NDArray

from fedct_flwr.datasets.federated import PublicSet
from fedct_flwr.silo.answers import cotrain, learn_numbers
from fedct_flwr.types import ABSTAIN, Examples, Features, HardLabels
from fedct_flwr.wire.content import Query
from fedct_flwr.wire.kinds import VALUES

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


def test_values_of_others_weigh_as_much_in_all_as_is_asked_for(learner: Recorder):
    own = Examples(PRIVATE.X, np.float64([7.5, 8.5]))
    targets, query = np.float32([[1.5], [2.5], [3.5]]), Query(seed=3, size=2)
    votes = learn_numbers(VALUES, learner, own, PUBLIC, PUBLIC.X[:3], targets, query, weight=0.5)
    assert learner.X.ravel().tolist() == [100, 101, 0, 1, 2]
    assert learner.y.tolist() == [7.5, 8.5, 1.5, 2.5, 3.5]
    # Two private examples: their mean loss and half the mean loss on three others.
    assert learner.weights is not None
    np.testing.assert_allclose(learner.weights, [1, 1, 1 / 3, 1 / 3, 1 / 3])
    assert votes.tolist() == PUBLIC.X[query.positions(5)].tolist()
    assert votes.dtype == np.float32
