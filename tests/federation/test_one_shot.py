"""Algorithms that ask the silos once: FedKT at each of its privacy levels, PATE and DP-PATE, on four real hospitals."""

import json
from typing import Any

import pytest

from fedct_flwr.run_folder import RunFolder
from tests.federation.conftest import Federation

FEDKT: dict[str, Any] = {"algorithm": "fedkt", "num_server_rounds": 1, "learner": "decision-tree"}
RUNS: dict[str, dict[str, Any]] = {
    "L0": FEDKT,
    "L1": {**FEDKT, "privacy_level": "L1", "epsilon": 50.0},
    "L2": {**FEDKT, "privacy_level": "L2", "epsilon": 50.0, "teachers": 10},
    "pate": {"algorithm": "pate", "num_server_rounds": 1},
    "dp-pate": {"algorithm": "dp-pate", "num_server_rounds": 1, "epsilon": 50.0},
}


def result(folder: RunFolder) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder.path / "result.json").read_text())
    return found


@pytest.mark.parametrize("name", RUNS)
def test_one_round_labels_the_public_set_the_same_each_time(federation: Federation, name: str) -> None:
    folder = federation.run(**RUNS[name])
    (line,) = folder.rounds()
    assert len(line["silos"]) == 4
    assert line["abstained"] < line["queried"] / 2
    assert result(folder)["status"] == "completed"
    again = federation.run(run_dir=str(federation.path / "again"), **RUNS[name])
    assert (again.path / "labels.csv").read_bytes() == (folder.path / "labels.csv").read_bytes()
