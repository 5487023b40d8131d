"""Every learner with a short name keeps the promises of Learner; others come by import path."""

import pydoc
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    AdaBoostClassifier,
    RandomForestClassifier,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from syrupy.assertion import SnapshotAssertion
from threadpoolctl import threadpool_limits

from fedct_flwr.config.learner import LearnerSettings, Training
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.learners import Saveable
from fedct_flwr.learners.build import untrained
from fedct_flwr.learners.catalog import CLASSIFIERS, REGRESSORS, check_allowed, make, memory_for, package
from fedct_flwr.learners.plain import as_estimator
from fedct_flwr.learners.sklearn import SklearnLearner, SklearnRegressor, prepare
from fedct_flwr.learners.soft import check_soft, weighted_values
from fedct_flwr.learners.torch_net import TorchLearner
from fedct_flwr.learners.trained_model import load_model
from fedct_flwr.models.model_file import description_of
from fedct_flwr.simulation.silos import given_learner
from fedct_flwr.types import ConfigError, DataError, TrainingError
from tests.sentences import sentence

HERE = __name__
"""This module; its models have import paths too."""


def scaled_forest(trees: int = 3, deep: bool = False) -> Pipeline:
    forest = RandomForestClassifier(trees)
    return make_pipeline(StandardScaler(), AdaBoostClassifier(forest, n_estimators=2) if deep else forest)


def needs_a_depth(depth: int) -> DecisionTreeClassifier:
    return DecisionTreeClassifier(max_depth=depth)


def not_below_one(trees: int) -> RandomForestClassifier:
    if trees < 1:
        raise ValueError("a forest needs a tree")
    return RandomForestClassifier(trees)


def no_estimator() -> list[int]:
    return []


class Majority(ClassifierMixin, BaseEstimator):
    """Predicts the most frequent class; the smallest working classifier."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        self.classes_, counts = np.unique(y, return_counts=True)
        self.most_ = self.classes_[counts.argmax()]
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.full(len(X), self.most_)


class ReturnsNothing(Majority):
    def fit(self, X: np.ndarray, y: np.ndarray) -> None:  # type: ignore[override]
        super().fit(X, y)


class BasesTurned(BaseEstimator, ClassifierMixin):
    fit, predict = Majority.fit, Majority.predict


class NoMixin(BaseEstimator):
    fit, predict = Majority.fit, Majority.predict


class Bare:
    """Has no parameters as scikit-learn's estimators have them, and names its classes from the last one on."""

    def __init__(self, confidence: float = 0.75) -> None:
        self.confidence = confidence

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> None:
        self.classes_, places = np.unique(y, return_inverse=True)
        self.classes_ = self.classes_[::-1]
        self.most_ = len(self.classes_) - 1 - np.bincount(places, sample_weight).argmax()

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.full(len(X), self.classes_[self.most_])

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        shares = np.full(len(self.classes_), (1 - self.confidence) / (len(self.classes_) - 1))
        shares[self.most_] = self.confidence
        return np.tile(shares, (len(X), 1))


class BareLabels:
    fit, predict = Majority.fit, Majority.predict


class Named(BareLabels):
    """Names the columns of its probabilities, the last class first, and has no ``classes_``."""

    form = "{}"

    def fit(self, X: np.ndarray, y: np.ndarray) -> None:
        self.labels = np.unique(y).tolist()[::-1]

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.full(len(X), self.labels[0])

    def predict_proba(self, X: np.ndarray) -> Any:
        names = [self.form.format(label) for label in self.labels]
        return pytest.importorskip("pandas").DataFrame([[0.75, 0.25]] * len(X), columns=names)


