"""Scores from data to report, for test sets that are hard to score: of one class, empty, of rare classes, of groups."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from fedct_flwr import Run, simulate


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
