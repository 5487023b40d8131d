"""A model in a file: the same predictions elsewhere, and nothing from there that runs code or reads out of bounds."""

import io
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import skops.io
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import LinearSVC

from fedct_flwr.config.learner import LearnerSettings
from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.learners import Learner, preprocessing
from fedct_flwr.learners.build import untrained
from fedct_flwr.learners.catalog import CLASSIFIERS, REGRESSORS
from fedct_flwr.models.loading import ForeignModel, load_model
from fedct_flwr.models.model_file import ModelDescription, save_model
from fedct_flwr.types import ConfigError, DataError
from tests.sentences import sentence

SCHEMA = Schema(("a", "b", "c"), (Column("x"), Column("y"), Column("z", ("p", "q"))))
SMALL: dict[str, dict[str, Any]] = {
    "random-forest": {"n_estimators": 3},
    "extra-trees": {"n_estimators": 3},
    "gradient-boosting": {"n_estimators": 3},
    "hist-gradient-boosting": {"max_iter": 3, "min_samples_leaf": 2},
    "xgboost": {"n_estimators": 3},
    "rulefit": {"max_rules": 10},
    "lightgbm.LGBMClassifier": {"n_estimators": 5, "min_child_samples": 2, "n_jobs": 1, "verbose": -1},
    "catboost.CatBoostClassifier": {"iterations": 5, "verbose": False, "allow_writing_files": False, "thread_count": 1},
}
LISTED = sorted(set(CLASSIFIERS) - {"rulefit"})
WITHOUT_PROBABILITIES = {"svm"}


def table(seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = np.c_[rng.normal(size=(60, 2)), rng.integers(0, 3, 60)].astype(np.float64)
    y = (np.arange(60) % 3).astype(np.int16)
    X[:, 0] += y
    X[0] = np.nan
    return X, y


def description(name: str, **more: Any) -> ModelDescription:
    said = {
        "study": "test",
        "classes": SCHEMA.classes,
        "columns": [(column.name, column.categories) for column in SCHEMA.columns],
        "learner": name,
        "params": SMALL.get(name, {}),
        "shape": (3,),
    }
    return ModelDescription.read({**said, **more}, "a test")


def trained(name: str, y: Any = None) -> tuple[Learner, Any]:
    X, labels = table()
    transformer = preprocessing.standard(SCHEMA, X)
    settings = LearnerSettings(name=name, params=SMALL.get(name, {}), device="cpu")
    learner = untrained(settings, 0, ("a", "b", "c"), X[:2], transformer, total_steps=20)
    return learner.fit(X, labels if y is None else y), transformer


def saved(path: Path, name: str, y: Any = None) -> tuple[Learner, bytes]:
    learner, transformer = trained(name, y)
    return learner, save_model(path, learner, transformer, description(name))


def refused(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return sentence(DataError, load_model, path)


LABELS = {
    "all": lambda y: y,
    "two": lambda y: np.where(y == 2, 1, y),
    "a gap": lambda y: np.where(y == 1, 2, y),
    "one": lambda y: y * 0 + 1,
}


@pytest.mark.parametrize("known", LABELS)
@pytest.mark.parametrize("name", LISTED)
def test_it_predicts_elsewhere_what_it_does_here(tmp_path: Path, name: str, known: str) -> None:
    learner, _ = saved(tmp_path / "m.skops", name, LABELS[known](table()[1]).astype(np.int16))
    model, (X, _) = load_model(tmp_path / "m.skops"), table(seed=1)
    assert model.schema == SCHEMA
    assert (model.predict(X) == learner.predict(X)).all()
    probabilities = model.probabilities(X)
    assert (probabilities is None) == (name in WITHOUT_PROBABILITIES and known != "one")
    if probabilities is not None:
        np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-6)
        assert probabilities.shape == (60, 3)
        assert (model.predict(X)[:, None] == np.flatnonzero(probabilities.max(axis=0) > 0)).any(axis=1).all()


@pytest.mark.parametrize("name", sorted(set(REGRESSORS) - {"tfidf-linear"}))
def test_a_model_of_numbers_is_read_by_its_short_name(tmp_path: Path, name: str) -> None:
    X, y = table()
    transformer, settings = preprocessing.standard(SCHEMA, X), LearnerSettings(name=name, params=SMALL.get(name, {}))
    learner = untrained(settings, 0, (), X[:2], transformer).fit(X, y + 0.5)
    save_model(tmp_path / "m.skops", learner, transformer, description(name, classes=(), quantity="days"))
    assert load_model(tmp_path / "m.skops").predict(X).tolist() == learner.predict(X).tolist()


def pack(model: Any, said: ModelDescription | None = None, steps: list[Any] | None = None) -> bytes:
    """A file as ``save_model`` writes it, with any model."""
    content = io.BytesIO(skops.io.dumps(Pipeline([*(steps or []), ("classify", model)])))
    with zipfile.ZipFile(content, "a") as file:
        file.writestr("fedct.json", json.dumps((said or description("decision-tree")).model_dump(by_alias=True)))
    return content.getvalue()


def test_types_that_no_short_name_needs_are_named_and_refused(tmp_path: Path) -> None:
    X, y = table()
    content = pack(LinearSVC().fit(X[1:], y[1:]))
    assert "LinearSVC" in refused(tmp_path / "m", content)
    assert "--package sklearn" in refused(tmp_path / "m", content)
    assert load_model(tmp_path / "m", ["sklearn"]).predict(X[1:]).shape == (59,)


@pytest.mark.parametrize("name", ["lightgbm.LGBMClassifier", "catboost.CatBoostClassifier"])
def test_a_learner_of_another_package_is_read_with_that_package(tmp_path: Path, name: str) -> None:
    package = name.partition(".")[0]
    pytest.importorskip(package)
    learner, content = saved(tmp_path / "m.skops", name)
    assert f"--package {package}" in refused(tmp_path / "m", content)
    X, _ = table(seed=1)
    with ForeignModel(tmp_path / "m.skops", [package]) as model:
        labels, probabilities = model.predict(X)
    assert labels.tolist() == learner.predict(X).tolist()
    assert probabilities is not None
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)


