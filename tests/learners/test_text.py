"""Which learners read columns of text, what they get, and what is said of those that do not."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA
from sklearn.ensemble import AdaBoostClassifier, HistGradientBoostingClassifier, StackingClassifier, VotingClassifier
from sklearn.ensemble import RandomForestClassifier as RandomForest
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.impute import KNNImputer, MissingIndicator, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from fedct_flwr.config.learner import LearnerSettings
from fedct_flwr.datasets.federated import PublicSet
from fedct_flwr.datasets.schema import Column, Held, Schema
from fedct_flwr.learners.build import learner_for
from fedct_flwr.learners.catalog import HeldLearner
from fedct_flwr.learners.sklearn import SklearnLearner
from fedct_flwr.learners.text import Reading, misread, reading_of, transformer_for
from fedct_flwr.learners.trained_model import apply
from fedct_flwr.models.loading import load_model
from fedct_flwr.models.model_file import ModelDescription, save_model
from fedct_flwr.types import DataError, LearnerError

SCHEMA = Schema(("well", "ill"), (Column("age"), Column("note", text=True), Column("ward", ("a", "b"))))
TEXT_ALONE = Schema(("well", "ill"), (Column("note", text=True), Column("plan", text=True)))


class Seen(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Keeps what it was given."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Seen":
        self.X_, self.classes_ = X, np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        return np.zeros(len(X), dtype=int)


def by_texts() -> Any:
    return make_pipeline(TfidfVectorizer(), LogisticRegression())


def by_table() -> Any:
    columns = ColumnTransformer([("words", TfidfVectorizer(), "note"), ("rest", "passthrough", ["ward"])])
    return make_pipeline(columns, LogisticRegression())


def by_union() -> Any:
    return make_pipeline(FeatureUnion([("a", CountVectorizer()), ("b", HashingVectorizer())]), LogisticRegression())


def calibrated() -> Any:
    return CalibratedClassifierCV(by_texts(), cv=2)


def records(number: int = 60, seed: int = 0) -> tuple[Any, Any]:
    """Ages and wards say nothing; ``pain`` means ill."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, number).astype(np.int16)
    notes = [f"{'pain' if ill else 'fine'} word{rng.integers(20)} today" for ill in y]
    rows = zip(
        rng.normal(50, 9, number).tolist(), notes, rng.integers(0, 3, number).astype(float).tolist(), strict=True
    )
    X = np.array(list(rows), dtype=object)
    X[0, 0], X[1, 1] = float("nan"), ""
    y[1] = 0
    return X, y


def made(name: str, schema: Schema = SCHEMA, **settings: Any) -> SklearnLearner:
    X, _ = records()
    X = X if schema is SCHEMA else X[:, [1, 1]]
    found = learner_for(LearnerSettings(name=name, **settings), "north", schema, PublicSet(X[:20]), X[20:])
    assert isinstance(found, SklearnLearner)
    return found


@pytest.mark.parametrize(
    ("name", "preprocessing", "reading"),
    [
        ("tfidf-linear", "standard", "tf-idf"),
        ("auto", "standard", "choice"),
        ("auto", "none", "nothing"),
        ("logistic-regression", "standard", "nothing"),
        ("random-forest", "none", "nothing"),
        ("tests.learners.test_text.by_texts", "standard", "texts"),
        ("tests.learners.test_text.by_union", "standard", "texts"),
        ("tests.learners.test_text.calibrated", "standard", "texts"),
        ("tests.learners.test_text.by_table", "standard", "table"),
        ("tests.learners.test_text.Seen", "standard", "nothing"),
        ("tests.learners.test_text.Seen", "none", "table"),
    ],
)
def test_what_a_learner_takes_of_text(name: str, preprocessing: Any, reading: Reading) -> None:
    assert reading_of(LearnerSettings(name=name, preprocessing=preprocessing), SCHEMA)[0] == reading


