"""Learners of other packages by import path, from a run to a prediction: each file that is written is read again."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fedct_flwr
from fedct_flwr.models.foreign import ForeignModel
from fedct_flwr.models.model_file import load_model
from fedct_flwr.runs import scores
from tests.boosting import PARAMS

NEEDS_NO_PACKAGE = {"xgboost.XGBClassifier", "sklearn.ensemble.HistGradientBoostingClassifier"}
"""Those of the short names, whose files are looked through."""

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")


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


@pytest.mark.parametrize(
    ("name", "preprocessing"), [*((name, "standard") for name in PARAMS), ("xgboost.XGBClassifier", "none")]
)
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
        if name.startswith("catboost."):
            return
        content = foreign.to_onnx()
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    found = session.run(None, {"features": X})
    assert found[0].tolist() == labels.tolist()
    np.testing.assert_allclose(found[1], probabilities, atol=1e-5)
