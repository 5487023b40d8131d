"""What onnxruntime predicts is what the model predicts."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import BaggingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsOneClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PowerTransformer, RobustScaler, StandardScaler
from sklearn.svm import SVC

from fedct_flwr.config.learner import LearnerSettings
from fedct_flwr.datasets.federated import PublicSet
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.learners import preprocessing
from fedct_flwr.learners.build import learner_for, untrained
from fedct_flwr.learners.sklearn import SklearnLearner
from fedct_flwr.models.loading import Model, load_model, recalibrated
from fedct_flwr.models.model_file import save_model
from fedct_flwr.models.onnx_export import to_onnx
from fedct_flwr.scoring.assessment import Recalibration
from fedct_flwr.types import ConfigError, DataError
from tests.models.test_model_file import LISTED, SCHEMA, description, saved, table

onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")


def run(model: Model, X: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Labels, probabilities or None, and the description in the file."""
    session = onnxruntime.InferenceSession(to_onnx(model), providers=["CPUExecutionProvider"])
    outputs = dict(
        zip([output.name for output in session.get_outputs()], session.run(None, {"features": X}), strict=True)
    )
    said = json.loads(session.get_modelmeta().custom_metadata_map["fedct"])
    return outputs["label"], outputs.get("probabilities"), said


@pytest.mark.parametrize("name", LISTED)
def test_classifiers(tmp_path: Path, name: str) -> None:
    saved(tmp_path / "m", name)
    model = load_model(tmp_path / "m")
    # Among them missing values, and a category that the study does not know.
    X = np.concatenate([table(seed=seed)[0] for seed in range(1, 6)])
    labels, probabilities, said = run(model, X)
    assert (labels == model.predict(X)).all()
    expected = model.probabilities(X)
    assert (probabilities is None) == (expected is None)
    if expected is not None:
        np.testing.assert_allclose(probabilities, expected, atol=1e-5)
    assert said == json.loads(json.dumps(model.description.model_dump(by_alias=True)))


@pytest.mark.parametrize("classes", [("b", "a", "c"), ("3", "1", "2")])
@pytest.mark.parametrize(
    "name",
    [
        "sklearn.linear_model.LogisticRegression",
        "sklearn.ensemble.RandomForestClassifier",
        "sklearn.ensemble.HistGradientBoostingClassifier",
        "lightgbm.LGBMClassifier",
    ],
)
def test_an_own_classifier_that_knows_labels_and_not_all_of_them(
    tmp_path: Path, name: str, classes: tuple[str, ...]
) -> None:
    pytest.importorskip(name.partition(".")[0])
    X, y = table()
    # One column for a category of two values, and so many gaps that an estimator that takes them gets them.
    X[:, 2], X[::2, 0] = X[:, 2] > 0, np.nan
    settings = LearnerSettings(name=name, params={"verbose": -1} if "lightgbm" in name else {})
    learner = learner_for(settings, "east", Schema(classes, SCHEMA.columns), PublicSet(X), X)
    learner.fit(X, np.where(y == 1, 2, y).astype(np.int16))
    save_model(tmp_path / "m", learner, None, description(name, classes=classes))
    model = load_model(tmp_path / "m", [name.partition(".")[0]])
    labels, probabilities, _ = run(model, X)
    assert set(labels) == {0, 2}
    assert (labels == learner.predict(X)).all()
    np.testing.assert_allclose(probabilities, model.probabilities(X), atol=1e-5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "learner",
    [
        SVC(),
        make_pipeline(RobustScaler(), LogisticRegression()),
        GridSearchCV(make_pipeline(StandardScaler(), LogisticRegression()), {"logisticregression__C": [0.1, 1.0]}),
    ],
    ids=["support vectors", "pipeline", "search"],
)
def test_estimators_of_two_classes_with_parts(learner: Any) -> None:
    X, y = table()
    schema = Schema(("no", "yes"), SCHEMA.columns)
    own = SklearnLearner(learner, preprocessing.standard(schema, X)).fit(X, (y == 1).astype(np.int16))
    model = Model(description(type(learner).__name__, classes=schema.classes), schema, own)
    labels, probabilities, _ = run(model, X)
    assert (labels == own.predict(X)).all()
    expected = model.probabilities(X)
    if expected is not None:
        np.testing.assert_allclose(probabilities, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("learner", "classes", "gaps"),
    [
        (CalibratedClassifierCV(make_pipeline(StandardScaler(), LogisticRegression()), cv=3), 2, False),
        (LinearDiscriminantAnalysis(), 2, False),
        (make_pipeline(StandardScaler(), KNeighborsClassifier(7, weights="distance")), 3, False),
        (make_pipeline(StandardScaler(), SGDClassifier(loss="modified_huber", random_state=0)), 3, False),
        (BaggingClassifier(), 3, True),
        (make_pipeline(SimpleImputer(add_indicator=True), LogisticRegression()), 3, True),
        (make_pipeline(PowerTransformer(), SimpleImputer(), LogisticRegression()), 3, True),
    ],
    ids=["calibrated", "discriminant", "distances", "huber", "bagging", "indicator", "power"],
)
def test_what_converters_answer_otherwise_is_refused(learner: Any, classes: int, gaps: bool) -> None:
    X, y = table()
    if gaps:
        X[::2, 0] = np.nan
    schema = Schema(SCHEMA.classes[:classes], SCHEMA.columns)
    own = SklearnLearner(learner, preprocessing.standard(schema, X, scaled=False, imputed=not gaps))
    model = Model(description("own", classes=schema.classes), schema, own.fit(X, (y % classes).astype(np.int16)))
    with pytest.raises(ConfigError, match="that answers the same") as error:
        to_onnx(model)
    assert gaps or "missing" not in str(error.value)


