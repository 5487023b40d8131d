"""Scores from data to report, for test sets that are hard to score: of one class, empty, of rare classes, of groups."""

import json
import logging
import math
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mlflow.tracking import MlflowClient
from sklearn.metrics import roc_auc_score
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from fedct_flwr import Run, simulate
from fedct_flwr.datasets.leaks import LeakWarning
from fedct_flwr.tracking import to_mlflow, to_tensorboard
from fedct_flwr.tracking.base import score_metrics
from fedct_flwr.types import DataWarning


def frame(n: int, seed: int, only: int | None = None, shift: float = 0.0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    ill = (X[:, 0] + 0.5 * rng.normal(size=n) > shift).astype(int)
    found = pd.DataFrame(X, columns=["a", "b", "c"]).assign(ill=ill)
    return found if only is None else found[found.ill == only]


SILOS = {name: frame(120, seed) for seed, name in enumerate(("north", "south", "west"))}
PUBLIC = frame(100, 9).drop(columns="ill")


def run(path: Path, *, tests: dict[str, pd.DataFrame] | None = None, **settings: object) -> Run:
    return simulate(SILOS, PUBLIC, label="ill", tests=tests, run_dir=path / "run", rounds=2, progress=False, **settings)


def no_nan(path: Path) -> object:
    """What a file holds, which no NaN may be part of."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(path.read_text(), parse_constant=refuse)


def test_a_test_set_of_one_class_has_a_dash_and_a_reason(tmp_path: Path) -> None:
    found = run(tmp_path, tests={"south": frame(40, 5, only=1)}, report_scores=True)
    rows = {row.silo: row for row in found.rows}
    assert all(math.isnan(value) for value in rows["south"].own.values())
    assert not any(math.isnan(value) for value in rows["south"].pooled.values())
    assert not any(math.isnan(value) for value in rows["north"].own.values())
    own = rows["south"].tests["own"].models["federated"]
    assert math.isnan(own.value("auc"))
    assert 0 < own.value("sensitivity") <= 1
    (said,) = [note for note in found.notes if "one class" in note]
    assert "south" in said
    text = repr(found)
    assert "over 2 of 3 silos on own test sets" in " ".join(text.split())
    replied = found.records[-1]["silos"]
    assert "own_balanced_accuracy" not in replied["south"]["scores"]
    assert "own_balanced_accuracy" in replied["north"]["scores"]
    no_nan(found.path / "scores.json")


def test_a_pooled_test_set_of_one_class_ends_as_a_run_does(tmp_path: Path) -> None:
    tests = {name: frame(30, 20 + seed, only=1) for seed, name in enumerate(SILOS)}
    found = run(tmp_path, tests=tests, student="decision-tree", report_scores=True)
    assert found.status == "completed"
    result = no_nan(found.path / "result.json")
    assert isinstance(result, dict)
    scores = result["global_model"]["scores"]["student"]
    assert scores["balanced_accuracy"] is None
    assert 0 < scores["accuracy"] <= 1
    no_nan(found.path / "models" / "global.json")
    assert "| - |" in (found.path / "models" / "global.md").read_text()
    assert any("'1'" in note for note in found.notes if "pooled" in note)
    assert "nan" not in repr(found).lower()
    assert found.report().is_file()


def test_metrics_are_those_of_the_models_that_the_run_kept(tmp_path: Path) -> None:
    test = frame(80, 50)
    found = run(tmp_path, tests={"north": test})
    probabilities = found.models["north"].predict_proba(test)[:, 1]
    metrics = found.metrics
    auc = metrics[(metrics.index == "north") & (metrics.test == "own") & (metrics.metric == "auc")]
    federated = auc[auc.method == "federated"].iloc[0]
    assert federated["value"] == pytest.approx(roc_auc_score(test["ill"], probabilities))
    assert federated["n"] == 80
    assert federated["low"] < federated["value"] < federated["high"]
    assert found.scores.loc["north", "own_federated_auc"] == federated["value"]
    assert found.scores.loc["north", "own_n"] == 80


def test_rare_outcomes_have_the_reason_for_chance_level(tmp_path: Path) -> None:
    silos = {name: frame(600, seed, shift=2.0) for seed, name in enumerate("ab")}
    tests = {name: frame(3000, seed + 10, shift=2.0) for seed, name in enumerate("ab")}
    found = simulate(
        silos, PUBLIC, label="ill", tests=tests, run_dir=tmp_path / "run", rounds=1, progress=False,
        learner="logistic-regression", learner_params={"C": 1e-4},
    )  # fmt: skip
    assert found.rows[0].pooled["federated"] == 0.5
    assert any("class-weight" in note for note in found.notes)


def test_noise_with_five_rows_for_each_patient_is_chance_with_a_group_and_said_without(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)

    def silo(first: int) -> pd.DataFrame:
        patients = pd.DataFrame(rng.normal(size=(60, 3)), columns=["a", "b", "c"])
        patients["patient"] = np.arange(first, first + 60)
        patients["ill"] = rng.integers(0, 2, 60)
        return pd.concat([patients] * 5, ignore_index=True)

    silos = {"a": silo(0), "b": silo(100), "c": silo(200)}
    public = pd.DataFrame(rng.normal(size=(50, 4)), columns=["a", "b", "c", "patient"])
    settings = {"label": "ill", "learner": "decision-tree", "rounds": 1, "progress": False}
    # Without the group its column is a number like others, which the public set here does not have.
    with pytest.warns(DataWarning), pytest.warns(LeakWarning, match="over-optimistic"):
        by_rows = simulate(silos, public, run_dir=tmp_path / "rows", **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        by_patients = simulate(silos, public, group="patient", run_dir=tmp_path / "patients", **settings)
    assert all(row.own["local"] > 0.95 for row in by_rows.rows)
    assert np.mean([row.own["local"] for row in by_patients.rows]) < 0.75
    assert [column.name for column in by_patients.dataset.schema.columns] == ["a", "b", "c"]


def test_trackers_have_the_scores_of_the_end(tmp_path: Path) -> None:
    found = run(tmp_path, tracking="tensorboard", tests={"west": frame(30, 70, only=0)})
    events = EventAccumulator(str(found.path / "tensorboard")).Reload()
    tags = {tag for tag in events.Tags()["scalars"] if tag.startswith("end/")}
    assert tags == set(score_metrics(found.rows))
    (point,) = events.Scalars("end/own_federated_auc/north")
    assert point.value == pytest.approx(found.scores.loc["north", "own_federated_auc"])
    assert point.step == len(found.records)
    # What there is none of is left out.
    assert "end/own_federated_auc/west" not in tags
    assert "end/own_federated_specificity/west" in tags
    assert "end/pooled_local_brier/mean" in tags


def test_mlflow_has_them_in_the_run_that_it_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(to_mlflow.STORE, raising=False)
    found = run(tmp_path, tracking="mlflow")
    client = MlflowClient(f"sqlite:///{found.path / 'mlflow.db'}")
    kept = client.get_run(json.loads((found.path / to_mlflow.RUN_FILE).read_text())["run_id"])
    assert kept.info.status == "FINISHED"
    expected = found.scores["own_federated_brier"].mean()
    assert kept.data.metrics["end/own_federated_brier/mean"] == pytest.approx(expected)
    assert "scores.json" in [part.path for part in client.list_artifacts(kept.info.run_id)]


def test_a_tracker_that_fails_at_the_scores_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(*_: object) -> None:
        raise OSError("no room")

    monkeypatch.setattr(to_tensorboard, "add_scores", failing)
    # A test before this one may have started Flower's engine, which keeps its lines to itself.
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)
    assert run(tmp_path, tracking="tensorboard").rows
    assert "no room" in caplog.text
