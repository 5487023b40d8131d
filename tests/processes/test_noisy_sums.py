"""Four hospitals as real processes add votes with their shares of the noise: gate, ledger and agent at work."""

from collections.abc import Iterator

import pytest

from fedct_flwr.hospital.log_entry import Event
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.silo.noisy_sum import account_of_sums
from tests.hospitals import STUDY
from tests.processes.deployment import Deployment
from tests.processes.test_secure_sums import with_sums

pytestmark = pytest.mark.processes

EPSILON = 12.0
"""Of each run."""
BUDGET = 30.0


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    made = Deployment(
        tmp_path_factory.mktemp("noisy"),
        learner={"name": "decision-tree", "params": {"max_depth": 3}},
        policy={"kinds": ["sum", "count-sum"], "sum-epsilon": BUDGET},
    )
    with with_sums(made) as running:
        yield running


def begin(deployment: Deployment, algorithm: str, **settings: object) -> tuple[int, RunFolder]:
    """Start a run that asks once."""
    once = {"num_server_rounds": 1, "stop_at_fixed_point": True}
    return deployment.begin(f"{algorithm} {len(settings)}", algorithm=algorithm, secure=True, **once, **settings)


@pytest.mark.parametrize(
    ("algorithm", "settings", "kind"),
    [("dp-pate", {}, "sum"), ("fedkt", {"privacy_level": "L1"}, "count-sum")],
)
def test_votes_leave_with_noise_alone_charged_before_and_on_record(
    deployment: Deployment, algorithm: str, settings: dict[str, object], kind: str
) -> None:
    before = {name: account_of_sums(silo.config, STUDY) for name, silo in deployment.silos.items()}
    run, folder = begin(deployment, algorithm, epsilon=EPSILON, **settings)
    result = deployment.finish(run, folder)
    assert result["status"] == "completed", deployment.logs()
    told = result["privacy"]
    assert told["unit"] == "silo"
    assert (told["honest"], told["may_collude"]) == (2, 1)
    assert told["epsilon"] <= EPSILON
    for name, silo in deployment.silos.items():
        account = account_of_sums(silo.config, STUDY)
        assert account.charges == before[name].charges + 1
        assert before[name].epsilon < account.epsilon <= BUDGET
        entries = silo.entries(run)
        assert silo.refusals(run) == []
        assert len([entry for entry in entries if entry.event is Event.ADDED and entry.request]) == 1
        assert {entry.kind for entry in entries if entry.event is Event.RELEASED} == {kind}


@pytest.mark.parametrize("algorithm", ["pate", "fedkt"])
def test_votes_without_noise_are_refused_and_charge_nothing(deployment: Deployment, algorithm: str) -> None:
    before = {name: account_of_sums(silo.config, STUDY).charges for name, silo in deployment.silos.items()}
    run, folder = begin(deployment, algorithm)
    assert deployment.finish(run, folder)["status"] == "failed"
    for name, silo in deployment.silos.items():
        assert account_of_sums(silo.config, STUDY).charges == before[name]
        assert {entry.reason for entry in silo.entries(run) if entry.event is Event.REFUSED} == {"POLICY"}
        assert [entry for entry in silo.entries(run) if entry.event in (Event.RELEASED, Event.ADDED)] == []
