"""A run's models in scikit-learn's tools, and networks under what a notebook may have set in torch."""

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone, is_classifier, is_regressor
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.class_weight import compute_sample_weight

from fedct_flwr.simulation.run import Run
from fedct_flwr.simulation.simulate import simulate
from fedct_flwr.types import ConfigError, DataError, DataWarning, LearnerError

rng = np.random.default_rng(0)
SILOS = {name: ((X := rng.normal(size=(80, 3))), np.where(X[:, 0] > 0, "yes", "no")) for name in ("a", "b")}


def run(learner: Any, silos: Any = SILOS, **settings: Any) -> Run:
    public: Any = rng.normal(size=(60, 3))
    public = pd.DataFrame(public) if "label" in settings else public
    return simulate(silos, public, learner=learner, rounds=1, progress=False, **settings)


def test_a_model_is_a_classifier_for_the_tools_of_scikit_learn() -> None:
    model, (X, y) = run("logistic-regression").models["a"], SILOS["b"]
    assert is_classifier(model)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.score(X, y) > 0.8
    assert get_scorer("roc_auc")(model, X, y) > 0.9
    assert permutation_importance(model, X, y, scoring="roc_auc", n_repeats=2).importances_mean.argmax() == 0
    assert (model.predict(X[:0]).dtype.kind, model.predict_proba(X[:0]).shape) == ("U", (0, 2))
    assert pickle.loads(pickle.dumps(model)).predict(X).tolist() == model.predict(X).tolist()


@pytest.mark.parametrize("labels", [("0", "1"), ("9", "10"), ("True", "False"), (1.5, 2.5), (0, 1), (False, True)])
def test_labels_come_back_as_they_were_given(labels: tuple[Any, Any]) -> None:
    silos = {name: (X, np.where(X[:, 0] > 0, *labels)) for name, (X, _) in SILOS.items()}
    (X, y), frames = silos["b"], {name: pd.DataFrame(X).assign(y=pd.Categorical(y)) for name, (X, y) in silos.items()}
    categories = run("logistic-regression", frames, label="y").models["a"]
    assert categories.predict(frames["b"]).dtype.kind == y.dtype.kind
    found = run("logistic-regression", silos)
    model = found.models["a"]
    assert np.mean(model.predict(X) == y) == model.score(X, y) > 0.8
    assert {*found.consensus.tolist()} - {None} == {*labels}
    # Tools of scikit-learn take them as sorted.
    assert model.classes_.tolist() == np.unique(y).tolist()
    assert roc_auc_score(y == model.classes_[1], model.predict_proba(X)[:, 1]) > 0.9


def _first(X: Any) -> Any:
    return np.asarray(X)[:, :1]


def _first_of_numbers(X: Any) -> Any:
    return _numbers(X)[:, :1]


def _numbers(X: Any) -> Any:
    return np.asarray(X)


class _Cut(ClassifierMixin, BaseEstimator):
    at = 0

    def __init__(self, pair: Any = None) -> None:
        self.pair = pair

    def fit(self, X: Any, y: Any) -> "_Cut":
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        return self.classes_[(X[:, self.at] > 0).astype(int)]


