"""``fedct coordinator count`` with six real silos, as plain processes on free ports."""

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomli_w

from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.hospital.approval import approve
from fedct_flwr.hospital.egress_log import EgressLog
from fedct_flwr.hospital.keys import load_egress_key, public_key_path
from fedct_flwr.hospital.log_entry import Event
from tests.hospitals import HOSPITALS, dataset
from tests.processes.deployment import Deployment, SiloFolder

pytestmark = [pytest.mark.slow, pytest.mark.processes]
MORE = {"oslo": "cleveland", "essen": "budapest"}


def prepare(silos: dict[str, SiloFolder], coordinator: Path) -> None:
    """Agree on counts, and let each silo approve them under its own name."""
    keys = {}
    for name, silo in silos.items():
        pem = public_key_path(silo.config.egress_key).read_text("utf-8")
        keys[name] = "".join(pem.splitlines()[1:-1])
    agreed = "\n" + tomli_w.dumps({"count": {"epsilon": 0.5}, "sums": {"keys": keys}})
    for study in (coordinator, *(silo.folder / "study" for silo in silos.values())):
        path = study / "study.toml"
        path.write_text(path.read_text("utf-8") + agreed, "utf-8")
    for name, silo in silos.items():
        text = silo.file.read_text("utf-8").replace(f'silo = "{silo.name}"', f'silo = "{name}"')
        silo.file.write_text(text.replace("[policy]", '[policy]\nkinds = ["count"]'), "utf-8")
        silo.name, silo.config = name, SiloConfig.read_toml(silo.file)
        silo.study = read_study(silo.config.study)
        shutil.rmtree(silo.config.state)
        with EgressLog.open(silo.config.state, name, load_egress_key(silo.config.egress_key)) as log:
            approve(log, silo.config, silo.study)


@pytest.fixture(scope="module")
def silos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp("deployment")
    with Deployment(folder, learner={"name": "logistic-regression"}, bare=True) as deployment:
        deployment.silos |= {name: deployment._silo(name, hospital) for name, hospital in MORE.items()}
        for name, silo in deployment.silos.items():
            (deployment.coordinator.silos / f"{name}.pub").write_bytes(silo.node_key.read_bytes())
        prepare(deployment.silos, deployment.coordinator.study)
        done = deployment.coordinate("register")
        assert done.exit_code == 0, done.output
        deployment.start_superexec()
        deployment.start_silos()
        yield deployment


def test_six_silos_count_within_the_noise_and_the_same_question_is_free(silos: Deployment) -> None:
    private = {silo.name: silo.private for silo in dataset().silos}
    true = sum(int((private[name].X[:, 0] >= 50).sum()) for name in [*HOSPITALS, *MORE.values()])
    began = time.monotonic()
    done = silos.coordinate("count", "--where", "age >= 50", "--json")
    seconds = time.monotonic() - began
    assert done.exit_code == 0, (done.output, done.exception, silos.logs())
    found = json.loads(done.stdout)
    print(f"{seconds:.1f} s, {found['all']}, true {true}")
    assert found["silos"] == 6
    # Twice the half width, which noise leaves once in 10,000 times.
    half = (found["all"]["high"] - found["all"]["low"]) / 2
    assert abs(found["all"]["about"] - true) <= 2 * half
    again = silos.coordinate("count", "--where", "age>=50", "--json")
    assert json.loads(again.stdout) == found
    for silo in silos.silos.values():
        assert len([line for line in silo.of(Event.ADDED) if line.request]) == 1
        assert {line.kind for line in silo.of(Event.RELEASED)} == {"count"}
    wrong = silos.coordinate("count", "--where", "agee >= 50")
    assert wrong.exit_code
    assert "did you mean 'age'?" in str(wrong.exception)
