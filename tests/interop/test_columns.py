"""Learners that name or number columns get the study's own, in its order, whatever preprocessing is set."""

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from xgboost import XGBClassifier

from fedct_flwr.learners.catalog import ModelMemory
from fedct_flwr.simulation import simulation
from fedct_flwr.simulation.run import Run
from fedct_flwr.simulation.simulate import simulate
from fedct_flwr.types import DataError, DataWarning, LearnerError, RunError

pd = pytest.importorskip("pandas")


def frame(n: int, seed: int) -> Any:
    """A category that decides the label stands before the numbers."""
    rng = np.random.default_rng(seed)
    grade = rng.integers(0, 6, n)
    ill = np.where(rng.random(n) < np.where(np.isin(grade, [1, 4]), 0.95, 0.05), "yes", "no")
    return pd.DataFrame(
        {"age": rng.normal(60, 9, n), "grade": np.array(list("uvwxyz"))[grade], "bp": rng.normal(size=n), "ill": ill}
    )


def run(learner: Any, **settings: Any) -> Run:
    silos = {name: frame(150, seed) for seed, name in enumerate(("north", "south"))}
    return simulate(
        silos, frame(150, 9).drop(columns="ill"), label="ill", learner=learner, rounds=1, progress=False, **settings
    )


def columns(numbers: Any, category: Any) -> Any:
    parts = [("n", StandardScaler(), numbers), ("c", OneHotEncoder(handle_unknown="ignore"), category)]
    return make_pipeline(ColumnTransformer(parts), LogisticRegression())


def grades(table: Any) -> Any:
    """A number for each grade, of a DataFrame."""
    return (table["grade"].to_numpy()[:, None] == np.array(list("uvwxyz"))).astype(float)


class Grades(TransformerMixin, BaseEstimator):
    """The same as a class."""

    def fit(self, X: Any, y: Any = None) -> "Grades":
        self.fitted_ = True
        return self

    def transform(self, X: Any) -> Any:
        return grades(X)


LOCAL = type("Local", (LogisticRegression,), {"__qualname__": "made.<locals>.Local"})
LEARNERS = {
    "by name": lambda: columns(["age", "bp"], ["grade"]),
    "by number": lambda: columns([0, 2], [1]),
    "boosting by name": lambda: HistGradientBoostingClassifier(categorical_features=["grade"], max_iter=20),
    "boosting by number": lambda: HistGradientBoostingClassifier(categorical_features=[1], max_iter=20),
    "monotone": lambda: HistGradientBoostingClassifier(monotonic_cst={"age": 1}, max_iter=20),
    "forest": lambda: RandomForestClassifier(monotonic_cst=[0, 0, 1], max_features=None),
    "selectors": lambda: columns(
        make_column_selector(dtype_include=np.number), make_column_selector(dtype_include=str)
    ),
    "own function": lambda: make_pipeline(FunctionTransformer(grades), LogisticRegression()),
    "own transformer": lambda: make_pipeline(Grades(), LogisticRegression()),
    "xgboost": lambda: XGBClassifier(n_estimators=20, monotone_constraints={"age": 1}),
    "xgboost by text": lambda: XGBClassifier(
        n_estimators=20, monotone_constraints="(1,0,0)", interaction_constraints="[[0, 1], [2]]"
    ),
}


@pytest.mark.parametrize("preprocessing", ["standard", "none"])
@pytest.mark.parametrize("kind", LEARNERS)
def test_the_column_that_is_meant_is_the_one_that_is_used(kind: str, preprocessing: str) -> None:
    found = run(LEARNERS[kind](), preprocessing=preprocessing)
    assert np.mean([row.pooled["local"] for row in found.rows]) > 0.85
    assert set(found.models["north"].predict(frame(9, 5))) <= {"yes", "no"}


@pytest.mark.parametrize(
    "kind", [columns(["agee"], ["grade"]), HistGradientBoostingClassifier(monotonic_cst={"agee": 1})]
)
def test_a_column_that_is_not_there_is_refused_before_a_round(kind: Any) -> None:
    with pytest.raises(LearnerError, match="names the column 'agee': did you mean 'age'"):
        run(kind)


