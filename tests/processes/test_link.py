"""A supervised SuperNode, a real SuperLink, and between them what takes calls, drops them and answers in its place."""

import json
import subprocess
import time
from collections.abc import Iterator

import psutil
import pytest

from fedct_flwr.flower.command import BIN
from fedct_flwr.flower.supernode import SETTINGS_CODE
from fedct_flwr.hospital.agent_status import status_file
from fedct_flwr.hospital.link import LinkStatus
from tests.patience import PATIENCE
from tests.processes.deployment import Deployment, SiloFolder

pytestmark = [pytest.mark.slow, pytest.mark.processes]

SILO = "zurich"
NAME = f"supernode {SILO}"


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with Deployment(tmp_path_factory.mktemp("link"), [SILO], bare=True, relayed=True) as running:
        running.start_supernode(running.silos[SILO])
        yield running


@pytest.fixture(scope="module")
def silo(deployment: Deployment) -> SiloFolder:
    return deployment.silos[SILO]


def link(silo: SiloFolder) -> LinkStatus:
    found = LinkStatus.read(status_file(silo.config))
    if found is None:
        raise OSError("no supervisor")
    return found


def is_up(silo: SiloFolder) -> bool:
    return not link(silo).error and link(silo).silence < 10


def state(deployment: Deployment) -> str:
    """What the coordinator says of the silo."""
    done = deployment.coordinate("status", "--json")
    assert done.exit_code == 0, (done.output, done.exception)
    (found,) = json.loads(done.stdout)["silos"]
    return str(found["state"])


def test_a_supernode_that_is_not_registered_is_let_in_once_it_is(deployment: Deployment, silo: SiloFolder) -> None:
    deployment.wait(lambda: "Ask whether connection/node.key.pub is registered" in deployment.log(NAME), "the sentence")
    assert state(deployment) == "unregistered"
    deployment.superlink.register(silo.node_key, SILO)
    deployment.wait(lambda: "connected to the coordinator" in deployment.log(NAME), "the link")
    deployment.wait(lambda: state(deployment) == "online", "the coordinator's word")


@pytest.mark.parametrize("fault", ["reset", "503", "stall"])
def test_a_silent_death_is_found_and_the_link_comes_back(deployment: Deployment, silo: SiloFolder, fault: str) -> None:
    relay, again = deployment.relays[SILO], "the coordinator answers again, after"
    deployment.wait(lambda: is_up(silo), "the link")
    before = deployment.log(NAME).count(again)
    relay.fail(fault)
    deployment.wait(lambda: link(silo).silence > 15 and link(silo).error, "the fault")
    relay.heal()
    began = time.monotonic()
    deployment.wait(lambda: deployment.log(NAME).count(again) == before + 1, "the link")
    print(f"{fault}: back after {time.monotonic() - began:.0f} s")
    deployment.wait(lambda: state(deployment) == "online", "the coordinator's word")


def test_one_whose_supervisor_is_killed_ends(deployment: Deployment, silo: SiloFolder) -> None:
    """So the one that takes its place finds its port free."""
    supervisor = deployment.process(NAME)
    (process,) = supervisor.children()
    supervisor.kill()
    psutil.wait_procs([process], timeout=PATIENCE)
    deployment.wait(lambda: deployment.process(NAME).pid != supervisor.pid and is_up(silo), "the link")


def test_a_port_that_is_taken_is_one_sentence(deployment: Deployment, silo: SiloFolder) -> None:
    done = subprocess.run(
        [BIN / "fedct", "silo", "connect", silo.folder], env=deployment.environment, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == SETTINGS_CODE
    assert f"cannot listen for the agent at 127.0.0.1:{silo.port} (Address already in use)" in done.stdout
    assert (done.stdout.count("\n"), done.stderr) == (1, "")