@pytest.mark.parametrize(
    "name", ["tfidf-linear", "tests.learners.test_text.by_texts", "tests.learners.test_text.by_table"]
)
def test_learners_of_text_learn_from_it_and_are_saved(tmp_path: Path, name: str) -> None:
    X, y = records(100)
    learner = made(name).fit(X, y)
    assert (learner.predict(X) == y).mean() > 0.97
    shares = learner.probabilities(X, 2)
    assert shares is not None
    assert shares.shape == (100, 2)
    learner.save(tmp_path / "model.skops")
    again = made(name).load(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.predict(X), learner.predict(X))


def table_for(model: Any, schema: Schema, X: Any) -> Any:
    """The transformer before an object of the user's own."""
    held = HeldLearner("own.Model@1", lambda: model, [])
    return transformer_for(LearnerSettings(name=held.name, preprocessing="none"), schema, X)


def by_words_and(*parts: Any, **settings: Any) -> Any:
    return make_pipeline(ColumnTransformer([("words", TfidfVectorizer(), "note"), *parts], **settings), Seen())


@pytest.mark.parametrize(
    ("model", "wanted"),
    [
        (by_words_and(("own", FunctionTransformer(lambda d: d == "a"), ["ward"])), "b"),
        (by_words_and(("one-hot", OneHotEncoder(categories=[["a", "b"]]), ["ward"])), "b"),
        (by_words_and(("numbers", StandardScaler(), make_column_selector(dtype_include="number"))), "b"),
        (by_words_and(("scaled", StandardScaler(), [0, 2])), 1.0),
        (by_words_and(remainder="passthrough"), 1.0),
        (make_pipeline(FunctionTransformer(lambda d: d[["ward"]]), Seen()), "b"),
    ],
)
def test_next_to_text_categories_are_numbers_only_for_parts_that_take_no_strings(model: Any, wanted: Any) -> None:
    table = table_for(model, SCHEMA, records()[0])
    assert table.transform(np.array([[50.0, "fine", 1.0]], dtype=object))["ward"].tolist() == [wanted]


def test_boosted_trees_get_text_as_categories_unless_a_step_stands_before_them() -> None:
    schema = Schema(SCHEMA.classes, (Column("age"), Column("ward", ("a", "b")), Column("no", ())))
    trees = HistGradientBoostingClassifier(categorical_features=["ward"])
    by_dtype = ColumnTransformer([("c", OneHotEncoder(), lambda d: d.select_dtypes(["object", "str"]).columns)])
    found = []
    own = type("Own", (HistGradientBoostingClassifier,), {"__module__": "mine"})(categorical_features=["ward"])
    behind = make_pipeline(by_dtype, HistGradientBoostingClassifier())
    for model in (trees, VotingClassifier([("t", trees)]), own, behind):
        table = table_for(model, schema, np.array([[50.0, 1.0, np.nan]]))
        found.append(table.transform(np.array([[50.0, 0.0, 0.0]]))["ward"].dtype == "category")
    assert found == [True, True, True, False]


@pytest.mark.parametrize(
    ("model", "reading"),
    [
        (lambda: pytest.importorskip("lightgbm").LGBMClassifier(), "table"),
        (lambda: GridSearchCV(pytest.importorskip("lightgbm").LGBMClassifier(), {}), "table"),
        (lambda: pytest.importorskip("xgboost").XGBClassifier(enable_categorical=False), "nothing"),
        (HistGradientBoostingClassifier, "table"),
        (lambda: HistGradientBoostingClassifier(categorical_features=None), "nothing"),
        (lambda: make_pipeline(StandardScaler(), HistGradientBoostingClassifier()), "nothing"),
    ],
)
def test_without_preprocessing_trees_that_take_categories_by_dtype_get_the_table(model: Any, reading: Reading) -> None:
    held = HeldLearner("own.Model@1", model, [])
    schema = Schema(SCHEMA.classes, (Column("age"), Column("ward", ("a", "b"))))
    assert reading_of(LearnerSettings(name=held.name, preprocessing="none"), schema)[0] == reading
    assert reading_of(LearnerSettings(name=held.name), schema)[0] == "nothing"
    numbers = Schema.numeric(SCHEMA.classes, ("age",))
    assert reading_of(LearnerSettings(name=held.name, preprocessing="none"), numbers)[0] == "nothing"


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (make_pipeline(FunctionTransformer(lambda d: d), Seen()), True),
        (make_pipeline(FunctionTransformer(np.log1p), LogisticRegression()), False),
        (LogisticRegression(), False),
    ],
)
def test_that_dates_are_numbers_is_told_where_own_code_gets_them(model: Any, told: bool) -> None:
    held = HeldLearner("own.Model@1", lambda: model, [])
    schema = Schema(SCHEMA.classes, (Column("age"), Column("seen", held=Held("days"))))
    found = [*misread(LearnerSettings(name=held.name), schema)]
    assert [f"learner {held.name!r} gets 'seen' as days since 1970, not as dates" in text for text in found] == (
        [True] if told else []
    )
    assert not [*misread(LearnerSettings(name=held.name), SCHEMA)]