class NamedWith(Named, ClassifierMixin, BaseEstimator):
    """Has ``classes_``, in another order than the columns."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> None:
        super().fit(X, y)
        self.classes_ = np.unique(y)


class OtherNames(Named):
    form = "P({})"


class Broken(Majority):
    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        raise ZeroDivisionError("patient 12")


class Unclonable(Majority):
    def __init__(self, names: tuple[str, ...] = ("a",)) -> None:
        self.names = list(names)


class Unimportant(Majority):
    @property
    def feature_importances_(self) -> np.ndarray:
        raise NotImplementedError


class Unsaveable(Majority):
    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        self.sums_ = (row.sum() for row in X)
        return super().fit(X, y)


class Holding(Majority):
    """Keeps an object of another package, which no parameter of its own names."""

    def __init__(self, kind: str = "argparse.Namespace") -> None:
        self.kind = kind

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        found = pydoc.locate(self.kind)()  # type: ignore[operator]
        self.held_ = found.fit(X, y) if hasattr(found, "fit") else found
        return super().fit(X, y)


def blobs(classes: list[int], examples: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Each class around a corner of its own: easy to learn, but not for free."""
    rng = np.random.default_rng(0)
    y = np.resize(np.array(classes, dtype=np.int16), examples)
    return 3 * np.eye(4)[y] + rng.normal(size=(examples, 4)), y


def make_estimator(name: str, params: dict[str, Any], random_state: int) -> Any:
    return prepare(make(name, params), name, random_state)


