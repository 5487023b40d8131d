"""Scores from data to report, for test sets that are hard to score: of one class, empty, of rare classes, of groups."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from fedct_flwr import Run, simulate
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
    with pytest.warns(DataWarning), pytest.warns(DataWarning, match="scores are too good"):
        by_rows = simulate(silos, public, run_dir=tmp_path / "rows", **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        by_patients = simulate(silos, public, group="patient", run_dir=tmp_path / "patients", **settings)
    assert all(row.own["local"] > 0.95 for row in by_rows.rows)
    assert np.mean([row.own["local"] for row in by_patients.rows]) < 0.75
    assert [column.name for column in by_patients.dataset.schema.columns] == ["a", "b", "c"]
