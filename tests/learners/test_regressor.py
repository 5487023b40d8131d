"""Regressors by name or import path, and what they say where they cannot be."""

from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.config import LearnerSettings
from fedct_flwr.learners.base import Saveable
from fedct_flwr.learners.build import untrained
from fedct_flwr.learners.catalog import REGRESSORS
from fedct_flwr.learners.regressor import SklearnRegressor
from fedct_flwr.learners.soft import check_soft, weighted_values
from fedct_flwr.types import Answers, ConfigError, Features, TrainingError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = X @ [3.0, -2.0, 0.5] + 10


def make(name: str, num_classes: int = 0, **params: Any) -> SklearnRegressor:
    settings = LearnerSettings.read({"name": name, "params": params}, "the test")
    learner = untrained(settings, 7, num_classes, X[:2], None)
    assert isinstance(learner, SklearnRegressor)
    return learner


@pytest.mark.parametrize("name", REGRESSORS)
def test_every_name_learns_values_with_weights_again_the_same_and_is_kept(name: str, tmp_path: Path) -> None:
    if name == "xgboost":
        pytest.importorskip("xgboost")
    learner = make(name)
    check_soft(learner)
    examples = weighted_values(X[:40], Y[:40], X[40:], Y[40:], 0.5)
    values = learner.fit(examples.X, examples.y, examples.weights).predict(X)
    assert values.shape == (60,)
    # Far better than the mean; some know less of a line than others.
    assert ((values - Y) ** 2).mean() < 0.5 * Y.var()
    np.testing.assert_array_equal(make(name).fit(*examples).predict(X), values)
    assert isinstance(learner, Saveable)
    learner.save(path := tmp_path / "model.skops")
    np.testing.assert_array_equal(make(name).load(path).predict(X), values)


def test_weights_are_those_of_the_examples() -> None:
    examples = np.zeros((2, 3)), np.array([0.0, 1.0])
    values = make("linear-regression").fit(*examples, sample_weight=np.array([1.0, 3.0])).predict(X[:1] * 0)
    np.testing.assert_allclose(values, [0.75])


def test_a_pipeline_by_import_path_is_given_weights_and_a_random_state() -> None:
    learner = make("tests.learners.test_regressor.pipeline")
    check_soft(learner)
    values = learner.fit(X, Y, np.ones(60)).predict(X)
    np.testing.assert_array_equal(
        make("tests.learners.test_regressor.pipeline").fit(X, Y, np.ones(60)).predict(X), values
    )


class Runaway(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """Its values have no end."""

    def fit(self, X: Features, y: Answers) -> Self:
        return self

    def predict(self, X: Features) -> NDArray[np.float64]:
        return np.full(len(X), np.inf)


def pipeline() -> Any:
    from sklearn.ensemble import ExtraTreesRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), ExtraTreesRegressor(5))


@pytest.mark.parametrize(
    "name",
    [
        "logistic-regression",
        "cifar10-cnn",
        "sklearn.svm.SVC",
        "tests.federation.learners.network",
        "ridgee",
    ],
)
def test_what_predicts_no_number_is_refused_with_what_does(name: str, wording: SnapshotAssertion) -> None:
    with pytest.raises(ConfigError) as caught:
        make(name)
    assert str(caught.value) == wording


def test_where_classes_are_predicted_a_name_of_regressors_alone_says_so() -> None:
    with pytest.raises(ConfigError, match="learner 'ridge' predicts a number, and here classes are predicted"):
        make("ridge", num_classes=2)


def test_without_sample_weights_nobody_learns_others_values() -> None:
    with pytest.raises(ConfigError, match="KNeighborsRegressor takes no sample weights"):
        check_soft(make("sklearn.neighbors.KNeighborsRegressor"))


def test_what_goes_wrong_in_training_or_predicting_is_a_training_error(wording: SnapshotAssertion) -> None:
    with pytest.raises(TrainingError) as caught:
        make("ridge").fit(X, np.full(60, np.nan))
    assert str(caught.value).partition(": ")[0] == wording
    with pytest.raises(TrainingError, match="could not predict"):
        make("ridge").fit(X, Y).predict(X[:, :1])
    with pytest.raises(TrainingError, match="infinite numbers"):
        make("tests.learners.test_regressor.Runaway").fit(X, Y).predict(X)
