"""Training on probabilities: exact for weights and for gradients, and asked of every learner that has a short name."""

from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax, softmax
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from syrupy.assertion import SnapshotAssertion
from torch import nn

from fedct_flwr.config.learner import Training
from fedct_flwr.learners import Learner
from fedct_flwr.learners.catalog import NETWORKS, NOT_SOFT, SHORT_NAMES
from fedct_flwr.learners.sklearn import SklearnLearner
from fedct_flwr.learners.soft import check_soft, soft_labels, train_soft, weighted_duplicates, weighted_values
from fedct_flwr.learners.torch_net import TorchLearner
from fedct_flwr.types import ConfigError, DataError, Examples, SoftVotes
from tests.learners.test_conformance import federation, learner_for
from tests.sentences import sentence

RNG = np.random.default_rng(0)
PRIVATE = Examples(RNG.normal(size=(24, 3)).astype(np.float32), (np.arange(24) % 3).astype(np.int16))
PUBLIC = RNG.normal(size=(40, 3)).astype(np.float32)
IMAGES = NETWORKS.keys() - {"mlp"}
"""Their steps take long; how networks learn is no other for them."""
TARGETS = RNG.dirichlet(np.ones(3), 40).astype(np.float32)


def linear(**training: Any) -> TorchLearner:
    values = Training().model_copy(update={"local_steps": 1, **training})
    return TorchLearner(lambda: nn.Linear(3, 3), 3, values, device="cpu")


def away_from(targets: SoftVotes, learner: Learner, X: np.ndarray[Any, Any]) -> float:
    return float(np.abs(soft_labels(learner, X, targets.shape[1]) - targets).mean())


class TestEveryLearner:
    @pytest.mark.parametrize("name", [name for name in SHORT_NAMES if name not in NOT_SOFT | IMAGES])
    def test_gives_probabilities_and_learns_those_it_is_shown(self, name: str) -> None:
        # The second class it has never seen itself.
        dataset = federation(name, known=1)
        private, X = dataset.silos[0].private, dataset.public.X
        learner = learner_for(name, dataset, **{"local-steps": 10})
        check_soft(learner)
        train_soft(learner, private, X, None, 0.5)
        targets = np.full((30, 3), 0.1, dtype=np.float32)
        targets[np.arange(30), np.arange(30) % 3] = 0.8
        before = away_from(targets, learner, X)
        train_soft(learner, private, X, targets, 4.0)
        found = soft_labels(learner, X, 3)
        assert found.shape == (30, 3)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-6)
        assert away_from(targets, learner, X) < before

    @pytest.mark.parametrize("name", sorted(NOT_SOFT))
    def test_or_the_error_names_those_that_can(self, name: str, wording: SnapshotAssertion) -> None:
        learner = learner_for(name, federation(name))
        for attempt in (lambda: check_soft(learner), lambda: train_soft(learner, PRIVATE, PUBLIC, TARGETS, 0.5)):
            said = sentence(ConfigError, attempt)
            assert said == wording
            assert name not in said

    def test_a_learner_of_ones_own_without_probabilities_is_refused(self) -> None:
        class Own:
            def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
                return self

            def predict(self, X: Any) -> Any:
                return np.zeros(len(X), np.int16)

        with pytest.raises(ConfigError, match="Own cannot learn probabilities"):
            check_soft(Own())
        with pytest.raises(ConfigError, match="Own cannot learn probabilities"):
            soft_labels(Own(), PUBLIC, 3)


@pytest.mark.parametrize("make", [lambda: SklearnLearner(LogisticRegression()), linear], ids=["weights", "gradients"])
class TestTargets:
    def test_that_are_none_are_refused(self, make: Any) -> None:
        for wrong in (np.nan, 3.0):
            with pytest.raises(DataError, match=r"must be numbers in 0..1"):
                train_soft(make(), PRIVATE, PUBLIC, np.full((40, 3), wrong, np.float32), 0.5)

    def test_examples_without_one_do_not_matter(self, make: Any) -> None:
        some, none = TARGETS.copy(), np.zeros_like(TARGETS)
        some[5:] = 0
        first, second = make(), make()
        train_soft(first, PRIVATE, PUBLIC, some, 0.5)
        other = PUBLIC.copy()
        other[5:] = 99
        train_soft(second, PRIVATE, other, some, 0.5)
        np.testing.assert_array_equal(soft_labels(first, PUBLIC, 3), soft_labels(second, PUBLIC, 3))
        alone, with_none = make(), make()
        train_soft(alone, PRIVATE, PUBLIC, None, 0.5)
        train_soft(with_none, PRIVATE, PUBLIC, none, 0.5)
        np.testing.assert_array_equal(soft_labels(alone, PUBLIC, 3), soft_labels(with_none, PUBLIC, 3))


class TestWeights:
    def test_the_weighted_loss_is_the_papers_for_any_model(self) -> None:
        logits = RNG.normal(size=(3, 3))

        def losses(X: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
            found: np.ndarray[Any, Any] = -log_softmax(X @ logits, axis=1)
            return found

        lamda = 0.7
        own = losses(PRIVATE.X)[np.arange(24), PRIVATE.y].mean()
        other = (TARGETS * losses(PUBLIC)).sum(axis=1).mean()
        found = weighted_duplicates(PRIVATE, PUBLIC, TARGETS, lamda)
        weighted = (found.weights * losses(found.X)[np.arange(len(found.y)), found.y.astype(int)]).sum()
        assert weighted == pytest.approx(24 * (own + lamda * other), rel=1e-5)

    def test_values_give_the_least_squares_of_the_paper(self) -> None:
        # Appendix A: polynomials, so that the minimum can be written down.
        X, U = RNG.uniform(-1, 1, (30, 1)), np.linspace(-2, 2, 11)[:, None]
        y, psi, lamda = np.sin(X[:, 0]), np.cos(U[:, 0]), 0.8
        examples = weighted_values(X, y, U, psi, lamda)
        model = make_pipeline(PolynomialFeatures(4), LinearRegression(fit_intercept=False))
        model.fit(examples.X, examples.y, linearregression__sample_weight=examples.weights)
        A, B = (PolynomialFeatures(4).fit_transform(points) for points in (X, U))
        normal = A.T @ A / 30 + lamda * B.T @ B / 11
        expected = np.linalg.solve(normal, A.T @ y / 30 + lamda * B.T @ psi / 11)
        np.testing.assert_allclose(model[-1].coef_, expected, rtol=1e-6)


class TestGradients:
    ONE = Examples(PRIVATE.X[:1], PRIVATE.y[:1])

    def test_a_step_goes_down_the_papers_loss(self) -> None:
        # With one example of each kind it does not matter which are drawn.
        learner = linear(optimizer="sgd", learning_rate=0.1)
        before = learner.weights()["weight"]
        x, u, y, psi = self.ONE.X[0], PUBLIC[0], np.eye(3)[self.ONE.y[0]], TARGETS[0]
        p, q = softmax(learner.logits(self.ONE.X)[0]), softmax(learner.logits(PUBLIC[:1])[0])
        train_soft(learner, self.ONE, PUBLIC[:1], TARGETS[:1], 0.5)
        gradient = np.outer(p - y, x) + 0.5 * np.outer(q - psi, u)
        np.testing.assert_allclose(learner.weights()["weight"], before - 0.1 * gradient, atol=1e-6)
