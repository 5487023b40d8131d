"""Algorithms that ask the silos once: FedKT at each of its privacy levels, PATE and DP-PATE, on four real hospitals."""

import csv
import json
import logging
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr import datasets
from fedct_flwr.config import RunConfig
from fedct_flwr.coordinator.algorithm import find_algorithm
from fedct_flwr.privacy.accounting import epsilon
from fedct_flwr.privacy.budget import DATA_SET, PrivacyUnit
from fedct_flwr.privacy.ledger import Ledger
from fedct_flwr.privacy.mechanisms import Laplace
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.types import RunError
from tests.federation import learners
from tests.federation.conftest import Federation

FEDKT: dict[str, Any] = {"algorithm": "fedkt", "num_server_rounds": 1}
# With a gamma no noise is looked for, which takes seconds.
RUNS: dict[str, dict[str, Any]] = {
    "L1": {**FEDKT, "privacy_level": "L1", "gamma": 0.04},
    "L2": {**FEDKT, "privacy_level": "L2", "gamma": 0.04, "teachers": 10, "epsilon": 20.0, "partitions": 2},
}
QUERIES = 228


def result(folder: RunFolder) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder.path / "result.json").read_text())
    return found


def labels(folder: RunFolder) -> list[str]:
    with (folder.path / "labels.csv").open(newline="") as file:
        return [row["label"] for row in csv.DictReader(file)]


def test_students_of_perfect_teachers_give_the_right_labels(federation: Federation) -> None:
    """Teachers that know the answer, and students that remember what they are told."""
    folder = federation.run(
        **FEDKT, learner="tests.federation.learners.Knowing", learner_params="{}", preprocessing="none"
    )
    config = RunConfig.from_flower({"study": "test", "data": "heart-disease"})
    dataset = datasets.load(config)
    right = learners.answers(dataset.public.X)
    assert labels(folder) == [dataset.schema.classes[c] for c in right]
    assert folder.rounds()[0]["agreement"] == 1.0


class TestPrices:
    """What ``result.json`` and the log tell of each guarantee: for whom, how much, and by whose accountant."""

    def test_l1_protects_a_silo(self, federation: Federation, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.INFO, "flwr.fedct"):
            privacy = result(federation.run(**RUNS["L1"]))["privacy"]
        event = Laplace(25.0, unit=PrivacyUnit.SILO).event(QUERIES)
        assert privacy["epsilon"] == pytest.approx(epsilon(event, 1e-5).upper)
        assert (privacy["unit"], privacy["where"], privacy["scale"]) == ("silo", "coordinator", 25.0)
        assert f"epsilon {privacy['epsilon']:.4g} at delta 1e-05" in caplog.text

    def test_l2_protects_a_record_and_each_silo_charges_its_ledger(self, federation: Federation) -> None:
        folder = federation.run(**RUNS["L2"])
        privacy = result(folder)["privacy"]
        assert (privacy["unit"], privacy["where"]) == ("example", "silo")
        for silo in folder.rounds()[0]["silos"]:
            with Ledger(folder.silo_privacy(silo)) as ledger:
                spent = ledger.spent("test", DATA_SET)
            assert spent is not None
            assert spent.charges == 1
            assert spent.epsilon.upper == pytest.approx(privacy["epsilon"])


def test_a_run_in_which_all_silos_abstain_fails(federation: Federation) -> None:
    """Students that are never of one mind: which class they call, their random state decides."""
    with pytest.raises(RunError, match="no label was agreed upon for any of 228 public examples"):
        federation.run(
            **FEDKT, partitions=20, teachers=2, learner="tests.federation.learners.Contrary", learner_params="{}"
        )


@pytest.mark.parametrize("settings", [{"algorithm": "dp-pate"}, {"algorithm": "fedkt", "privacy-level": "L1"}])
def test_a_delta_that_lets_a_silo_be_published_is_warned_of(
    settings: dict[str, Any], wording: SnapshotAssertion
) -> None:
    config = RunConfig.from_flower({"study": "s", "data": "d", "delta": 0.25, **settings})
    assert find_algorithm(config).cautions(config, 3) == []
    (warning,) = find_algorithm(config).cautions(config, 4)
    assert warning == wording
