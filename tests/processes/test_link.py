"""A supervised SuperNode, a real SuperLink, and between them what takes calls, drops them and answers in its place."""

import json
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator

import psutil
import pytest

from fedct_flwr.engine.flower import BIN
from fedct_flwr.hospital.link import Heard, Trouble
from fedct_flwr.hospital.supervised_supernode import SETTINGS_CODE
from tests.patience import PATIENCE
from tests.processes.deployment import Deployment, SiloFolder
from tests.processes.relay import Relay

pytestmark = pytest.mark.processes

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


def heard(silo: SiloFolder) -> Heard:
    """What the SuperNode says of its link. Raises OSError if it is not there."""
    with urllib.request.urlopen(f"http://127.0.0.1:{silo.port}/health", timeout=5) as answer:
        found = Heard.read(answer.headers)
    assert found is not None
    return found


def is_up(silo: SiloFolder) -> bool:
    return heard(silo) == Heard(heard(silo).silent) and heard(silo).silent < 5


def listed_by(deployment: Deployment) -> str:
    """What the coordinator says of the silo."""
    done = deployment.coordinate("list", "--json")
    assert done.exit_code == 0, (done.output, done.exception)
    (found,) = json.loads(done.stdout)["silos"]
    assert found["silo"] == SILO
    assert (found["seconds"] is None) == (found["state"] == "unregistered")
    assert (found["seconds"] or 0) < 60
    return str(found["state"])


def test_a_supernode_that_is_not_registered_waits_until_it_is(deployment: Deployment, silo: SiloFolder) -> None:
    deployment.wait(lambda: heard(silo).trouble == Trouble.UNREGISTERED, "an answer of the coordinator")
    assert listed_by(deployment) == "unregistered"
    listed = subprocess.run(["ssh-keygen", "-l", "-f", silo.node_key], capture_output=True, text=True, check=True)
    fingerprint = listed.stdout.split()[1]
    sentence = f"the coordinator has not registered this key yet (fingerprint {fingerprint})"
    deployment.wait(lambda: sentence in deployment.log(NAME), "the sentence")
    (process,) = deployment.process(NAME).children()
    deployment.superlink.register(silo.node_key, SILO)
    deployment.wait(lambda: is_up(silo), "the link")
    assert listed_by(deployment) == "online"
    assert deployment.process(NAME).children() == [process], "it is the same process that has waited"
    deployment.wait(lambda: "connected to the coordinator" in deployment.log(NAME), "a line that says so")


@pytest.mark.parametrize(
    ("fault", "trouble"),
    [("drop", Trouble.BROKEN), ("reset", Trouble.BROKEN), ("503", Trouble.BROKEN), ("garble", Trouble.BROKEN)],
)
def test_after_a_fault_the_link_comes_back_and_no_process_is_lost(
    deployment: Deployment, silo: SiloFolder, fault: str, trouble: Trouble
) -> None:
    relay, (process,) = deployment.relays[SILO], deployment.process(NAME).children()
    deployment.wait(lambda: is_up(silo), "the link")
    began = time.monotonic()
    relay.fail(fault)
    deployment.wait(lambda: heard(silo).trouble == trouble and heard(silo).silent > 2, "the fault")
    relay.heal()
    deployment.wait(lambda: is_up(silo), "the link")
    print(f"{fault}: {time.monotonic() - began:.1f} s")
    assert deployment.process(NAME).children() == [process]
    deployment.wait(lambda: "the coordinator answers again, after" in deployment.log(NAME), "a line that says so")


def test_a_silence_is_measured(deployment: Deployment, silo: SiloFolder) -> None:
    deployment.relays[SILO].fail("cut-down")
    try:
        deployment.wait(lambda: heard(silo).silent > 6, "the silence")
    finally:
        deployment.relays[SILO].heal()
    deployment.wait(lambda: is_up(silo), "the link")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGKILL, -9)])
def test_what_is_killed_is_started_again(deployment: Deployment, silo: SiloFolder, number: int, code: int) -> None:
    """And let in at once, though the coordinator counts the one that was killed as there for a minute more."""
    (process,) = deployment.process(NAME).children()
    began = time.monotonic()
    process.send_signal(number)
    deployment.wait(lambda: deployment.process(NAME).children() not in ([], [process]), "a new process")
    deployment.wait(lambda: is_up(silo), "the link")
    print(f"back after {time.monotonic() - began:.1f} s")
    assert f"the SuperNode has ended (exit code {code}): it is started again in" in deployment.log(NAME)


def test_one_whose_supervisor_is_killed_says_goodbye(deployment: Deployment, silo: SiloFolder) -> None:
    """So the one that takes its place is let in at once, and finds its port free."""
    supervisor = deployment.process(NAME)
    (process,) = supervisor.children()
    supervisor.kill()
    psutil.wait_procs([process], timeout=PATIENCE)
    began = time.monotonic()
    deployment.wait(lambda: deployment.process(NAME).pid != supervisor.pid and is_up(silo), "the link")
    print(f"back after {time.monotonic() - began:.1f} s")


def test_a_port_that_is_taken_is_one_sentence(deployment: Deployment, silo: SiloFolder) -> None:
    done = subprocess.run(
        [BIN / "fedct", "silo", "connect", silo.folder], env=deployment.environment, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == SETTINGS_CODE
    assert done.stdout.count("\n") == 1
    assert f"cannot listen for the agent at 127.0.0.1:{silo.port} (Address already in use)" in done.stdout
    assert done.stderr == ""


def test_a_proxy_that_fails_is_named_and_asked_again(deployment: Deployment, silo: SiloFolder) -> None:
    deployment.stop(NAME)
    with Relay(deployment.port) as proxy:
        proxied = deployment.environment | {"HTTPS_PROXY": f"http://{proxy.address}", "NO_PROXY": "", "no_proxy": ""}
        deployment.environment, before = proxied, deployment.environment
        try:
            proxy.fail("503")
            deployment.start_supernode(silo)
            deployment.wait(lambda: heard(silo).trouble == "proxy-status-503", "the proxy's answer")
            proxy.fail("drop")
            deployment.wait(lambda: heard(silo).trouble not in ("", "proxy-status-503"), "another fault")
            proxy.heal()
            deployment.wait(lambda: is_up(silo), "the link")
        finally:
            deployment.environment = before
            code = deployment.stop(NAME)
    assert code == 0
    assert listed_by(deployment) == "offline", "it has said goodbye"
