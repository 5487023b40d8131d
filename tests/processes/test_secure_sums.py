"""Four hospitals as real processes that add their labels: gate and agent behind stock SuperNodes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.hospital.approval import approve
from fedct_flwr.hospital.egress_log import EgressLog
from fedct_flwr.hospital.keys import load_egress_key, public_key_path
from fedct_flwr.hospital.log_entry import Event
from tests.processes.deployment import Deployment

pytestmark = [pytest.mark.slow, pytest.mark.processes]


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    learner = {"name": "decision-tree", "params": {"max_depth": 3}}
    kinds = ["sum", "hard", "count-sum", "counts", "soft-sum", "soft"]
    with with_sums(Deployment(tmp_path_factory.mktemp("sums"), learner=learner, policy={"kinds": kinds})) as running:
        yield running


@contextmanager
def with_sums(made: Deployment) -> Iterator[Deployment]:
    """The deployment at work, in a study with the silos' keys that each of them has approved."""
    lines = {name: public_key_path(silo.config.egress_key).read_text() for name, silo in made.silos.items()}
    sums = "\n[sums.keys]\n" + "".join(f'{name} = "{line.splitlines()[1]}"\n' for name, line in lines.items())
    for study in (made.coordinator.study, *(silo.config.study for silo in made.silos.values())):
        path = study / "study.toml"
        path.write_text(path.read_text() + sums)
    for name, silo in made.silos.items():
        with EgressLog.open(silo.config.state, name, load_egress_key(silo.config.egress_key)) as log:
            approve(log, silo.config, read_study(silo.config.study))
    with made as running:
        yield running


@pytest.mark.parametrize(
    ("algorithm", "kind", "in_sums", "settings"),
    [
        ("fedct", "hard", "sum", {}),
        ("fedkt", "counts", "count-sum", {"num_server_rounds": 1, "stop_at_fixed_point": True}),
        ("dd", "soft", "soft-sum", {}),
    ],
)
def test_labels_are_those_without_sums_and_all_that_left_is_on_record(
    deployment: Deployment, algorithm: str, kind: str, in_sums: str, settings: dict[str, Any]
) -> None:
    labels, rounds = [], settings.get("num_server_rounds", 2)
    for secure in (True, False):
        run, folder = deployment.begin(f"{algorithm} {secure}", algorithm=algorithm, secure=secure, seed=7, **settings)
        assert deployment.finish(run, folder)["status"] == "completed", deployment.logs()
        assert [len(record["silos"]) for record in folder.rounds()] == [4] * rounds
        labels.append((folder.path / "labels.csv").read_bytes())
        for silo in deployment.silos.values():
            entries = silo.entries(run)
            assert silo.refusals(run) == []
            added = [entry for entry in entries if entry.event is Event.ADDED]
            assert len([entry for entry in added if entry.request]) == rounds * secure
            assert {entry.kind for entry in entries if entry.event is Event.RELEASED} == {in_sums if secure else kind}
    assert labels[0] == labels[1]