def test_columns_of_codes_are_drawn_as_codes() -> None:
    X, y = table()
    X[:, :2], X[0] = np.random.default_rng(0).integers(0, 4, (60, 2)), 0
    codes = make_pipeline(OneHotEncoder(), LogisticRegression())
    own = SklearnLearner(codes, preprocessing.standard(SCHEMA, X, scaled=False)).fit(X, y)
    model = Model(description("own", quantiles={"x": range(4), "y": range(4)}), SCHEMA, own)
    assert (run(model, X)[0] == own.predict(X)).all()


@pytest.mark.parametrize("learner", [OneVsOneClassifier(LogisticRegression()), KNeighborsClassifier(7)])
def test_labels_are_a_vector(learner: Any) -> None:
    X, y = table()
    own = SklearnLearner(learner, preprocessing.standard(SCHEMA, X)).fit(X, y)
    assert (run(Model(description("own"), SCHEMA, own), X)[0] == own.predict(X)).all()


def test_a_network_behind_a_preprocessing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples"))
    X, y = table()
    transformer = preprocessing.standard(SCHEMA, X)
    learner = untrained(
        LearnerSettings(name="own_network.make", device="cpu"), 0, ("a", "b", "c"), X[:2], transformer, total_steps=20
    )
    save_model(tmp_path / "m", learner.fit(X, y), transformer, description("own_network.make"))
    model = load_model(tmp_path / "m", ["own_network"])
    new = table(seed=1)[0]
    labels, probabilities, _ = run(model, new)
    assert (labels == model.predict(new)).all()
    np.testing.assert_allclose(probabilities, model.probabilities(new), atol=1e-5)  # type: ignore[arg-type]


def test_a_model_of_numbers_is_refused() -> None:
    schema = Schema((), SCHEMA.columns, quantity="days")
    with pytest.raises(ConfigError, match="a model of numbers or times has no ONNX form"):
        to_onnx(Model(description("ridge", classes=(), quantity="days"), schema, SklearnLearner(LogisticRegression())))


def test_what_nobody_converts_is_one_sentence(tmp_path: Path) -> None:
    saved(tmp_path / "m", "xgboost", np.where(table()[1] == 1, 2, table()[1]).astype(np.int16))
    with pytest.raises(ConfigError, match="no converter makes ONNX of this model"):
        to_onnx(load_model(tmp_path / "m"))


def test_an_exported_model_is_used_as_one_from_elsewhere(tmp_path: Path) -> None:
    saved(tmp_path / "m.skops", "random-forest")
    own = load_model(tmp_path / "m.skops")
    (tmp_path / "m.onnx").write_bytes(to_onnx(own))
    theirs, X = load_model(tmp_path / "m.onnx"), table(seed=1)[0]
    assert (theirs.predict(X) == own.predict(X)).all()
    assert theirs.schema == own.schema
    np.testing.assert_allclose(theirs.probabilities(X), own.probabilities(X), atol=1e-5)
    (tmp_path / "m.onnx").write_bytes(b"no graph")
    with pytest.raises(DataError, match="not an ONNX model"):
        load_model(tmp_path / "m.onnx")


@pytest.mark.parametrize("name", ["logistic-regression", "random-forest"])
def test_chances_are_in_the_graph(tmp_path: Path, name: str) -> None:
    saved(tmp_path / "m", name)
    classes = len(load_model(tmp_path / "m").schema.classes)
    how = Recalibration(0.4, (0.0, *np.linspace(-1.5, 0.5, classes - 1)), 90)
    content = recalibrated(tmp_path / "m", how)
    (tmp_path / "m").write_bytes(content)
    model = load_model(tmp_path / "m")
    X = table(seed=3)[0]
    labels, probabilities, said = run(model, X)
    assert (labels == model.predict(X)).all()
    np.testing.assert_allclose(probabilities, how.apply(model.probabilities(X, raw=True)), atol=1e-5)
    assert said["chances"]["records"] == 90
    # Where the file is read again, nothing is recalibrated twice.
    (tmp_path / "m.onnx").write_bytes(to_onnx(model))
    np.testing.assert_allclose(load_model(tmp_path / "m.onnx").probabilities(X), probabilities, atol=1e-6)
    with pytest.raises(ConfigError, match="export that"):
        recalibrated(tmp_path / "m.onnx", how)
