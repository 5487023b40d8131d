"""Votes in secure sums: the labels of a run without them, and nothing of a single silo at the coordinator."""

from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, Message

from client_app.main import app as client_app
from fedct_flwr.privacy.accounting import epsilon_in_time
from fedct_flwr.privacy.budget import WHOLE_SILO, PrivacyUnit
from fedct_flwr.privacy.ledger import Ledger
from fedct_flwr.privacy.noise_shares import VoteShares
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.secure_sum.messages import Step
from fedct_flwr.wire.messages import from_record
from tests.federation.conftest import Behave, Federation
from tests.federation.test_one_shot import QUERIES, labels, result

RUNS: dict[str, dict[str, Any]] = {
    "plurality": {"algorithm": "fedct"},
    "fedkt": {"algorithm": "fedkt", "num_server_rounds": 1},
    "protected": {"algorithm": "fedct", "protection": "randomized-response", "epsilon": 1e5},
}
SILOS = 4


def dies_at(step: Step) -> Behave:
    """Fail at a step of the second round's sum."""

    def behave(message: Message, context: Context) -> Message:
        if message.metadata.group_id == "2" and from_record(message.content)[4] == step:
            raise RuntimeError
        return client_app(message, context)

    return behave


@pytest.mark.parametrize("name", RUNS)
def test_labels_are_those_without_and_no_silo_is_in_the_log(federation: Federation, tmp_path: Path, name: str) -> None:
    plain = federation.run(**RUNS[name])
    secure = federation.run(run_dir=str(tmp_path / "secure"), secure=True, **RUNS[name])
    assert (secure.path / "labels.csv").read_bytes() == (plain.path / "labels.csv").read_bytes()
    for one, other in zip(plain.rounds(), secure.rounds(), strict=True):
        assert other["silos"].keys() == one["silos"].keys()
        assert not any({"agreement", "distance"} & told.keys() for told in other["silos"].values())
        if not name.endswith("fedkt"):  # there, students count where all agree
            assert other["agreement"] == pytest.approx(one["agreement"], abs=1e-12)
        assert {key: other[key] for key in ("changed", "abstained", "class_counts", "fixed_point", "churn")} == {
            key: one[key] for key in ("changed", "abstained", "class_counts", "fixed_point", "churn")
        }


@pytest.mark.parametrize("step", [Step.INVITE, Step.ASK, Step.OPEN])
def test_a_silo_that_dies_in_a_sum_is_absent_from_that_round(federation: Federation, step: Step) -> None:
    federation.behave_in_sums[2] = dies_at(step)
    # Whether a silo opens a sum does not decide whether its vote is in it; a session is set up once.
    gone = step is Step.ASK
    rounds = federation.run(algorithm="fedct", secure=True, num_server_rounds=3, stop_at_fixed_point=False).rounds()
    assert [len(line["silos"]) for line in rounds] == [SILOS, SILOS - gone, SILOS]
    assert [len(line["absent"]) for line in rounds] == [0, int(gone), 0]


# --- with noise in shares


NAMES = ("cleveland", "budapest", "zurich", "long-beach")
PATE: dict[str, Any] = {"algorithm": "dp-pate", "num_server_rounds": 1, "secure": True}
NOISY: dict[str, dict[str, Any]] = {
    "dp-pate": {**PATE, "gamma": 0.1},
    "L1": {**PATE, "algorithm": "fedkt", "privacy_level": "L1", "gamma": 0.1},
    "protected": {**PATE, "gamma": 0.1, "protection": "randomized-response", "epsilon": 1e5},
}


def charged(folder: RunFolder, silo: str) -> tuple[int, PrivacyUnit]:
    with Ledger(folder.silo_privacy(silo)) as ledger:
        found = ledger.spent("test", WHOLE_SILO)
    assert found is not None
    return found.charges, found.budget.unit


@pytest.mark.parametrize("name", NOISY)
def test_each_silo_charges_the_sum_and_the_result_says_what_it_costs(federation: Federation, name: str) -> None:
    folder = federation.run(**NOISY[name])
    assert "" not in labels(folder)
    (line,) = folder.rounds()
    assert sorted(line["silos"]) == sorted(NAMES)
    assert "agreement" not in line
    told = result(folder)["privacy"]
    scale = 1 / NOISY[name]["gamma"]
    assert (told["unit"], told["where"], told["honest"], told["scale"]) == ("silo", "silos together", 3, scale)
    event = VoteShares(scale, QUERIES, 2, 3).event()
    assert told["epsilon"] == pytest.approx(epsilon_in_time(event, 1e-5).upper, rel=1e-3)
    for silo in NAMES:
        assert charged(folder, silo) == (1, PrivacyUnit.SILO)
    again = federation.run(run_dir=str(federation.path / "again"), **NOISY[name])
    assert (again.path / "labels.csv").read_bytes() == (folder.path / "labels.csv").read_bytes()
