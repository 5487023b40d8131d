"""The table at the end: every number whole, and a dash where there is none."""

from pathlib import Path
from typing import Any

import numpy as np

from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets import load
from fedct_flwr.evaluation.references import centralized, local_only
from fedct_flwr.evaluation.scoreboard import reported, score
from fedct_flwr.learners.build import build_learner
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.scoring import balanced_accuracy


def test_baselines_and_models_are_scored_on_own_and_pooled_test_sets(tmp_path: Path) -> None:
    """The last silo never answered, and the first missed a round; each silo kept its own labels."""
    learner = {"learner": "decision-tree", "learner-params": '{"max_depth": 3}'}
    config = RunConfig.from_flower({"study": "s", "data": "heart-disease", **learner})
    dataset = load(config)
    folder = RunFolder.create(tmp_path / "run", config.to_flower(), {})
    folder.models.mkdir()
    for position, silo in enumerate(dataset.silos[:-1]):
        model: Any = build_learner(config, dataset, position, silo.private.X).fit(*silo.private)
        model.save(folder.models / f"{silo.name}.skops")
    present = [silo.name for silo in dataset.silos[:-1]]
    for number, silos in enumerate([present, present[1:], present], start=1):
        folder.append_round({"round": number, "silos": {silo: {"bytes_sent": 10 * number} for silo in silos}})
    rows = score(config, dataset, folder)
    assert [entry.silo for entry in rows] == [silo.name for silo in dataset.silos]
    assert [entry.bytes_sent for entry in rows] == [40, 60, 60, 0]
    for position, entry in enumerate(rows[:-1]):
        for found, test in ((entry.own, dataset.silos[position].test), (entry.pooled, dataset.test)):
            assert found["local"] == balanced_accuracy(local_only(config, dataset, position), test)
            assert found["centralized"] == balanced_accuracy(centralized(config, dataset, position), test)
            # These models saw nothing but private records, so they are the local ones.
            assert found["federated"] == found["local"]


def test_reported_scores_are_those_of_the_last_reply(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "real", {}, {})
    pooled = {"pooled_accuracy": 0.83, "pooled_balanced_accuracy": 0.84}
    every = {"own_accuracy": 0.81, "own_balanced_accuracy": 0.82, **pooled}
    # The last one had no part in the end.
    told = {"cleveland": every, "budapest": pooled, "zurich": None, "long-beach": every}
    for number, silos in ((1, [*told]), (2, [*told][:-1])):
        sent = {silo: {"bytes_sent": number, "scores": told[silo]} for silo in silos}
        folder.append_round({"round": number, "silos": sent})
    rows = reported(folder, [*told])
    found = [(row.own["federated"], row.pooled["federated"], row.bytes_sent) for row in rows]
    unknown = float("nan")
    expected = [(0.82, 0.84, 3), (unknown, 0.84, 3), (unknown, unknown, 3), (unknown, unknown, 1)]
    np.testing.assert_array_equal(found, expected)
