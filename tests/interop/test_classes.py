"""Parameters by class, at a silo that lacks one: the learner does what the bare estimator does on the same records."""

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import (
    BaggingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier

from fedct_flwr.learners.sklearn import SklearnLearner
from fedct_flwr.simulation.simulate import simulate
from fedct_flwr.types import LearnerError

NAMES = ("low", "mid", "top")
WEIGHTS = {0: 1.0, 1: 1.0, 2: 20.0}
rng = np.random.default_rng(0)
X = rng.normal(size=(300, 2))


def labels(without: int) -> Any:
    first, second = (each for each in range(3) if each != without)
    return np.where(X[:, 0] + rng.normal(0, 1.5, 300) > 1.2, second, first).astype(np.int16)


KEYED = {
    "linear": lambda weights: LogisticRegression(class_weight=weights),
    "forest": lambda weights: RandomForestClassifier(10, class_weight=weights, random_state=0),
    "boosting": lambda weights: HistGradientBoostingClassifier(max_iter=5, class_weight=weights),
    "svm": lambda weights: SVC(class_weight=weights),
    "pipeline": lambda weights: make_pipeline(StandardScaler(), LogisticRegression(class_weight=weights)),
    "bagging": lambda weights: BaggingClassifier(
        DecisionTreeClassifier(class_weight=weights, random_state=0), 5, random_state=0
    ),
    "stacking": lambda weights: StackingClassifier(
        [("tree", DecisionTreeClassifier(class_weight=weights, max_depth=2, random_state=0))],
        LogisticRegression(class_weight=weights),
    ),
}


@pytest.mark.parametrize("without", [0, 1, 2])
@pytest.mark.parametrize("kind", KEYED)
def test_a_weight_counts_for_its_class_whichever_way_the_class_is_named(kind: str, without: int) -> None:
    y = labels(without)
    present, codes = np.unique(y, return_inverse=True)
    own = {code: WEIGHTS[each] for code, each in enumerate(present.tolist())}
    plain = present[KEYED[kind](own).fit(X, codes).predict(X)]
    for weights in (WEIGHTS, {str(key): value for key, value in WEIGHTS.items()}, {"low": 1, "mid": 1, "top": 20}):
        learner = SklearnLearner(KEYED[kind](weights), num_classes=3, classes=NAMES)
        np.testing.assert_array_equal(learner.fit(X, y).predict(X), plain)


def test_priors_go_by_class() -> None:
    y = labels(1)
    plain = GaussianNB(priors=[0.25, 0.75]).fit(X, y).predict(X)
    learner = SklearnLearner(GaussianNB(priors=[0.2, 0.2, 0.6]), num_classes=3, classes=NAMES)
    np.testing.assert_array_equal(learner.fit(X, y).predict(X), plain)


COUNTING = {
    "xgboost": lambda: XGBClassifier(n_estimators=5, objective="multi:softprob"),
    "xgboost, counted": lambda: XGBClassifier(n_estimators=5, objective="multi:softmax", num_class=3),
    "lightgbm": lambda: pytest.importorskip("lightgbm").LGBMClassifier(
        n_estimators=5, objective="multiclass", num_class=3, verbose=-1
    ),
    "catboost": lambda: pytest.importorskip("catboost").CatBoostClassifier(
        iterations=5, class_names=["low", "mid", "top"], verbose=0, allow_writing_files=False
    ),
}


@pytest.mark.parametrize("kind", COUNTING)
def test_boosting_counts_the_classes_at_hand(kind: str) -> None:
    for y in (labels(1), rng.integers(0, 3, 300).astype(np.int16)):
        learner = SklearnLearner(COUNTING[kind](), num_classes=3, classes=NAMES).fit(X, y)
        assert set(np.unique(learner.predict(X))) <= set(np.unique(y))
        shares = learner.probabilities(X, 3)
        assert shares is not None
        np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-5)


def test_a_threshold_names_its_class() -> None:
    y = labels(0) - np.int16(1)
    often = FixedThresholdClassifier(LogisticRegression(), threshold=0.01, pos_label="mid")
    assert SklearnLearner(often, num_classes=2, classes=("low", "mid")).fit(X, y).predict(X).mean() > 0.9


def test_learner_params_name_classes_and_one_that_is_none_is_refused_before_a_round() -> None:
    silos = {name: (rng.normal(size=(300, 2)), np.array(NAMES)[rng.integers(0, 3, 300)]) for name in ("a", "b")}
    params = {"class_weight": {"top": 9.0, "mid": 1.0, "low": 1.0}}
    run = simulate(silos, X[:50], learner="logistic-regression", learner_params=params, rounds=1, progress=False)
    assert (run.models["a"].predict(X) == "top").mean() > 0.5
    with pytest.raises(LearnerError, match=r"class_weight names the class 'best', which the study does not have"):
        simulate(silos, X[:50], learner=LogisticRegression(class_weight={"best": 1}), rounds=1, progress=False)