class ByName(ClassifierMixin, BaseEstimator):
    """A classifier of one's own, which preprocessing hands an array."""

    def fit(self, X: Any, y: Any) -> "ByName":
        self.classes_, self.highest_ = np.unique(y), X["age"].max()
        return self

    def predict(self, X: Any) -> Any:
        return self.classes_[(X["age"] > self.highest_).astype(int)]


class Rule(ByName):
    """One that looks at the table only where it predicts."""

    def fit(self, X: Any, y: Any) -> "ByName":
        self.classes_, self.highest_ = np.unique(y), 60
        return self


@pytest.mark.filterwarnings("ignore:.* gets a column for each value of 'grade', so later columns have other places")
def test_ones_own_classifier_that_wants_the_table_is_told_how_to_get_it() -> None:
    with pytest.raises(RunError, match="with preprocessing = 'none' it gets the table"):
        run(ByName())
    with pytest.raises(RunError, match=r"could not predict: .* \(with preprocessing = 'none' it gets the table\)"):
        run(Rule())
    assert run(ByName(), preprocessing="none").status == "completed"


class ByPlace(ByName):
    """One that counts columns."""

    fit = Rule.fit

    def predict(self, X: Any) -> Any:
        return self.classes_[(np.asarray(X)[:, 2].astype(float) > 0).astype(int)]


def test_ones_own_rule_by_position_is_told_that_columns_move() -> None:
    with pytest.warns(DataWarning, match="gets a column for each value of 'grade', so later columns have other places"):
        run(ByPlace())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(ByPlace(), preprocessing="none")
        run(LOCAL(max_iter=2000))
        run(Pipeline([("nothing", "passthrough"), ("linear", LogisticRegression(max_iter=2000))]))


def test_teachers_get_them_as_well() -> None:
    found = run(LEARNERS["by name"](), algorithm="fedkt")
    assert found.status == "completed"


@pytest.mark.parametrize(
    "kind",
    [
        make_pipeline(FunctionTransformer(lambda table: table[["age"]]), LogisticRegression()),
        LOCAL(max_iter=2000),
        HistGradientBoostingClassifier(early_stopping=True, scoring="roc_auc"),
    ],
    ids=["function", "class", "import path"],
)
def test_a_model_that_no_file_can_hold_is_kept_in_this_process(kind: Any) -> None:
    found = run(kind)
    assert not np.isnan([row.pooled["federated"] for row in found.rows]).any()
    assert set(found.models["north"].predict(frame(9, 5))) <= {"yes", "no"}
    assert not [*(found.path / "models").glob("*")]


def test_pipelines_get_what_scikit_learn_is_set_to() -> None:
    parts = [("n", StandardScaler(), ["age", "bp"]), ("c", OneHotEncoder(sparse_output=False), ["grade"])]
    own = FunctionTransformer(lambda table: table[["c__grade_v", "c__grade_y"]])
    with config_context(transform_output="pandas"):
        found = run(make_pipeline(ColumnTransformer(parts), own, LogisticRegression()))
    assert min(row.pooled["federated"] for row in found.rows) > 0.8
    test = frame(150, 5)
    assert found.models["north"].score(test, test["ill"]) > 0.8


def test_a_run_says_why_a_model_could_not_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "memory_for", lambda folder: ModelMemory())
    with pytest.warns(UserWarning, match="keep its model: north, south: Pipeline cannot be saved"):
        found = run(make_pipeline(FunctionTransformer(lambda table: table[["age"]]), LogisticRegression()))
    assert "flower.log in the run folder says why" in " ".join(found.notes)


def notes(n: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    ill = rng.random(n) < 0.5
    words = {True: ["severe", "pain", "fever", "cough"], False: ["feels", "well", "and", "sleeps"]}
    return pd.DataFrame({"note": [" ".join(rng.choice(words[y], 5)) for y in ill], "ill": np.where(ill, "yes", "no")})


def test_one_column_of_sentences_is_what_a_learner_of_texts_reads_and_the_remedy_elsewhere() -> None:
    silos, public = {"a": notes(60, 0), "b": notes(60, 1)}, notes(60, 2).drop(columns="ill")
    found = simulate(silos, public, label="ill", learner="tfidf-linear", rounds=2, progress=False)
    assert min(row.pooled["federated"] for row in found.rows) > 0.8
    with pytest.raises(DataError, match=r"have: read it as text \(--set text-columns=note"):
        simulate(silos, public, label="ill", learner="random-forest", progress=False)
