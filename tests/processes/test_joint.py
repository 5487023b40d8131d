"""Four hospitals as real processes train one labeler by noisy sums: gate, ledger and agent behind stock SuperNodes."""

import signal
from collections.abc import Iterator

import pytest

from fedct_flwr.config import SiloConfig
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.hospital.approval import approve
from fedct_flwr.hospital.egress_log import EgressLog
from fedct_flwr.hospital.keys import load_egress_key, public_key_path
from fedct_flwr.hospital.log_entry import Event
from fedct_flwr.kinds.joint import STEPS
from fedct_flwr.privacy.ledger import Ledger
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.silo.release import DATA_SET
from tests.hospitals import STUDY
from tests.processes.deployment import Deployment, SiloFolder

pytestmark = pytest.mark.processes

RECORDS = 500
"""As the study says: not what silos have."""


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    made = Deployment(
        tmp_path_factory.mktemp("joint"),
        learner={"name": "decision-tree", "params": {"max_depth": 3}},
        policy={"kinds": ["joint"]},
    )
    lines = {name: public_key_path(silo.config.egress_key).read_text() for name, silo in made.silos.items()}
    agreed = f"\n[joint]\nrecords = {RECORDS}\n\n[sums.keys]\n"
    agreed += "".join(f'{name} = "{line.splitlines()[1]}"\n' for name, line in lines.items())
    for study in (made.coordinator.study, *(silo.config.study for silo in made.silos.values())):
        path = study / "study.toml"
        path.write_text(path.read_text() + agreed)
    for name, silo in made.silos.items():
        with EgressLog.open(silo.config.state, name, load_egress_key(silo.config.egress_key)) as log:
            approve(log, silo.config, read_study(silo.config.study))
    with made as running:
        yield running


def spent(config: SiloConfig) -> tuple[float, int]:
    with Ledger(config.state) as ledger:
        found = ledger.spent(STUDY, DATA_SET)
    assert found is not None
    return found.epsilon.upper, found.charges


def added(silo: SiloFolder, run: int) -> list[str]:
    """The questions that the silo has added an answer to, each of them once."""
    found = [entry.request for entry in silo.entries(run) if entry.event is Event.ADDED and entry.request]
    assert len(found) == len(set(found))
    return found


def train(deployment: Deployment, name: str, **settings: object) -> tuple[int, RunFolder]:
    usual = {"num_server_rounds": STEPS + 1, "stop_at_fixed_point": True}
    return deployment.begin(name, algorithm="fedct-joint", **{**usual, **settings})


@pytest.fixture(scope="module")
def whole(deployment: Deployment) -> tuple[int, RunFolder]:
    """A run to the end, in whose middle one agent ends: what it has not added yet it adds when it is there again."""
    run, folder = train(deployment, "whole")
    deployment.wait(lambda: len(folder.rounds()) >= 4 or (folder.path / "result.json").exists(), "round 4")
    deployment.send("agent zurich", signal.SIGKILL)
    assert deployment.finish(run, folder)["status"] == "completed", deployment.logs()
    return run, folder


def test_a_run_spends_each_silos_budget_and_all_that_left_is_on_record(
    deployment: Deployment, whole: tuple[int, RunFolder]
) -> None:
    run, folder = whole
    rounds = folder.rounds()
    assert [line["round"] for line in rounds] == list(range(1, STEPS + 2))
    assert min(len(line["silos"]) for line in rounds) >= 3
    assert folder.read_json("result.json")["joint"]["epsilon"] == 1.0
    for silo in deployment.silos.values():
        epsilon, charges = spent(silo.config)
        assert charges <= STEPS
        assert epsilon <= 1.0
        assert len(added(silo, run)) <= STEPS
        assert {entry.kind for entry in silo.entries(run) if entry.kind} == {"joint"}


@pytest.mark.usefixtures("whole")
def test_a_spent_budget_ends_the_next_run_in_one_sentence(deployment: Deployment) -> None:
    run, folder = train(deployment, "again")
    result = deployment.finish(run, folder)
    assert result["status"] == "failed"
    assert "privacy budget does not cover another answer" in result["reason"]
    for silo in deployment.silos.values():
        assert added(silo, run) == []
        assert spent(silo.config)[0] <= 1.0