def scaled(columns: Any) -> Any:
    return make_pipeline(ColumnTransformer([("n", StandardScaler(), columns)]), LogisticRegression())


@pytest.mark.parametrize(
    ("model", "numbers"),
    [
        (scaled([1]), True),
        (scaled(1), True),
        (scaled([False, True]), True),
        (scaled(slice(1, 2)), True),
        (HistGradientBoostingClassifier(monotonic_cst=[1, 0]), True),
        (scaled(["age"]), False),
        (scaled(slice("age", "age")), False),
        (scaled(make_column_selector(dtype_include="number")), False),
        (HistGradientBoostingClassifier(monotonic_cst={"age": 1}), False),
        (LogisticRegression(), False),
    ],
)
def test_that_a_silo_has_other_positions_is_told_where_a_learner_numbers_columns(model: Any, numbers: bool) -> None:
    held = HeldLearner("own.Model@1", lambda: model, [])
    settings, schema = LearnerSettings(name=held.name), Schema.numeric(("a", "b"), ("age", "bp"))
    told = f"learner {held.name!r} numbers columns in the order of the public set, and they moved: name the columns"
    assert [*misread(settings, schema, "they moved")] == ([told] if numbers else [])
    assert not [*misread(settings, schema)]


@pytest.mark.parametrize("name", ["logistic-regression", "decision-tree", "tests.learners.test_text.Seen"])
def test_other_learners_get_the_other_columns(name: str) -> None:
    X, y = records()
    learner = made(name)
    learner.fit(X, y)
    transformer, _ = learner.parts
    numbers = Schema(SCHEMA.classes, (SCHEMA.columns[0], SCHEMA.columns[2]))
    plain = X[:, [0, 2]].astype(np.float64)
    same, _ = learner_for(LearnerSettings(name=name), "north", numbers, PublicSet(plain[:20]), plain[20:]).parts  # type: ignore[attr-defined]
    np.testing.assert_array_equal(transformer.transform(X), same.transform(plain))


@pytest.mark.parametrize(
    ("model", "kept"),
    [
        (make_pipeline(StandardScaler(), SimpleImputer(add_indicator=True), LogisticRegression()), True),
        (make_pipeline(FeatureUnion([("a", KNNImputer()), ("b", MissingIndicator())]), LogisticRegression()), True),
        (GridSearchCV(make_pipeline(SimpleImputer(), LogisticRegression()), {}), True),
        (VotingClassifier([("a", make_pipeline(SimpleImputer(), LogisticRegression())), ("b", RandomForest())]), True),
        (make_pipeline(StandardScaler(), HistGradientBoostingClassifier()), True),
        (CalibratedClassifierCV(RandomForest()), True),
        (AdaBoostClassifier(RandomForest()), False),
        (CalibratedClassifierCV(), False),
        (StackingClassifier([("a", RandomForest())], passthrough=True), False),
        (make_pipeline(FeatureUnion([("a", SimpleImputer()), ("b", PCA())]), LogisticRegression()), False),
        (make_pipeline(SimpleImputer(missing_values=0), LogisticRegression()), False),
        (GridSearchCV(RandomForest(), {"estimator": [LogisticRegression()]}), False),
        (make_pipeline(PCA(), SimpleImputer(), LogisticRegression()), False),
        (VotingClassifier([("a", LogisticRegression()), ("b", RandomForest())]), False),
        (make_pipeline(StandardScaler(), LogisticRegression()), False),
        (Seen(), False),
    ],
)
def test_an_own_estimator_that_fills_or_takes_missing_values_gets_them(model: Any, kept: bool) -> None:
    held = HeldLearner("own.Model@2", lambda: model, [])
    schema = Schema(("a", "b"), (Column("age"), Column("sex", ("f", "m")), Column("bp")))
    # 20 gaps and 20 values of the age; of the pressure too few gaps for each fold to have some.
    X = np.float64([[50, 1, 140], [np.nan, 0, 120]] * 20)
    X[0, 2] = np.nan
    found = apply(transformer_for(LearnerSettings(name=held.name), schema, X), X)
    # The columns keep their places, so that parameters with a value for each column fit.
    expected = X.copy()
    expected[0, 2] = np.nanmean(X[:, 2])
    expected[:, 0] = X[:, 0] if kept else 50
    np.testing.assert_array_equal(found, expected)
    # A silo without gaps has nothing to learn from them, so those of others are filled.
    complete = np.float64([[50, 1, 140], [60, 0, 120]] * 20)
    assert not np.isnan(apply(transformer_for(LearnerSettings(name=held.name), schema, X, complete), X)).any()


