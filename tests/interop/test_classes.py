"""What a person hands over is fitted as outside: on the table's labels and numbers, whichever classes a silo lacks."""

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, make_scorer
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, TunedThresholdClassifierCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier

from fedct_flwr.config.learner import LearnerSettings
from fedct_flwr.datasets.federated import PublicSet
from fedct_flwr.datasets.schema import Schema, quantiles
from fedct_flwr.learners.build import learner_for
from fedct_flwr.learners.sklearn import SklearnLearner
from fedct_flwr.models.loading import load_model
from fedct_flwr.simulation.silos import given_learner
from fedct_flwr.simulation.simulate import simulate
from fedct_flwr.types import RunError, TrainingError

pytestmark = pytest.mark.filterwarnings("ignore:.* cannot learn these labels")
rng = np.random.default_rng(0)
X = np.column_stack([rng.normal(60, 12, 300).round(), rng.normal(140, 15, 300).round()])


class Pressure(ClassifierMixin, BaseEstimator):
    """A rule in millimeters of mercury."""

    def fit(self, X: Any, y: Any) -> "Pressure":
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        return self.classes_[(X[:, 1] > 140).astype(int)]


class Codes(Pressure):
    """Takes whole numbers alone, as torch does."""

    def fit(self, X: Any, y: Any) -> "Codes":
        assert y.dtype == np.int64
        return super().fit(X, y)


def drawn(classes: tuple[str, ...], without: int | None = None) -> Any:
    """Numbers of classes that the pressure tells, one of which may be missing."""
    present = [each for each in range(len(classes)) if each != without]
    edges = np.quantile(X[:, 1], np.linspace(0, 1, len(present) + 1)[1:-1])
    noise = np.random.default_rng(0).normal(0, 8, 300)
    return np.array(present, dtype=np.int16)[np.searchsorted(edges, X[:, 1] + noise)]


def handed(estimator: Any, classes: tuple[str, ...], **settings: Any) -> SklearnLearner:
    """A learner as ``simulate()`` makes it of an object."""
    given, schema = given_learner(estimator, "learner"), Schema.numeric(classes, ("age", "pressure"))
    found = learner_for(
        LearnerSettings(name=given.name, params=given.params, **settings), "east", schema, PublicSet(X), X
    )
    assert isinstance(found, SklearnLearner)
    return found


tree = partial(DecisionTreeClassifier, max_depth=3, random_state=0)
linear = partial(LogisticRegression, max_iter=5000, random_state=0)


def f1(last: Any) -> Any:
    return make_scorer(f1_score, pos_label=last)


LABELS: dict[tuple[str, ...], list[Any]] = {
    ("no", "yes"): ["no", "yes"],
    ("yes", "no"): ["yes", "no"],
    ("1", "2"): [1, 2],
    ("false", "true"): [False, True],
    ("01", "02"): ["01", "02"],
}
OUTSIDE = {
    "rule": lambda last: Pressure(),
    "neighbors": lambda last: KNeighborsClassifier(),
    "threshold": lambda last: FixedThresholdClassifier(linear(), threshold=0.1, pos_label=last),
    "tuned": lambda last: TunedThresholdClassifierCV(linear(), scoring=f1(last), random_state=0),
    "search": lambda last: GridSearchCV(linear(), {"C": [1e-9, 1.0]}, scoring=f1(last), cv=3),
    "stacking": lambda last: StackingClassifier([("tree", tree())], linear()),
    "voting": lambda last: VotingClassifier([("tree", tree()), ("nb", GaussianNB())], voting="soft"),
    "calibrated": lambda last: CalibratedClassifierCV(tree(), cv=3),
    "pipeline": lambda last: make_pipeline(StandardScaler(), linear()),
}


@pytest.mark.parametrize("classes", LABELS)
@pytest.mark.parametrize("kind", OUTSIDE)
def test_an_own_estimator_is_fitted_as_outside(kind: str, classes: tuple[str, ...]) -> None:
    y, labels = drawn(classes), np.array(LABELS[classes])
    bare = OUTSIDE[kind](LABELS[classes][1]).fit(X, labels[y])
    learner = handed(OUTSIDE[kind](LABELS[classes][1]), classes).fit(X, y)
    assert len(np.unique(learner.predict(X))) == 2
    np.testing.assert_array_equal(labels[learner.predict(X)], bare.predict(X))
    shares = learner.probabilities(X, 2)
    assert (shares is None) == (not hasattr(bare, "predict_proba"))
    if shares is not None:
        for place, label in enumerate(bare.classes_.tolist()):
            np.testing.assert_array_equal(shares[:, LABELS[classes].index(label)], bare.predict_proba(X)[:, place])


NAMES = ("low", "mid", "top")
WEIGHTS = {"low": 1.0, "mid": 1.0, "top": 20.0}
KEYED = {
    "linear": lambda weights: linear(class_weight=weights),
    "forest": lambda weights: RandomForestClassifier(10, class_weight=weights, random_state=0),
    "svm": lambda weights: SVC(class_weight=weights, random_state=0),
    "pipeline": lambda weights: make_pipeline(StandardScaler(), linear(class_weight=weights)),
}


NUMBERING = {
    "boosting": lambda weights: HistGradientBoostingClassifier(max_iter=10, class_weight=weights),
    "voting": lambda weights: VotingClassifier([("linear", linear(class_weight=weights))]),
}
"""Estimators that number the classes at hand themselves, so that scikit-learn refuses names, and mixes up numbers."""


