"""Algorithms that ask the silos once: FedKT at each of its privacy levels, PATE and DP-PATE, on four real hospitals."""

import csv
import json
import logging
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.config.run import RunConfig
from fedct_flwr.coordinator.algorithm import find_algorithm
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.types import RunError
from tests.federation.conftest import Federation

FEDKT: dict[str, Any] = {"algorithm": "fedkt", "num_server_rounds": 1}
QUERIES = 228


def result(folder: RunFolder) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder.path / "result.json").read_text())
    return found


def labels(folder: RunFolder) -> list[str]:
    with (folder.path / "labels.csv").open(newline="") as file:
        return [row["label"] for row in csv.DictReader(file)]


def test_the_log_says_what_the_noise_costs(federation: Federation, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "flwr.fedct"):
        privacy = result(federation.run(**FEDKT, privacy_level="L1", gamma=0.04))["privacy"]
    assert f"epsilon {privacy['epsilon']:.4g} at delta 1e-05" in caplog.text


def test_a_run_in_which_all_silos_abstain_fails(federation: Federation) -> None:
    """Students that are never of one mind: which class they call, their random state decides."""
    with pytest.raises(RunError, match="no label was agreed upon for any of 228 public examples"):
        federation.run(
            **FEDKT, partitions=20, teachers=2, learner="tests.federation.learners.Contrary", learner_params="{}"
        )


def test_one_round_without_a_quorum_is_told_to_lower_it(federation: Federation) -> None:
    with pytest.raises(RunError, match="silos disagree too much for the algorithm; lower its quorum"):
        federation.run(
            num_server_rounds=1, algorithm="fedct-qualified", quorum=1.0, learner_params="{}",
            learner="tests.federation.learners.Contrary",
        )  # fmt: skip


@pytest.mark.parametrize("settings", [{"algorithm": "dp-pate"}, {"algorithm": "fedkt", "privacy-level": "L1"}])
def test_a_delta_that_lets_a_silo_be_published_is_warned_of(
    settings: dict[str, Any], wording: SnapshotAssertion
) -> None:
    config = RunConfig.from_flower({"study": "s", "data": "d", "delta": 0.25, **settings})
    assert find_algorithm(config).cautions(config, 3) == []
    (warning,) = find_algorithm(config).cautions(config, 4)
    assert warning == wording
