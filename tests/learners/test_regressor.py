"""Regressors by name or import path, and what they say where they cannot be."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.config import LearnerSettings
from fedct_flwr.learners.base import Saveable
from fedct_flwr.learners.build import untrained
from fedct_flwr.learners.catalog import REGRESSORS
from fedct_flwr.learners.sklearn import SklearnRegressor
from fedct_flwr.learners.soft import check_soft, weighted_values
from fedct_flwr.types import ConfigError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = X @ [3.0, -2.0, 0.5] + 10


def make(name: str, num_classes: int = 0, **params: Any) -> SklearnRegressor:
    settings = LearnerSettings.read({"name": name, "params": params}, "the test")
    learner = untrained(settings, 7, ("a", "b", "c")[:num_classes], X[:2], None)
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
