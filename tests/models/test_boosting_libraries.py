"""Learners of other packages by import path, from a run to a prediction: each file that is written is read again."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.tree import DecisionTreeClassifier

import fedct_flwr
from fedct_flwr import datasets
from fedct_flwr.algorithms.table import find_algorithm
from fedct_flwr.learners.build import learner_for
from fedct_flwr.learners.sklearn import SklearnLearner
from fedct_flwr.models.foreign import ForeignModel
from fedct_flwr.models.model_file import load_model
from fedct_flwr.runs import scores
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.simulation import scoreboard
from fedct_flwr.types import DataError
from tests.boosting import PARAMS

NEEDS_NO_PACKAGE = {"xgboost.XGBClassifier", "sklearn.ensemble.HistGradientBoostingClassifier"}
"""Those of the short names, whose files are looked through."""

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")


def with_lightgbm() -> Pipeline:
    """A pipeline that somebody makes of two packages' parts; its name tells of neither."""
    from lightgbm import LGBMClassifier

    return make_pipeline(SimpleImputer(), LGBMClassifier(**PARAMS["lightgbm.LGBMClassifier"]))


def records(count: int, seed: int) -> pa.Table:
    """Numbers and categories, a tenth of them missing; three classes."""
    rng = np.random.default_rng(seed)
    age, ward = rng.normal(60, 10, count), rng.choice(["a", "b", "c"], count)
    label = np.where(ward == "a", "ill", np.where(age > 60, "odd", "well"))
    missing = rng.random((2, count)) < 0.1
    return pa.table(
        {
            "age": pa.array(age, mask=missing[0]),
            "ward": pa.array(ward, mask=missing[1]),
            "crp": rng.exponential(5, count),
            "label": label,
        }
    )


SILOS = {name: records(60, seed) for seed, name in enumerate(("ahlen", "bonn", "celle"))}
PUBLIC = records(90, 9).drop_columns(["label"])
NEW = records(40, 10)


def simulated(path: Path, learner: str, **settings: Any) -> fedct_flwr.Run:
    given = {"label": "label", "rounds": 2, "stop_at_fixed_point": False, "progress": False, **settings}
    return fedct_flwr.simulate(
        SILOS, PUBLIC, learner=learner, learner_params=PARAMS.get(learner, {}), run_dir=path, **given
    )


@pytest.mark.parametrize("preprocessing", ["standard", "none"])
@pytest.mark.parametrize("name", PARAMS)
def test_from_the_run_to_a_prediction(tmp_path: Path, name: str, preprocessing: str) -> None:
    pytest.importorskip(name.partition(".")[0])
    path = tmp_path / "run"
    student = {"student": name, "student_params": PARAMS[name]}
    simulated(path, name, preprocessing=preprocessing, **student)
    run = fedct_flwr.simulate(SILOS, PUBLIC, label="label", resume=path, rounds=3, progress=False)
    assert len(run.records) == 3
    assert all(not entry["absent"] for entry in run.records)
    assert all(math.isfinite(row.pooled[method]) for row in run.rows for method in scores.METHODS)
    assert set(run.models) == set(SILOS)
    for model in run.models.values():
        assert set(model.predict(NEW)) <= {"ill", "odd", "well"}
        np.testing.assert_allclose(model.predict_proba(NEW).sum(axis=1), 1, atol=1e-6)
    student_file = path / "models" / "global.skops"
    packages = [] if name in NEEDS_NO_PACKAGE else [name.partition(".")[0]]
    X = run.dataset.test.X
    expected = load_model(student_file, packages).predict(X)
    with ForeignModel(student_file, packages) as foreign:
        labels, probabilities = foreign.predict(X)
        assert labels.tolist() == expected.tolist()
        assert probabilities is not None
        content = foreign.to_onnx()
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    found = session.run(None, {"features": X})
    assert found[0].tolist() == labels.tolist()
    np.testing.assert_allclose(found[1], probabilities, atol=1e-5)


def test_a_package_that_nobody_named_is_not_run(tmp_path: Path) -> None:
    pytest.importorskip("lightgbm")
    name = "lightgbm.LGBMClassifier"
    simulated(tmp_path / "run", name, rounds=1, student=name, student_params=PARAMS[name])
    with pytest.raises(DataError, match=r"add --package lightgbm"):
        load_model(tmp_path / "run" / "models" / "global.skops")


def test_parts_of_a_package_that_the_name_does_not_tell(tmp_path: Path) -> None:
    pytest.importorskip("lightgbm")
    run = simulated(tmp_path / "run", f"{__name__}.with_lightgbm", rounds=1)
    assert set(run.models) == set(SILOS)


def test_a_model_of_another_package_is_not_read(tmp_path: Path) -> None:
    pytest.importorskip("lightgbm")
    run = simulated(tmp_path / "run", "lightgbm.LGBMClassifier", rounds=1)
    silo = run.dataset.silos[0]
    settings = run.config.learner_settings(0, 3).model_copy(update={"name": "decision-tree", "params": {}})
    other = learner_for(settings, silo.name, run.dataset.schema, run.dataset.public, silo.private.X)
    assert isinstance(other, SklearnLearner)
    with pytest.raises(DataError, match="lightgbm"):
        other.load(tmp_path / "run" / "models" / "ahlen.skops")


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def _of_somebody_else(path: Path) -> None:
    import skops.io

    path.write_bytes(skops.io.dumps(pytest.importorskip("lightgbm").LGBMClassifier()))


@pytest.mark.parametrize("spoil", [_cut, _of_somebody_else])
def test_one_model_that_cannot_be_read_leaves_the_table(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    run = simulated(tmp_path / "run", "naive-bayes")
    spoil(tmp_path / "run" / "models" / "bonn.skops")
    told: list[str] = []
    dataset = datasets.load(run.config)
    rows = scoreboard.score(run.config, find_algorithm(run.config), dataset, RunFolder(run.path), tell=told.append)
    pooled = {row.silo: row.pooled for row in rows}
    assert math.isnan(pooled["bonn"]["federated"])
    assert math.isfinite(pooled["bonn"]["local"])
    assert all(math.isfinite(pooled[name][method]) for name in ("ahlen", "celle") for method in scores.METHODS)
    (sentence,) = told
    assert "'bonn'" in sentence
    assert "bonn.skops" in sentence
    with pytest.warns(UserWarning, match="'bonn'"):
        assert set(run.models) == {"ahlen", "celle"}


class OnPublicOnly(DecisionTreeClassifier):
    """Answers about the public set, and what is no class about anything else."""

    def predict(self, X: Any, check_input: bool = True) -> Any:
        return super().predict(X) if len(X) == PUBLIC.num_rows else np.full(len(X), -1)


def test_models_that_cannot_predict_the_test_set_leave_the_table(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="ahlen, co-trained.*OnPublicOnly answered numbers from -1 to -1"):
        run = simulated(tmp_path / "run", f"{__name__}.OnPublicOnly")
    assert run.status == "completed"
    assert [row.silo for row in run.rows] == list(SILOS)
    assert all(math.isnan(value) for row in run.rows for value in row.own.values())