@pytest.mark.parametrize("without", [0, 1, 2, None])
@pytest.mark.parametrize("kind", NUMBERING)
def test_so_it_does_where_an_estimator_numbers_classes(kind: str, without: int | None) -> None:
    y = drawn(NAMES, without)
    plain = NUMBERING[kind](None).fit(X, y, sample_weight=np.array([*WEIGHTS.values()])[y]).predict(X)
    for weights in (WEIGHTS, dict(enumerate(WEIGHTS.values()))):
        np.testing.assert_array_equal(handed(NUMBERING[kind](weights), NAMES).fit(X, y).predict(X), plain)


@pytest.mark.parametrize("without", [0, 1, 2])
@pytest.mark.parametrize("kind", KEYED)
def test_a_weight_counts_for_its_class_at_a_silo_that_lacks_one(kind: str, without: int) -> None:
    y = drawn(NAMES, without)
    plain = KEYED[kind](WEIGHTS).fit(X, np.array(NAMES)[y]).predict(X)
    for weights in (WEIGHTS, dict(enumerate(WEIGHTS.values()))):
        np.testing.assert_array_equal(np.array(NAMES)[handed(KEYED[kind](weights), NAMES).fit(X, y).predict(X)], plain)


CODES = {
    "own": Codes,
    "xgboost": lambda: XGBClassifier(n_estimators=5, objective="multi:softprob"),
    "xgboost, counted": lambda: XGBClassifier(n_estimators=5, objective="multi:softmax", num_class=3),
    "xgboost within": lambda: make_pipeline(StandardScaler(), XGBClassifier(n_estimators=5)),
    "lightgbm": lambda: pytest.importorskip("lightgbm").LGBMClassifier(
        n_estimators=5, objective="multiclass", num_class=3, metric=["multi_logloss", "auc_mu"], verbose=-1
    ),
    "boosting": lambda: HistGradientBoostingClassifier(max_iter=5),
}


@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("classes", [NAMES, ("1", "2", "3")])
def test_where_only_numbers_of_classes_can_work_they_do(kind: str, classes: tuple[str, ...]) -> None:
    for y in (drawn(classes, without=1), drawn(classes)):
        learner = handed(CODES[kind](), classes).fit(X, y)
        assert (learner.predict(X) == y).mean() > (0.5 if kind != "own" else 0.3)
        shares = learner.probabilities(X, 3)
        if shares is not None:
            np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-5)
            assert not shares[:, np.setdiff1d([0, 1, 2], y)].any()


@pytest.mark.parametrize("name", ["random-forest", "sklearn.ensemble.RandomForestClassifier"])
@pytest.mark.parametrize("classes", [NAMES, ("1", "0", "2")])
def test_parameters_in_json_name_classes_as_text(name: str, classes: tuple[str, ...]) -> None:
    params = {"n_estimators": 5, "max_depth": 1, "random_state": 0}
    for keys in (classes, ("0", "1", "2")):
        weights = dict(zip(keys, [0, 1, 1], strict=True))
        settings = LearnerSettings(name=name, params={**params, "class_weight": weights})
        found = learner_for(settings, "east", Schema.numeric(classes, ("age", "pressure")), PublicSet(X), X)
        unused = 0 if keys == classes or "0" not in classes else classes.index("0")
        assert set(found.fit(X, drawn(classes)).predict(X)) == {0, 1, 2} - {unused}


@pytest.mark.parametrize("scoring", ["f1", "roc_auc"])
def test_a_search_that_scores_no_parameter_tries_numbers_or_is_refused(scoring: str) -> None:
    search = GridSearchCV(linear(), {"C": [1e-9, 1.0]}, scoring=scoring, cv=3)
    y = drawn(("no", "yes"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = handed(search, ("no", "yes")).fit(X, y)
        assert getattr(found.parts[1], "best_params_", {"C": 1.0}) == {"C": 1.0}
        assert len(set(found.predict(X))) == 2
        with pytest.raises(TrainingError, match="no parameters of the search have a score"):
            handed(search, NAMES).fit(X, drawn(NAMES))


def test_scaling_is_asked_for() -> None:
    y = drawn(("no", "yes"))
    assert set(handed(Pressure(), ("no", "yes"), preprocessing="standard").fit(X, y).predict(X)) == {0}


class Numbered(Pressure):
    """Answers with numbers, whatever the labels are."""

    def predict(self, X: Any) -> Any:
        return (X[:, 1] > 140).astype(int)


def test_another_answer_than_a_label_is_refused() -> None:
    learner = handed(Numbered(), ("no", "yes")).fit(X, drawn(("no", "yes")))
    with pytest.raises(TrainingError, match="Numbered answered int64, not all of them labels"):
        learner.predict(X)


def test_a_run_answers_with_the_labels_and_says_what_is_wrong_with_a_class(tmp_path: Path) -> None:
    y = np.array(["no", "yes"])[drawn(("no", "yes"))]
    silos = {"a": (X[:150], y[:150]), "b": (X[150:], y[150:])}
    run = simulate(silos, X[:50] + 1, learner=Pressure(), rounds=1, progress=False, run_dir=tmp_path / "run")
    np.testing.assert_array_equal(run.models["a"].predict(X), np.where(X[:, 1] > 140, "yes", "no"))
    assert run.models["a"].classes_.tolist() == ["no", "yes"]
    kept = load_model(tmp_path / "run" / "models" / "a.skops", ["tests"])
    np.testing.assert_array_equal(kept.predict(X), X[:, 1] > 140)
    assert kept.description.quantiles == quantiles(kept.schema, run.dataset.public.X, run.dataset.silos[0].private.X)
    wrong = linear(class_weight={"best": 1})
    with pytest.raises(RunError, match=r"\['no', 'yes'\], are not in class_weight; with other labels ValueError"):
        simulate(silos, X[:50] + 1, learner=wrong, rounds=1, progress=False)