class ByNumber(Seen):
    """Numbers columns as LightGBM does."""

    def __init__(self, categorical_feature: Any = (2,)) -> None:
        self.categorical_feature = categorical_feature


def test_numbers_of_columns_are_refused_where_a_category_becomes_several() -> None:
    held = HeldLearner("own.Model@3", ByNumber, [])
    schema = Schema(("a", "b"), (Column("age"), Column("ward", ("u", "v", "w")), Column("bp")))
    X = np.float64([[50, 1, 140], [60, 0, 120], [70, 2, 150]])
    with pytest.raises(LearnerError, match=r"'categorical_feature'.*preprocessing to 'none'"):
        transformer_for(LearnerSettings(name=held.name), schema, X)
    assert transformer_for(LearnerSettings(name=held.name), schema, X[:2])


def test_words_come_from_public_and_own_texts() -> None:
    X, _ = records()
    X[0, 1], X[30, 1] = "publicword", "ownword"
    learner = learner_for(LearnerSettings(name="tfidf-linear"), "a", SCHEMA, PublicSet(X[:20]), X[20:])
    words = learner.parts[0].named_transformers_["text1"].words_.split("\n")  # type: ignore[attr-defined]
    assert {"publicword", "ownword"} <= set(words)


@pytest.mark.parametrize(
    ("name", "schema", "settings", "word"),
    [
        ("decision-tree", TEXT_ALONE, {}, "all columns hold text"),
        ("tfidf-linear", SCHEMA, {"preprocessing": "none"}, "preprocessing"),
        ("tfidf-linear", Schema.numeric(("a", "b"), ("x",)), {}, "text-columns"),
    ],
)
def test_what_cannot_be_is_refused(name: str, schema: Schema, settings: Any, word: str) -> None:
    X = np.ones((4, 1)) if not schema.texts else records()[0]
    with pytest.raises(LearnerError, match=word):
        learner_for(LearnerSettings(name=name, **settings), "a", schema, PublicSet(X[:2]), X[2:])


def test_texts_without_words_are_an_error_that_names_the_reason() -> None:
    X = np.array([[1.0, "", 0.0], [2.0, "!", 1.0]], dtype=object)
    with pytest.raises(DataError, match="empty vocabulary"):
        learner_for(LearnerSettings(name="tfidf-linear"), "a", SCHEMA, PublicSet(X), X)


def test_a_global_model_of_text_is_read_without_trusting_anybody(tmp_path: Path) -> None:
    X, y = records()
    learner = made("tfidf-linear").fit(X, y)
    columns = [(column.name, column.categories) for column in SCHEMA.columns]
    said = {"study": "s", "classes": SCHEMA.classes, "columns": columns, "text": ["note"]}
    said |= {"learner": "tfidf-linear", "shape": (3,)}
    save_model(tmp_path / "global.skops", learner, learner.parts[0], ModelDescription.read(said, "a test"))
    model = load_model(tmp_path / "global.skops")
    assert model.schema.columns == SCHEMA.columns
    np.testing.assert_array_equal(model.predict(X), learner.predict(X))
