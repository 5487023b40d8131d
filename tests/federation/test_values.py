"""Whole runs in which silos predict a number: real patients, and nothing but values travels."""

from typing import Any

import numpy as np

from fedct_flwr import datasets
from fedct_flwr.algorithms.table import find_algorithm
from fedct_flwr.config import RunConfig
from fedct_flwr.runs import scores
from fedct_flwr.simulation import scoreboard
from tests.federation.conftest import Federation

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