def learner(name: str, random_state: int = 0, **params: Any) -> SklearnLearner:
    return SklearnLearner(make_estimator(name, params, random_state))


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads that wait for each other on a busy machine make small models a thousand times slower."""
    with threadpool_limits(1):
        yield


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.skops"


# RuleFit is slow; the conformance suite has it.
@pytest.mark.parametrize("name", sorted(set(CLASSIFIERS) - {"rulefit"}))
def test_a_gap_between_the_classes_that_a_silo_knows_stays_one(name: str) -> None:
    X, y = blobs([0, 2])
    labels = learner(name).fit(X, y).predict(X)
    assert labels.dtype == np.int16
    assert (labels == y).mean() > 0.8


class TestUnknownLearner:
    @pytest.mark.parametrize(
        ("name", "params", "message"),
        [
            ("logistic-regresion", {}, "did you mean 'logistic-regression'"),
            ("decision-tree", {"max_dept": 3}, "no parameter 'max_dept': did you mean 'max_depth'"),
            (f"{HERE}.needs_a_depth", {}, "needs more parameters: there are depth"),
            ("sklearn.tree.DecisionTree", {}, "no attribute 'DecisionTree'"),
            ("no_such_package.models.Net", {}, "No module named 'no_such_package'"),
            (f"{HERE}.no_estimator", {}, "is no classifier"),
            (f"{HERE}.not_below_one", {"trees": 0}, "a forest needs a tree"),
            (f"{HERE}.BasesTurned", {}, "put ClassifierMixin before BaseEstimator among the bases of BasesTurned"),
            (f"{HERE}.NoMixin", {}, "put ClassifierMixin before BaseEstimator among the bases of NoMixin"),
            ("logistic-regression", {"C": -1}, "cannot be trained: The 'C' parameter of LogisticRegression must be"),
            (f"{HERE}.scaled_forest", {"trees": "many"}, "'n_estimators' parameter of RandomForestClassifier must be"),
        ],
    )
    def test_is_explained(self, name: str, params: dict[str, Any], message: str):
        with pytest.raises(ConfigError, match=message):
            make_estimator(name, params, 0)

    @pytest.mark.parametrize(
        "path",
        [
            "sklearn.linear_model.LinearRegression",
            "sklearn.svm.SVR",
            "sklearn.cluster.KMeans",
            "sklearn.preprocessing.StandardScaler",
        ],
    )
    def test_that_does_not_classify_is_refused(self, path: str):
        """Numbers cut off to classes, or clusters taken for classes, would be votes like any other."""
        with pytest.raises(ConfigError, match="is no classifier"):
            make_estimator(path, {}, 0)


class TestSampleWeights:
    X = np.zeros((3, 1))
    Y = np.int16([0, 0, 1])
    HEAVY_LAST = np.float64([1, 1, 5])

    @pytest.mark.parametrize(
        "estimator",
        [DecisionTreeClassifier(), make_pipeline(StandardScaler(), make_pipeline(DecisionTreeClassifier()))],
        ids=["classifier", "pipeline-in-a-pipeline"],
    )
    def test_reach_the_classifier(self, estimator: Any):
        trained = SklearnLearner(estimator)
        assert trained.fit(self.X, self.Y).predict(self.X[:1]).tolist() == [0]
        assert trained.fit(self.X, self.Y, self.HEAVY_LAST).predict(self.X[:1]).tolist() == [1]

    @pytest.mark.parametrize(
        "estimator",
        [
            GridSearchCV(LogisticRegression(), {"C": [0.1, 1]}, cv=3),
            VotingClassifier(
                [("a", GridSearchCV(LogisticRegression(), {"C": [1]}, cv=3)), ("b", "drop")], voting="soft"
            ),
            StackingClassifier([("a", LogisticRegression())], LogisticRegression(), cv=3),
            GridSearchCV(Ridge(), {"alpha": [0.1, 1]}, cv=3),
            VotingRegressor([("a", Ridge())]),
            StackingRegressor([("a", Ridge())], cv=3),
            TransformedTargetRegressor(Ridge(), transformer=MinMaxScaler()),
        ],
        ids=lambda estimator: type(estimator).__name__,
    )
    def test_reach_estimators_in_one_as_in_scikit_learn(self, estimator: Any):
        """The target depends on the second column, and only records where that is positive count."""
        target, weights = X[:, 0] * X[:, 1], np.where(X[:, 1] > 0, 1, 0.01)
        y = np.int64(target > 0) if is_classifier(estimator) else target
        learner = SklearnLearner(estimator, weighted=True) if is_classifier(estimator) else SklearnRegressor(estimator)
        check_soft(learner)
        found = learner.fit(X, y, weights).predict(X)
        np.testing.assert_array_equal(found, clone(estimator).fit(X, y, sample_weight=weights).predict(X))
        assert np.abs(found - clone(estimator).fit(X, y).predict(X)).max() > 0.1

    @pytest.mark.parametrize(
        ("estimator", "message"),
        [
            (OneVsRestClassifier(LogisticRegression()), "OneVsRestClassifier takes no sample weights"),
            (VotingClassifier([("a", KNeighborsClassifier())]), "KNeighborsClassifier takes no sample weights"),
            (GridSearchCV(scaled_forest(), {}), "a pipeline in GridSearchCV .* .make GridSearchCV its last step"),
        ],
    )
    def test_that_would_not_reach_an_estimator_are_refused(self, estimator: Any, message: str):
        with pytest.raises(ConfigError, match=f"{message}.*: set pseudo-weight = 1.0 and class-weight = 'none'"):
            SklearnLearner(estimator, balanced=True)


class TestObjectsWithoutParameters:
    X, Y = np.zeros((3, 1)), np.int16([0, 0, 1])

    @pytest.mark.parametrize("name", [f"{HERE}.Bare", f"{HERE}:Bare", "an object"])
    def test_keep_probabilities_their_classes_and_weights(self, name: str):
        given = given_learner(Bare(), "learner") if name == "an object" else None
        settings = LearnerSettings.read({"name": given.name if given else name, "pseudo-weight": 0.5}, "a test")
        found = untrained(settings, 0, ("no", "yes"), self.X, None)
        assert isinstance(found, SklearnLearner)
        check_soft(found)
        shares = [found.fit(self.X, self.Y, weights).probabilities(self.X, 2) for weights in (None, [1, 1, 5])]
        assert [each[0].tolist() for each in shares if each is not None] == [[0.75, 0.25], [0.25, 0.75]]

    def test_have_one_package_and_name_in_both_ways_of_writing_a_path(self):
        schema = Schema.numeric(("no", "yes"), ("age",))
        for name in (f"{HERE}.Bare", f"{HERE}:Bare"):
            check_allowed(name, ["tests"])
            settings = LearnerSettings.read({"name": name}, "a test")
            assert description_of("study", schema, settings, self.X).learner == f"{HERE}.Bare"
        assert package("own:Rule") == "own"

    def test_have_no_more_than_their_class(self):
        found = learner(f"{HERE}.BareLabels").fit(self.X, self.Y)
        assert found.predict(self.X).tolist() == [0, 0, 0]
        assert found.probabilities(self.X, 2) is None
        with pytest.raises(ConfigError, match="BareLabels takes no sample weights"):
            SklearnLearner(make_estimator(f"{HERE}.BareLabels", {}, 0), weighted=True)

    @pytest.mark.parametrize("way", [None, np.array(["no", "yes"]), np.array([False, True]), np.array([2, 1])])
    @pytest.mark.parametrize("kind", [Named, NamedWith])
    def test_may_name_the_columns_of_their_probabilities(self, kind: type, way: Any):
        found = SklearnLearner(kind() if kind is NamedWith else as_estimator(kind()), ways=[way]).fit(self.X, self.Y)
        shares, predicted = found.probabilities(self.X[:1], 2), found.predict(self.X[:1])
        assert shares is not None
        assert shares[0, predicted].tolist() == [0.75]

    def test_are_refused_if_no_name_leads_to_a_class(self):
        found = SklearnLearner(as_estimator(OtherNames()), ways=[np.array(["no", "yes"])]).fit(self.X, self.Y)
        with pytest.raises(TrainingError, match="names its columns otherwise than the classes"):
            found.probabilities(self.X, 2)

    def test_are_made_with_the_arguments_of_their_class_and_kept(self, path: Path):
        learner(f"{HERE}.Bare", confidence=1.0).fit(self.X, self.Y).save(path)
        shares = learner(f"{HERE}.Bare").load(path).probabilities(self.X[:1], 2)
        assert shares is not None
        assert shares.tolist() == [[1, 0]]


@pytest.mark.parametrize("estimator", [Unimportant(), VotingRegressor([Ridge()])])
def test_an_estimator_may_raise_where_all_its_attributes_are_asked_for(estimator: Any) -> None:
    assert type(estimator).__name__ in given_learner(estimator, "learner").name


class TestTraining:
    def test_needs_nothing_that_fit_returns(self):
        found = SklearnLearner(ReturnsNothing(), ways=[np.array(["no", "yes"])]).fit(*blobs([0, 1]))
        assert found.predict(blobs([0, 1])[0]).tolist() == [0] * 60

    def test_on_numbers_in_place_of_words_is_warned_of_once(self):
        class OfNumbers(Bare):
            def fit(self, X: Any, y: Any) -> None:
                super().fit(X, y.astype(int))

        for said in (1, 0):
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                SklearnLearner(as_estimator(OfNumbers()), ways=[np.array(["no", "yes"]), None]).fit(*blobs([0, 1]))
            assert len([each for each in found if "('no' is 0, 'yes' is 1)" in str(each.message)]) == said

    def test_of_a_network_with_one_output_is_on_its_numbers(self):
        class OneOutput(ClassifierMixin, BaseEstimator):
            def __init__(self, module: type = torch.nn.Linear) -> None:
                self.module = module

            def fit(self, X: Any, y: Any) -> None:
                assert (X.dtype, y.dtype) == (np.float32, np.float32)

            def predict(self, X: Any) -> Any:
                return (X[:, 0] > 3).astype(np.uint8)

        found = SklearnLearner(OneOutput()).fit(*blobs([0, 1]))
        assert set(found.predict(blobs([0, 1])[0])) <= {0, 1}

    def test_that_fails_says_which_learner(self):
        with pytest.raises(TrainingError, match="Broken"):
            SklearnLearner(Broken()).fit(*blobs([0, 1]))

    @pytest.mark.parametrize("kind", [SklearnLearner, SklearnRegressor])
    def test_does_without_a_clone_where_an_estimator_stands_none(self, kind: type[SklearnLearner]):
        assert set(kind(Unclonable()).fit(*blobs([0, 1])).predict(blobs([0, 1])[0])) <= {0, 1}


class TestModelFile:
    def test_that_cannot_be_written_in_the_format_is_a_training_error(self, path: Path):
        trained = SklearnLearner(Unsaveable()).fit(*blobs([0, 1]))
        with pytest.raises(TrainingError, match="Unsaveable cannot be saved"):
            trained.save(path)
        assert not path.exists()

    def test_with_types_from_elsewhere_is_refused(self, path: Path, wording: SnapshotAssertion):
        SklearnLearner(Majority()).fit(*blobs([0, 1])).save(path)
        assert sentence(DataError, load_model, path) == wording

    def test_of_own_code_may_hold_a_librarys_model(self, path: Path):
        pytest.importorskip("xgboost")
        SklearnLearner(Holding("xgboost.XGBClassifier")).fit(*blobs([0, 1])).save(path)
        assert SklearnLearner(Holding()).load(path).predict(np.zeros((2, 4))).tolist() == [0, 0]

    def test_of_own_code_or_with_another_packages_types_is_in_memory_too(self, path: Path):
        learner, memory = SklearnLearner(Holding()), memory_for(path.parent)
        learner.fit(*blobs([0, 1])).save(path)
        assert path.exists()
        assert learner.load(path).predict(np.zeros((2, 4))).tolist() == [0, 0]
        SklearnLearner(Majority()).fit(*blobs([1, 2])).save(path)
        assert len(memory) == 1
        assert learner.load(path).predict(np.zeros((2, 4))).tolist() == [1, 1]
        SklearnLearner(DummyClassifier()).fit(*blobs([2, 3])).save(path)
        assert not memory
        assert learner.load(path).predict(np.zeros((2, 4))).tolist() == [2, 2]

    def test_of_a_package_that_is_not_installed_names_it(self, path: Path, monkeypatch: pytest.MonkeyPatch):
        module = ModuleType("gone")
        monkeypatch.setitem(sys.modules, "gone", module)
        module.Gone = type("Gone", (Majority,), {"__module__": "gone"})  # type: ignore[attr-defined]
        SklearnLearner(module.Gone()).fit(*blobs([0, 1])).save(path)
        monkeypatch.delitem(sys.modules, "gone")
        with pytest.raises(DataError, match="needs the package 'gone', and Python finds none of this name: install"):
            load_model(path, ["gone", "tests"])


PROGRAM = """
import sys
from fedct_flwr.learners.trained_model import skops_io
first, again = skops_io(), skops_io()
assert first is again and first.dumps
assert "torch" not in sys.modules
import sklearn.externals.array_api_compat.torch as wrapped
import torch
assert wrapped.Tensor is torch.Tensor
"""


def test_skops_does_not_load_torch_and_others_still_can() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)


RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = X @ [3.0, -2.0, 0.5] + 10


def regressor(name: str, num_classes: int = 0, **params: Any) -> SklearnRegressor:
    settings = LearnerSettings.read({"name": name, "params": params}, "the test")
    learner = untrained(settings, 7, ("a", "b", "c")[:num_classes], X[:2], None)
    assert isinstance(learner, SklearnRegressor)
    return learner


@pytest.mark.parametrize("name", REGRESSORS)
def test_every_name_learns_values_with_weights_again_the_same_and_is_kept(name: str, tmp_path: Path) -> None:
    if name == "xgboost":
        pytest.importorskip("xgboost")
    learner = regressor(name)
    check_soft(learner)
    examples = weighted_values(X[:40], Y[:40], X[40:], Y[40:], 0.5)
    values = learner.fit(examples.X, examples.y, examples.weights).predict(X)
    assert values.shape == (60,)
    # Far better than the mean; some know less of a line than others.
    assert ((values - Y) ** 2).mean() < 0.5 * Y.var()
    np.testing.assert_array_equal(regressor(name).fit(*examples).predict(X), values)
    assert isinstance(learner, Saveable)
    learner.save(path := tmp_path / "model.skops")
    np.testing.assert_array_equal(regressor(name).load(path).predict(X), values)


@pytest.mark.parametrize(
    "name",
    [
        "logistic-regression",
        "small-cnn",
        "sklearn.svm.SVC",
        "tests.federation.learners.network",
        "ridgee",
    ],
)
def test_what_predicts_no_number_is_refused_with_what_does(name: str, wording: SnapshotAssertion) -> None:
    assert sentence(ConfigError, regressor, name) == wording


@pytest.mark.parametrize(("name", "instead"), [("fashion-mnist-mlp", "mlp with width 512"), ("svhn-cnn", "small-cnn")])
def test_a_network_that_went_is_answered_with_what_serves_now(name: str, instead: str) -> None:
    check_allowed(name, ())
    assert f"unknown learner {name!r}: take {instead}" in sentence(ConfigError, lambda: make(name, {}))


# --- classes that count the same


RARE = np.int16([0] * 95 + [1] * 5)


def balanced_learner(name: str, class_weight: str, **params: Any) -> Any:
    settings = LearnerSettings.read({"name": name, "class-weight": class_weight, "params": params}, "a test")
    return untrained(settings, 0, ("a", "b"), np.zeros((1, 1)), None)


# Classes that overlap: who counts examples says the frequent one everywhere.
OVERLAPPING = np.random.default_rng(0).normal(size=(100, 1)) + RARE[:, None]
TREE = {"max_depth": 1}


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("logistic-regression", {}),
        ("decision-tree", TREE),
        ("random-forest", TREE),
        ("gradient-boosting", {"max_depth": 1, "n_estimators": 5}),
        ("hist-gradient-boosting", {"max_iter": 5}),
        ("naive-bayes", {}),
        ("svm", {}),
        ("xgboost", {"max_depth": 1, "n_estimators": 5}),
    ],
)
def test_a_rare_class_is_found_if_classes_count_the_same(name: str, params: dict[str, Any]) -> None:
    found = {
        way: float((balanced_learner(name, way, **params).fit(OVERLAPPING, RARE).predict(OVERLAPPING) == 1).mean())
        for way in ("none", "balanced")
    }
    assert found["none"] < 0.12
    assert 0.2 < found["balanced"] < 0.8


def test_a_learner_without_weights_is_refused_before_anything_runs(wording: SnapshotAssertion) -> None:
    assert sentence(ConfigError, balanced_learner, "nearest-neighbors", "balanced") == wording


def network(balanced: bool) -> TorchLearner:
    weight = "balanced" if balanced else "none"
    training = Training().model_copy(update={"batch_size": 32, "learning_rate": 0.05, "class_weight": weight})
    return TorchLearner(lambda: torch.nn.Linear(1, 2), 2, training, total_steps=300, device="cpu")


def test_a_network_finds_the_rare_class_too() -> None:
    apart = OVERLAPPING + 2 * RARE[:, None]
    recall = [(network(balanced).fit(apart, RARE).predict(apart[RARE == 1]) == 1).mean() for balanced in (False, True)]
    assert recall[0] < 0.5 < 0.9 < recall[1]


def test_the_candidates_of_a_search_are_seeded_too() -> None:
    models = [LogisticRegression(), RandomForestClassifier(3), RandomForestClassifier(3, random_state=5)]
    search = GridSearchCV(Pipeline([("model", models[0])]), [{"model": models}, {"model__C": [1.0]}])
    prepared = prepare(search, "own", 7)
    assert [model.random_state for model in prepared.param_grid[0]["model"]] == [7, 7, 5]
