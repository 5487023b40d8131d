"""DP-PATE and FedKT-L1 in secure sums: the silos add the noise, and each charges its own ledger."""

from typing import Any

import pytest

from fedct_flwr.privacy.accounting import epsilon_in_time
from fedct_flwr.privacy.budget import WHOLE_SILO, PrivacyUnit
from fedct_flwr.privacy.ledger import Ledger
from fedct_flwr.privacy.noise_shares import VoteShares
from fedct_flwr.runs.run_folder import RunFolder
from tests.federation.conftest import Federation
from tests.federation.test_one_shot import QUERIES, labels, result

SILOS = ("cleveland", "budapest", "zurich", "long-beach")
PATE: dict[str, Any] = {"algorithm": "dp-pate", "num_server_rounds": 1, "secure": True}
RUNS: dict[str, dict[str, Any]] = {
    "dp-pate": {**PATE, "gamma": 0.1},
    "L1": {**PATE, "algorithm": "fedkt", "privacy_level": "L1", "gamma": 0.1},
    "protected": {**PATE, "gamma": 0.1, "protection": "randomized-response", "epsilon": 1e5},
}


def charged(folder: RunFolder, silo: str) -> tuple[int, PrivacyUnit]:
    with Ledger(folder.silo_privacy(silo)) as ledger:
        found = ledger.spent("test", WHOLE_SILO)
    assert found is not None
    return found.charges, found.budget.unit


@pytest.mark.parametrize("name", RUNS)
def test_each_silo_charges_the_sum_and_the_result_says_what_it_costs(federation: Federation, name: str) -> None:
    folder = federation.run(**RUNS[name])
    assert "" not in labels(folder)
    (line,) = folder.rounds()
    assert sorted(line["silos"]) == sorted(SILOS)
    assert "agreement" not in line
    told = result(folder)["privacy"]
    scale = 1 / RUNS[name]["gamma"]
    assert (told["unit"], told["where"], told["honest"], told["scale"]) == ("silo", "silos together", 3, scale)
    event = VoteShares(scale, QUERIES, 2, 3).event()
    assert told["epsilon"] == pytest.approx(epsilon_in_time(event, 1e-5).upper, rel=1e-3)
    for silo in SILOS:
        assert charged(folder, silo) == (1, PrivacyUnit.SILO)
    again = federation.run(run_dir=str(federation.path / "again"), **RUNS[name])
    assert (again.path / "labels.csv").read_bytes() == (folder.path / "labels.csv").read_bytes()
