"""Calibrated probabilities: better on records that nobody has learned, and the same classes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

from fedct_flwr import ConfigError, simulate
from fedct_flwr.config import LearnerSettings, ModelDescription
from fedct_flwr.learners.build import untrained
from fedct_flwr.learners.calibrated import Calibration, calibrate, calibration_for, fit_alone
from fedct_flwr.models.model_file import load_model, save_model
from fedct_flwr.models.onnx_export import to_onnx
from fedct_flwr.types import Examples

METHODS = ("sigmoid", "isotonic")
TINY, WIDE = "tests.simulated_network.tiny", "tests.simulated_network.wide"
OVERCONFIDENT = ("naive-bayes", "decision-tree")


def records(n: int, classes: int = 2, seed: int = 0) -> tuple[Examples, Examples]:
    """Records to train on, and many more. Each feature is there three times, which naive Bayes takes for evidence."""
    X, y = make_classification(
        n + 4000, 6, n_informative=4, n_redundant=0, n_classes=classes, flip_y=0.2, class_sep=0.7, random_state=seed
    )
    X, y = np.tile(X, 3), y.astype(np.int16)
    return Examples(X[:n], y[:n]), Examples(X[n:], y[n:])


def learner_of(name: str, calibration: str = "none", classes: int = 2) -> Any:
    settings = LearnerSettings(name=name, calibration=calibration)
    return untrained(settings, 0, classes, np.zeros((2, 18)), None)


def brier(found: np.ndarray, y: np.ndarray) -> float:
    return float(((found - np.eye(found.shape[1])[y]) ** 2).sum(axis=1).mean())


def calibration_error(found: np.ndarray, y: np.ndarray) -> float:
    """Expected calibration error of the most probable class, in ten bins."""
    sure, right = found.max(axis=1), found.argmax(axis=1) == y
    place = np.minimum((sure * 10).astype(int), 9)
    return sum(abs(right[place == k].mean() - sure[place == k].mean()) * (place == k).mean() for k in set(place))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", OVERCONFIDENT)
def test_overconfident_models_become_better_on_unseen_records(name: str, method: Any, classes: int) -> None:
    private, unseen = records(600, classes)
    learner = learner_of(name, method, classes).fit(*private)
    before, said = learner.probabilities(unseen.X, classes), learner.predict(unseen.X)
    calibrate(learner, LearnerSettings(name=name, calibration=method), "essen", private, None, classes)
    after = learner.probabilities(unseen.X, classes)
    np.testing.assert_array_equal(learner.predict(unseen.X), said)
    np.testing.assert_allclose(after.sum(axis=1), 1)
    assert brier(after, unseen.y) < 0.95 * brier(before, unseen.y)
    assert calibration_error(after, unseen.y) < 0.5 * calibration_error(before, unseen.y)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("method", METHODS)
def test_the_curves_are_scikit_learns(method: Any, classes: int) -> None:
    private, unseen = records(300, classes)
    model = RandomForestClassifier(20, random_state=0).fit(*private)
    theirs = CalibratedClassifierCV(FrozenEstimator(model), method=method, ensemble=False).fit(*unseen)
    ours = Calibration.fitted(model.predict_proba(unseen.X), unseen.y, method)
    np.testing.assert_allclose(
        ours.apply(model.predict_proba(private.X)), theirs.predict_proba(private.X), rtol=1e-9, atol=1e-12
    )


def test_no_curve_is_fitted_to_a_record_that_its_model_has_learned() -> None:
    private, _ = records(60)
    seen: list[set[bytes]] = []

    def fit(learner: Any, part: Examples) -> None:
        seen.append({row.tobytes() for row in part.X})
        learner.fit(*part)

    learner = learner_of("naive-bayes").fit(*private)
    everything = {row.tobytes() for row in private.X}
    assert calibration_for(learner, private, None, 2, "sigmoid", fit, 0)
    left_out = [everything - part for part in seen]
    assert len(left_out) == 5
    assert set().union(*left_out) == everything
    assert sum(map(len, left_out)) == len(everything)


def test_a_patient_is_never_on_both_sides() -> None:
    private, _ = records(100)
    groups = np.repeat(np.arange(20), 5)
    private = Examples(private.X, np.repeat(np.arange(20) % 2, 5).astype(np.int16))
    of = {row.tobytes(): int(group) for row, group in zip(private.X, groups, strict=True)}
    trained: list[set[int]] = []

    def fit(learner: Any, part: Examples) -> None:
        trained.append({of[row.tobytes()] for row in part.X})
        # Whole groups or nothing.
        assert len(part.X) == 5 * len(trained[-1])
        learner.fit(*part)

    learner = learner_of("decision-tree").fit(*private)
    assert calibration_for(learner, private, groups, 2, "isotonic", fit, 0)
    assert len(trained) == 5
    few = np.repeat(np.arange(4), 25)
    assert calibration_for(learner, private, few, 2, "isotonic", fit_alone, 0) is None


@pytest.mark.parametrize("y", [[0] * 30, [0] * 26 + [1] * 4, [0] * 15 + [1] * 15])
def test_without_enough_records_of_each_class_that_it_knows_it_stays_as_it_is(y: list[int]) -> None:
    private = Examples(np.random.default_rng(0).normal(size=(30, 18)), np.array(y, dtype=np.int16))
    learner = learner_of("naive-bayes", classes=3)
    # The last one has learned a third class from others, of which it has no record.
    more = Examples(np.r_[private.X, private.X[:3] + 9], np.r_[private.y, [2, 2, 2]].astype(np.int16))
    learner.fit(*(more if sum(y) == 15 else private))
    assert calibration_for(learner, private, None, 3, "sigmoid", fit_alone, 0) is None


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["naive-bayes", "random-forest", "logistic-regression"])
def test_a_file_holds_it_and_is_read_elsewhere(tmp_path: Path, name: str, method: Any) -> None:
    private, unseen = records(200)
    learner = learner_of(name, method).fit(*private)
    calibrate(learner, LearnerSettings(name=name, calibration=method), "essen", private, None, 2)
    columns = [(f"x{n}", None) for n in range(18)]
    said = {"study": "s", "classes": ("a", "b"), "columns": columns, "learner": name, "shape": (18,)}
    save_model(tmp_path / "m.skops", learner, None, ModelDescription.read(said, "a test"))
    model = load_model(tmp_path / "m.skops")
    assert model.calibrated
    np.testing.assert_array_equal(model.probabilities(unseen.X), learner.probabilities(unseen.X, 2))
    again = learner_of(name).load(tmp_path / "m.skops")
    np.testing.assert_array_equal(again.probabilities(unseen.X, 2), learner.probabilities(unseen.X, 2))
    again.fit(*private)
    assert not again.calibrated


def frames() -> tuple[dict[str, Any], Any, Examples]:
    private, unseen = records(900)
    parts = {name: Examples(private.X[k::3], private.y[k::3]) for k, name in enumerate("abc")}
    return {name: (part.X, part.y) for name, part in parts.items()}, unseen.X[:200], unseen


def test_a_run_shares_the_same_labels_and_keeps_better_models(tmp_path: Path) -> None:
    silos, public, unseen = frames()
    settings: dict[str, Any] = {"learner": "naive-bayes", "rounds": 2, "progress": False}
    runs = {
        method: simulate(silos, public, calibration=method, run_dir=tmp_path / method, **settings)
        for method in ("none", *METHODS)
    }
    rest = Examples(unseen.X[200:], unseen.y[200:])
    plain = runs["none"]
    for method in METHODS:
        run = runs[method]
        np.testing.assert_array_equal(run.consensus, plain.consensus)
        assert [record["bytes_sent"] for record in run.records] == [record["bytes_sent"] for record in plain.records]
        for silo in "abc":
            one, other = run.models[silo], plain.models[silo]
            np.testing.assert_array_equal(one.predict(rest.X), other.predict(rest.X))
            before, after = other.predict_proba(rest.X), one.predict_proba(rest.X)
            assert brier(after, rest.y) < brier(before, rest.y)
            assert calibration_error(after, rest.y) < 0.5 * calibration_error(before, rest.y)
            assert load_model(run.path / "models" / f"{silo}.skops").calibrated
        # Classes, and so these scores, stay the same.
        assert [row.own for row in run.rows] == [row.own for row in plain.rows]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"learner": "svm"}, "knows no probabilities"),
        ({"learner": "naive-bayes", "algorithm": "fedkt"}, "no effect"),
        ({"learner": "naive-bayes", "save_models": False}, "save-models"),
        ({"learner": "ridge", "algorithm": "dd", "outcome": "number"}, "needs classes"),
        ({"learner": "naive-bayes", "calibration": "platt"}, "calibration"),
    ],
)
def test_where_it_has_no_effect_it_is_refused(settings: dict[str, Any], said: str) -> None:
    silos, public, _ = frames()
    with pytest.raises(ConfigError, match=said):
        simulate(silos, public, **{"calibration": "sigmoid", "progress": False, **settings})


def network_of(calibration: str = "none", classes: int = 2) -> Any:
    """One that soon knows its records by heart."""
    pytest.importorskip("torch")
    said = {"name": WIDE, "calibration": calibration, "epochs": 60, "learning-rate": 0.02, "device": "cpu"}
    settings = LearnerSettings.read(said, "a test")
    return settings, untrained(settings, 0, classes, np.zeros((2, 18)), None)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("method", METHODS)
def test_networks_become_better_on_unseen_records(tmp_path: Path, method: Any, classes: int) -> None:
    private, unseen = records(500, classes)
    settings, learner = network_of(method, classes)
    learner.fit(*private)
    before, said = learner.probabilities(unseen.X, classes), learner.predict(unseen.X)
    progress = learner.dump()
    calibrate(learner, settings, "essen", private, None, classes)
    after = learner.probabilities(unseen.X, classes)
    np.testing.assert_array_equal(learner.predict(unseen.X), said)
    np.testing.assert_allclose(after.sum(axis=1), 1)
    assert brier(after, unseen.y) < 0.95 * brier(before, unseen.y)
    assert calibration_error(after, unseen.y) < 0.6 * calibration_error(before, unseen.y)

    columns = [(f"x{n}", None) for n in range(18)]
    names = tuple("abc"[:classes])
    about = {"study": "s", "classes": names, "columns": columns, "learner": settings.name, "shape": (18,)}
    save_model(tmp_path / "m.safetensors", learner, None, ModelDescription.read(about, "a test"))
    model = load_model(tmp_path / "m.safetensors", ["tests"])
    assert model.calibrated
    np.testing.assert_array_equal(model.probabilities(unseen.X), after)
    with pytest.raises(ConfigError, match="calibrated"):
        to_onnx(model)

    again = network_of(classes=classes)[1]
    again.restore(learner.dump())
    np.testing.assert_array_equal(again.probabilities(unseen.X, classes), after)
    # Whoever trains on from it trains on from what it had learned.
    again.advance(private, unseen.X[:0], np.zeros(0, dtype=np.int16), 1.0)
    learner.restore(progress)
    learner.advance(private, unseen.X[:0], np.zeros(0, dtype=np.int16), 1.0)
    assert again.dump() == learner.dump()


@pytest.mark.parametrize("change", ["nan", "method", "more", "falling", "shape"])
def test_a_forged_calibration_of_a_network_is_refused(change: str) -> None:
    private, _ = records(60)
    tensors = Calibration.fitted(np.eye(2)[private.y] * 0.8 + 0.1, private.y, "isotonic").arrays
    first, second = tensors
    good = Calibration.of_arrays(tensors, 2)
    assert good
    assert good.method == "isotonic"
    if change == "nan":
        tensors[second] = tensors[second] * np.nan
    elif change == "method":
        tensors = {name.replace("isotonic", "platt"): values for name, values in tensors.items()}
    elif change == "more":
        tensors["calibration.isotonic.7.0"] = tensors[first]
    elif change == "falling":
        tensors[first] = tensors[first][::-1]
    else:
        tensors[first] = tensors[first][:1]
    with pytest.raises(ValueError, match="no calibration"):
        Calibration.of_arrays(tensors, 2)


def test_a_network_is_judged_by_one_fold_with_all_classes() -> None:
    private, _ = records(100)
    groups = np.repeat(np.arange(20), 5)
    private = Examples(private.X, np.repeat(np.arange(20) % 2, 5).astype(np.int16))
    of = {row.tobytes(): int(group) for row, group in zip(private.X, groups, strict=True)}
    _, learner = network_of()
    learner.fit(*private)
    trained: list[set[int]] = []

    def fit(other: Any, part: Examples) -> None:
        assert other is not learner
        trained.append({of[row.tobytes()] for row in part.X})
        assert len(part.X) == 5 * len(trained[-1])
        other.fit(*part)

    assert calibration_for(learner, private, groups, 2, "sigmoid", fit, 0)
    assert len(trained) == 1
    assert {group % 2 for group in {*range(20)} - trained[0]} == {0, 1}


def test_a_run_of_networks_shares_the_same_labels(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    silos, public, unseen = frames()
    settings: dict[str, Any] = {
        "learner": TINY, "rounds": 2, "progress": False, "local_steps": 20, "device": "cpu",
    }  # fmt: skip
    plain = simulate(silos, public, run_dir=tmp_path / "plain", **settings)
    run = simulate(silos, public, calibration="sigmoid", run_dir=tmp_path / "sigmoid", **settings)
    np.testing.assert_array_equal(run.consensus, plain.consensus)
    for silo in "abc":
        one, other = run.models[silo], plain.models[silo]
        np.testing.assert_array_equal(one.predict(unseen.X), other.predict(unseen.X))
        assert not np.allclose(one.predict_proba(unseen.X), other.predict_proba(unseen.X))
        path = run.path / "models" / f"{silo}.safetensors"
        assert load_model(path, ["tests"]).calibrated