@pytest.mark.parametrize("what", ["function", "class", "constant", "helper"])
def test_a_model_keeps_the_code_that_it_was_trained_with(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a notebook, a function or a class of one name is made again and again."""

    # No path names a learner with a pair among its parameters.
    def made() -> Any:
        step = FunctionTransformer(_first_of_numbers if what == "helper" else _first)
        return make_pipeline(step, LogisticRegression()) if what in ("function", "helper") else _Cut((1, 2))

    before = run(made())
    if what == "function":
        monkeypatch.setattr(_first, "__code__", (lambda X: np.asarray(X)[:, 1:2]).__code__)
    elif what == "helper":
        monkeypatch.setattr(_numbers, "__code__", (lambda X: np.asarray(X)[:, ::-1]).__code__)
    elif what == "constant":
        monkeypatch.setattr(_Cut, "at", 1)
    else:
        monkeypatch.setattr(_Cut, "predict", lambda self, X: self.classes_[(X[:, 1] > 0).astype(int)])
    after = run(made())
    assert before.config.learner != after.config.learner
    assert after.scores["pooled_federated"].mean() < 0.7 < before.scores["pooled_federated"].mean()


_STEP: dict[str, Any] = {
    "__module__": "__main__",
    "fit": lambda self, X, y=None: self,
    "transform": lambda self, X: np.asarray(X)[:, self.at : self.at + 1],
    "__sklearn_is_fitted__": lambda self: True,
}


def test_classes_of_one_name_stay_apart() -> None:
    pipes = []
    for column in (0, 1):
        step = type("Step", (TransformerMixin, BaseEstimator), {**_STEP, "at": column})
        monkey = sys.modules["__main__"]
        monkey.Step = step  # type: ignore[attr-defined]
        pipes.append(make_pipeline(step(), LogisticRegression()))
    try:
        first = run(pipes[0])
    finally:
        del monkey.Step  # type: ignore[attr-defined]
    assert first.scores["pooled_federated"].mean() > 0.7
    assert first.models["a"].score(*SILOS["b"]) > 0.7


def test_a_model_is_frozen_for_tools_that_train() -> None:
    model, (X, y) = run("logistic-regression").models["a"], SILOS["b"]
    for tool in (clone, lambda each: cross_val_score(each, X, y), lambda each: each.fit(X, y)):
        with pytest.raises(ConfigError, match=r"wrap it in sklearn.frozen.FrozenEstimator"):
            tool(model)
    assert cross_val_score(FrozenEstimator(model), X, y).mean() > 0.8


def test_a_frozen_estimator_votes_as_it_is() -> None:
    X, y = SILOS["b"]
    found = run(FrozenEstimator(LogisticRegression().fit(X, y))).models["a"]
    assert found.predict(X).tolist() == LogisticRegression().fit(X, y).predict(X).tolist()


def test_a_search_counts_balanced_classes_as_scikit_learn_does() -> None:
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=3)
    rare = {name: (X, X.sum(axis=1) > 1.5) for name, (X, _) in SILOS.items()}
    silos, tests = ({name: (X[part], y[part]) for name, (X, y) in rare.items()} for part in (slice(60), slice(60, 80)))
    (X, y), (new, _) = silos["a"], tests["b"]
    found = run(search, silos, tests=tests, class_weight="balanced").models["a"].predict(new).tolist()
    assert found == clone(search).fit(X, y, sample_weight=compute_sample_weight("balanced", y)).predict(new).tolist()
    assert found != clone(search).fit(X, y).predict(new).tolist()


def test_a_score_takes_labels_and_masks_as_training_does() -> None:
    model, (X, y) = run("hist-gradient-boosting").models["a"], SILOS["b"]
    assert model.score(X, y[:, np.newaxis]) == model.score(X, y)
    for wrong in (["yes"], y[:40]):
        with pytest.raises(DataError, match="80 records and labels of shape"):
            model.score(X, wrong)
    with pytest.raises(DataError, match="1 record without a label"):
        model.score(X, np.ma.array(y, mask=np.arange(80) == 3))
    hidden = X[:, 0] > 0
    mask = np.stack([hidden, hidden * 0, hidden * 0], axis=1)
    found = model.predict(np.ma.array(X, mask=mask))
    assert found.tolist() == model.predict(np.where(mask, np.nan, X)).tolist() != model.predict(X).tolist()


def test_a_model_of_a_number_is_a_regressor() -> None:
    silos = {name: (X, X[:, 0] * 3) for name, (X, _) in SILOS.items()}
    model = run("ridge", silos, outcome="number", algorithm="dd").models["a"]
    assert is_regressor(model)
    assert model.score(*silos["b"]) > 0.9
    with pytest.raises(DataError, match="must hold numbers"):
        model.score(silos["b"][0], silos["b"][1].astype(str))


@pytest.mark.parametrize("learner", ["object", "network"])
def test_a_run_of_an_object_goes_to_another_process(learner: str, tmp_path: Path) -> None:
    made = make_pipeline(StandardScaler(), LogisticRegression()) if learner == "object" else "mlp"
    found = run(made, run_dir=tmp_path / "run")
    again, X = pickle.loads(pickle.dumps(found)), SILOS["b"][0]
    assert again.models["a"].predict(X).tolist() == found.models["a"].predict(X).tolist()


def network() -> Any:
    from torch import nn

    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))


@pytest.mark.parametrize("learner", ["module", "mlp"])
@pytest.mark.parametrize("state", ["inference", "default device"])
def test_what_one_thread_has_set_in_torch_reaches_no_training(learner: str, state: str) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    made = network() if learner == "module" else learner
    settings = {"local_steps": 100, "learning_rate": 0.01}
    with torch.inference_mode() if state == "inference" else torch.device("meta"):
        model = run(made, **settings).models["a"]
        assert model.score(*SILOS["b"]) > 0.8
    assert model.score(*SILOS["b"]) > 0.8


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


def test_another_default_of_torch_draws_no_other_weights() -> None:
    torch = pytest.importorskip("torch")
    found = []
    try:
        for kind in (torch.float32, torch.float64):
            torch.set_default_dtype(kind)
            learner = run("mlp", local_steps=1).models["a"].learner
            learner.reset()
            found.append(np.concatenate([weight.ravel() for weight in learner.weights().values()]))
    finally:
        torch.set_default_dtype(torch.float32)
    np.testing.assert_array_equal(*found)


def test_a_network_of_probabilities_is_named() -> None:
    nn = pytest.importorskip("torch").nn
    with pytest.warns(DataWarning, match="ends in probabilities"):
        run(nn.Sequential(network(), nn.Softmax(dim=1)), local_steps=1)


def test_numpys_errors_end_no_run() -> None:
    with np.errstate(all="raise"):
        assert run("naive-bayes").status == "completed"


@pytest.mark.parametrize("settings", [{"rounds": 1}, {"rounds": 2, "pseudo_weight": 1e-9}, {"algorithm": "pate"}])
def test_a_network_that_no_label_reaches_is_one_alone(settings: dict[str, Any]) -> None:
    # The product of two columns: a network that stops after the rounds of the run has hardly learned it.
    silos = {name: (X, X[:, 0] * X[:, 1] > 0) for name, (X, _) in SILOS.items()}
    found = simulate(silos, rng.normal(size=(60, 3)), learner="mlp", progress=False, **settings)
    assert all(row.pooled["federated"] == row.pooled["local"] for row in found.rows)
    assert ("the silo alone" in " ".join(found.notes)) is ("pseudo_weight" not in settings)


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


@pytest.mark.filterwarnings("ignore:.* cannot learn these labels")
def test_a_learner_needs_fit_and_predict_alone() -> None:
    found = run(Threshold())
    assert min(row.pooled["federated"] for row in found.rows) > 0.9
    assert set(found.models["a"].predict(SILOS["a"][0])) == {"yes", "no"}
