"""A run's models in scikit-learn's tools, and networks under what a notebook may have set in torch."""

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, is_classifier, is_regressor
from sklearn.inspection import permutation_importance
from sklearn.metrics import get_scorer

from fedct_flwr.simulation.run import Run
from fedct_flwr.simulation.simulate import simulate
from fedct_flwr.types import LearnerError

rng = np.random.default_rng(0)
SILOS = {name: ((X := rng.normal(size=(80, 3))), np.where(X[:, 0] > 0, "yes", "no")) for name in ("a", "b")}


def run(learner: Any, silos: Any = SILOS, **settings: Any) -> Run:
    return simulate(silos, rng.normal(size=(60, 3)), learner=learner, rounds=1, progress=False, **settings)


def test_a_model_is_a_classifier_for_the_tools_of_scikit_learn() -> None:
    model, (X, y) = run("logistic-regression").models["a"], SILOS["b"]
    assert is_classifier(model)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.score(X, y) > 0.8
    assert get_scorer("roc_auc")(model, X, y) > 0.9
    assert permutation_importance(model, X, y, scoring="roc_auc", n_repeats=2).importances_mean.argmax() == 0
    assert model.predict(X[:0]).tolist() == []
    assert pickle.loads(pickle.dumps(model)).predict(X).tolist() == model.predict(X).tolist()


def test_a_model_of_a_number_is_a_regressor() -> None:
    silos = {name: (X, X[:, 0] * 3) for name, (X, _) in SILOS.items()}
    model = run("ridge", silos, outcome="number", algorithm="dd").models["a"]
    assert is_regressor(model)
    assert model.score(*silos["b"]) > 0.9


def network() -> Any:
    from torch import nn

    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))


@pytest.mark.parametrize("state", ["default dtype", "gradients off", "double"])
def test_what_a_notebook_has_set_in_torch_changes_nothing(state: str) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    made = network().double() if state == "double" else network()
    try:
        if state == "default dtype":
            torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(state != "gradients off")
        found = run(made, local_steps=100, learning_rate=0.01)
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_grad_enabled(True)
    assert found.models["a"].score(*SILOS["b"]) > 0.8


def test_networks_that_cannot_be_trained_are_refused_before_a_round() -> None:
    torch = pytest.importorskip("torch")
    frozen = network().requires_grad_(False)
    with pytest.raises(LearnerError, match="all are frozen"):
        run(frozen)
    with pytest.raises(LearnerError, match="lazy layers"):
        run(torch.nn.Sequential(torch.nn.LazyLinear(8), torch.nn.ReLU(), torch.nn.LazyLinear(2)))


class Skorchlike(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Wraps a torch module, as skorch does: its layers take single precision alone."""

    def __init__(self, module: Any = None) -> None:
        self.module = module

    def fit(self, X: Any, y: Any) -> Any:
        assert (X.dtype, y.dtype) == (np.float32, np.int64)
        self.classes_, self.centers_ = np.unique(y), np.array([X[y == label].mean(axis=0) for label in np.unique(y)])
        return self

    def predict(self, X: Any) -> Any:
        assert X.dtype == np.float32
        return np.square(X[:, None] - self.centers_).sum(axis=2).argmin(axis=1)


def test_an_estimator_around_a_network_gets_single_precision() -> None:
    torch = pytest.importorskip("torch")
    assert run(Skorchlike(torch.nn.Linear)).models["a"].score(*SILOS["b"]) > 0.8


class Threshold:
    """No estimator of scikit-learn's: it can be fitted, and predicts."""

    def fit(self, X: Any, y: Any) -> None:
        self.at = X[y == 1, 0].min()

    def predict(self, X: Any) -> Any:
        return (X[:, 0] >= self.at).astype(int)


def test_a_learner_needs_fit_and_predict_alone() -> None:
    found = run(Threshold())
    assert min(row.pooled["federated"] for row in found.rows) > 0.9
    assert set(found.models["a"].predict(SILOS["a"][0])) == {"yes", "no"}
