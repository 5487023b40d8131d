"""The table at the end: every number whole, and a dash where there is none."""

import math
from pathlib import Path
from typing import Any

import pytest

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets import FederatedDataset, load
from fedct_flwr.evaluation.references import centralized, local_only
from fedct_flwr.evaluation.scoreboard import reported, score
from fedct_flwr.learners.build import build_learner
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.scoring import balanced_accuracy


@pytest.fixture(scope="module")
def config() -> RunConfig:
    return RunConfig.from_flower(
        {"study": "s", "data": "heart-disease", "learner": "decision-tree", "learner-params": '{"max_depth": 3}'}
    )


@pytest.fixture(scope="module")
def dataset(config: RunConfig) -> FederatedDataset:
    return load(config)


@pytest.fixture
def folder(tmp_path: Path, config: RunConfig, dataset: FederatedDataset) -> RunFolder:
    """A run in which the last silo never answered, and the first missed a round; each silo kept its own labels."""
    folder = RunFolder.create(tmp_path / "run", config.to_flower(), {})
    folder.models.mkdir()
    present = [silo.name for silo in dataset.silos[:-1]]
    for position, silo in enumerate(dataset.silos[:-1]):
        learner: Any = build_learner(config, dataset, position, silo.private.X).fit(*silo.private)
        learner.save(folder.models / f"{silo.name}.skops")
    for number, silos in enumerate([present, present[1:], present], start=1):
        folder.append_round({"round": number, "silos": {silo: {"bytes_sent": 10 * number} for silo in silos}})
    return folder


def test_baselines_and_models_are_scored_on_own_and_pooled_test_sets(
    config: RunConfig, dataset: FederatedDataset, folder: RunFolder
) -> None:
    rows = score(config, dataset, folder)
    assert [entry.silo for entry in rows] == [silo.name for silo in dataset.silos]
    assert [entry.bytes_sent for entry in rows] == [40, 60, 60, 0]
    for position, entry in enumerate(rows[:-1]):
        for found, test in ((entry.own, dataset.silos[position].test), (entry.pooled, dataset.test)):
            assert found["local"] == balanced_accuracy(local_only(config, dataset, position), test)
            assert found["centralized"] == balanced_accuracy(centralized(config, dataset, position), test)
            # These models saw nothing but private records, so they are the local ones.
            assert found["federated"] == found["local"]


SILO_SCORES = {
    "own_accuracy": 0.81,
    "own_balanced_accuracy": 0.82,
    "pooled_accuracy": 0.83,
    "pooled_balanced_accuracy": 0.84,
}


@pytest.fixture
def real(tmp_path: Path) -> RunFolder:
    """A run with real silos: one reports scores, one but its pooled ones, one none, and one had no part in the end."""
    folder = RunFolder.create(tmp_path / "real", {}, {})
    pooled = {name: value for name, value in SILO_SCORES.items() if name.startswith("pooled")}
    told = {"cleveland": SILO_SCORES, "budapest": pooled, "zurich": None, "long-beach": SILO_SCORES}
    for number in (1, 2):
        sent = {
            silo: {"bytes_sent": number, "scores": scores}
            for silo, scores in told.items()
            if number == 1 or silo != "long-beach"
        }
        folder.append_round({"round": number, "silos": sent})
    return folder


ROSTER = ("budapest", "cleveland", "long-beach", "zurich")


def test_reported_scores_are_those_of_the_last_reply(real: RunFolder) -> None:
    rows = {entry.silo: entry for entry in reported(real, ROSTER)}
    assert tuple(rows) == ROSTER
    assert (rows["cleveland"].own["federated"], rows["cleveland"].pooled["federated"]) == (0.82, 0.84)
    assert math.isnan(rows["budapest"].own["federated"])
    assert rows["budapest"].pooled["federated"] == 0.84
    for silo in ("zurich", "long-beach"):
        assert math.isnan(rows[silo].own["federated"])
        assert math.isnan(rows[silo].pooled["federated"])
    assert {silo: entry.bytes_sent for silo, entry in rows.items()} == {
        "budapest": 3, "cleveland": 3, "long-beach": 1, "zurich": 3,
    }  # fmt: skip
