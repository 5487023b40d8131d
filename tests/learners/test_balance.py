"""Class-balanced training: every class counts the same, whatever learns."""

from typing import Any

import numpy as np
import pytest
import torch
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.config.learner import LearnerSettings, Training
from fedct_flwr.learners.build import untrained
from fedct_flwr.learners.torch_net import TorchLearner
from fedct_flwr.types import ConfigError
from tests.sentences import sentence

RARE = np.int16([0] * 95 + [1] * 5)


def learner(name: str, class_weight: str, **params: Any) -> Any:
    settings = LearnerSettings.read({"name": name, "class-weight": class_weight, "params": params}, "a test")
    return untrained(settings, 0, ("a", "b"), np.zeros((1, 1)), None)


# Classes that overlap: who counts examples says the frequent one everywhere.
X = np.random.default_rng(0).normal(size=(100, 1)) + RARE[:, None]
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
        way: float((learner(name, way, **params).fit(X, RARE).predict(X) == 1).mean()) for way in ("none", "balanced")
    }
    assert found["none"] < 0.12
    assert 0.2 < found["balanced"] < 0.8


def test_a_learner_without_weights_is_refused_before_anything_runs(wording: SnapshotAssertion) -> None:
    assert sentence(ConfigError, learner, "nearest-neighbors", "balanced") == wording


def network(balanced: bool) -> TorchLearner:
    weight = "balanced" if balanced else "none"
    training = Training().model_copy(update={"batch_size": 32, "learning_rate": 0.05, "class_weight": weight})
    return TorchLearner(lambda: torch.nn.Linear(1, 2), 2, training, total_steps=300, device="cpu")


def test_a_network_finds_the_rare_class_too() -> None:
    apart = X + 2 * RARE[:, None]
    recall = [(network(balanced).fit(apart, RARE).predict(apart[RARE == 1]) == 1).mean() for balanced in (False, True)]
    assert recall[0] < 0.5 < 0.9 < recall[1]