def test_functions_are_refused_before_they_are_looked_up(tmp_path: Path) -> None:
    X, y = table()
    steps = [("transform", FunctionTransformer(func=np.nan_to_num))]
    content = pack(LinearSVC().fit(X[1:], y[1:]), steps=steps)
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        schema = file.read("schema.json").decode()
        others = {name: file.read(name) for name in file.namelist() if name != "schema.json"}
    assert '"nan_to_num"' in schema
    forged = io.BytesIO()
    with zipfile.ZipFile(forged, "w") as file:
        changed = schema.replace('"nan_to_num"', '"system"').replace('"__module__": "numpy"', '"__module__": "os"')
        file.writestr("schema.json", changed)
        for name, value in others.items():
            file.writestr(name, value)
    assert "os.system" in refused(tmp_path / "m", forged.getvalue())


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return eval, ("__import__('pathlib').Path('exploded').touch()",)


@pytest.mark.parametrize("name", ["random-forest", "xgboost"])
def test_whatever_is_cut_off_or_no_model_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    _, whole = saved(tmp_path / "m.skops", name)
    for content in (b"", b"PK", b"PK\x03\x04", whole[: len(whole) // 2], whole[:-30], pickle.dumps(Bomb()), bytes(100)):
        assert "damaged" in refused(tmp_path / "m", content)
    assert not (tmp_path / "exploded").exists()


def test_an_archive_that_would_unpack_into_more_than_it_is_is_refused(tmp_path: Path) -> None:
    _, whole = saved(tmp_path / "m.skops", "decision-tree")
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(whole)) as file, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as smaller:
        for name in file.namelist():
            smaller.writestr(name, file.read(name))
    assert "damaged" in refused(tmp_path / "m", packed.getvalue())


def test_a_packed_or_very_long_description_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    original = zipfile.ZipFile.read

    def noted(file: zipfile.ZipFile, name: Any, pwd: bytes | None = None) -> bytes:
        read.append(getattr(name, "filename", name))
        return original(file, name, pwd)

    monkeypatch.setattr(zipfile.ZipFile, "read", noted)
    for method, size in ((zipfile.ZIP_DEFLATED, 10), (zipfile.ZIP_STORED, 1 << 25)):
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w", method) as file:
            file.writestr("fedct.json", b" " * size)
        assert "damaged" in refused(tmp_path / "m", content.getvalue())
    assert read == []


def test_a_label_that_is_no_class_of_the_study_is_refused(tmp_path: Path) -> None:
    learner, transformer = trained("decision-tree")
    model = learner._trained  # type: ignore[attr-defined]
    model.classes_ = model.classes_ + 100
    (tmp_path / "m").write_bytes(pack(model, steps=[("transform", transformer)]))
    with pytest.raises(DataError, match="no class of its own study"):
        load_model(tmp_path / "m").predict(table()[0])


class TestNetworks:
    SAID: ClassVar[dict[str, Any]] = {"learner": "mlp", "params": {"width": 8}, "shape": (784,), "columns": ()}

    def learner(self) -> tuple[Learner, Any]:
        pytest.importorskip("torch")
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(30, 784)).astype(np.float32), (np.arange(30) % 3).astype(np.int16)
        settings = LearnerSettings(name="mlp", params={"width": 8}, preprocessing="none", device="cpu")
        return untrained(settings, 0, ("a", "b", "c"), X[:2], None, total_steps=5).fit(X, y), X

    def test_it_predicts_elsewhere_what_it_does_here(self, tmp_path: Path) -> None:
        learner, X = self.learner()
        save_model(tmp_path / "m", learner, None, description("", **self.SAID))
        model = load_model(tmp_path / "m")
        assert (model.predict(X) == learner.predict(X)).all()
        probabilities = model.probabilities(X)
        assert probabilities is not None
        assert (probabilities.argmax(axis=1) == model.predict(X)).all()
        np.testing.assert_allclose(probabilities.sum(axis=1), 1)

    def test_code_that_makes_a_network_is_not_imported_unless_its_package_is_named(self, tmp_path: Path) -> None:
        learner, _ = self.learner()
        save_model(tmp_path / "m", learner, None, description("", **{**self.SAID, "learner": "no_such_package.make"}))
        with pytest.raises(DataError, match="add --package no_such_package"):
            load_model(tmp_path / "m")
        with pytest.raises(ConfigError, match=r"cannot import learner 'no_such_package\.make'"):
            load_model(tmp_path / "m", ["no_such_package"])

    def test_whatever_is_cut_off_or_another_network_is_one_sentence(self, tmp_path: Path) -> None:
        learner, _ = self.learner()
        whole = save_model(tmp_path / "m", learner, None, description("", **self.SAID))
        for content in (whole[:-5], whole[:40], whole[:8], bytes(8) + whole[8:]):
            assert "damaged" in refused(tmp_path / "n", content)
        save_model(tmp_path / "n", learner, None, description("", **{**self.SAID, "params": {"width": 9}}))
        with pytest.raises(DataError, match="does not hold what 'mlp' makes"):
            load_model(tmp_path / "n")

    @pytest.mark.parametrize(
        "said",
        [
            {"shape": (10**6, 10**6)},
            {"classes": [str(k) for k in range(40_000)]},
            {"shape": (784,), "params": {"width": 10**6}},
            {"learner": "torchvision", "params": {"model": "deeplabv3_resnet50"}, "shape": (3, 32, 32)},
        ],
    )
    def test_no_memory_is_taken_for_more_than_the_file_holds(self, tmp_path: Path, said: dict[str, Any]) -> None:
        learner, _ = self.learner()
        whole = save_model(tmp_path / "m", learner, None, description("", **self.SAID))
        length = int.from_bytes(whole[:8], "little")
        header = json.loads(whole[8 : 8 + length])
        header["__metadata__"]["fedct"] = json.dumps(json.loads(header["__metadata__"]["fedct"]) | said)
        forged = json.dumps(header).encode()
        (tmp_path / "m").write_bytes(len(forged).to_bytes(8, "little") + forged + whole[8 + length :])
        with pytest.raises(DataError, match=r"damaged|no classification network"):
            load_model(tmp_path / "m")
