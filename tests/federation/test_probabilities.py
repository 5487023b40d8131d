"""Whole runs in which silos share probabilities."""

from typing import Any

import numpy as np

from fedct_flwr import datasets
from fedct_flwr.algorithms.table import find_algorithm
from fedct_flwr.config import RunConfig
from fedct_flwr.evaluation import scoreboard
from fedct_flwr.runs import scores
from tests.federation.conftest import Federation


def test_a_silo_that_leaves_for_a_round_takes_its_trust_with_it_and_brings_it_back(federation: Federation) -> None:
    federation.behave[1] = federation.away(2)
    settings: dict[str, Any] = {"algorithm": "prediction-consensus", "trust": "static", "stop_at_fixed_point": False}
    folder = federation.run(**settings, min_silos=3)
    with_all, without, again = folder.trust()
    assert len(without["silos"]) == 3
    assert set(with_all["silos"]) - set(without["silos"]) == {"budapest"}
    assert again == {**with_all, "round": 3}
    rows = [with_all["silos"].index(silo) for silo in without["silos"]]
    kept = np.array(with_all["matrix"])[np.ix_(rows, rows)]
    np.testing.assert_allclose(without["matrix"], kept / kept.sum(axis=1, keepdims=True), atol=1e-3)


NUMBERS: dict[str, Any] = {
    "silos": 5,
    "data": "diabetes",
    "algorithm": "prediction-consensus",
    "learner": "ridge",
    "learner_params": "{}",
}


def test_silos_explain_more_of_what_they_have_not_seen_than_alone(federation: Federation) -> None:
    folder = federation.run(**NUMBERS, save_models=True)
    config = RunConfig.from_flower(folder.settings())
    rows = scoreboard.score(config, find_algorithm(config), datasets.load(config), folder)
    mean = {method: np.mean([row.pooled[method] for row in rows]) for method in scores.METHODS}
    # The seed's: alone .09, together .27, central .34.
    assert mean["local"] + 0.1 < mean["federated"] < mean["centralized"]
