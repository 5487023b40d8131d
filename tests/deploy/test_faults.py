"""What breaks while four hospitals train: a run ends with those that are left, and nobody answers a round twice."""

import re
import time
from collections.abc import Iterator

import pytest

from tests.deploy.federation import SILOS, Federation, rounds_in
from tests.patience import eventually

pytestmark = pytest.mark.deploy

_STATUS_SECONDS = 10
RUN = ("--rounds", "4", "--set", "stop-at-fixed-point=false", "--set", "round-deadline=60")


@pytest.fixture(scope="module")
def prepared(deployed: Federation) -> Federation:
    """The federation with a silo that trains for long, and with one whose disk is small."""
    # Made anew and not changed: Compose would give the new container the old one's volume in the small disk's place.
    deployed.compose("rm", "--stop", "--force", "agent-long-beach")
    deployed.start("tests/deploy/faults.yaml")
    return deployed


@pytest.fixture
def fragile(prepared: Federation) -> Iterator[Federation]:
    """The same. Whatever was killed is back before the next fault."""
    yield prepared
    prepared.wait_healthy()


def test_an_agent_killed_while_it_trains(fragile: Federation) -> None:
    def kill() -> None:
        working = "import json; print(json.dumps(json.load(open('/app/silo/state/agent.json'))['working']))"
        eventually(lambda: fragile.python("agent-cleveland", working), pause=0.2)
        fragile.kill("agent-cleveland")

    code, printed = fragile.train(*RUN, during=kill)
    assert code == 0, printed
    assert len(rounds_in(printed)) == 4
    assert min(rounds_in(printed)) >= 3


def test_the_superexec_started_again(fragile: Federation) -> None:
    """Here the command that shows the run dies with it; the run can be gone on with."""
    code, printed = fragile.train(*RUN, during=lambda: fragile.compose("restart", "superexec"))
    assert code, printed
    fragile.wait_healthy()
    folder = fragile.execute("superexec", "sh", "-c", "ls -td /app/coordinator/runs/*/ | head -1").stdout.strip()
    code, printed = fragile.train("--resume", folder)
    assert code == 0, printed
    assert rounds_in(printed)


def test_the_gateway_started_again(fragile: Federation) -> None:
    code, printed = fragile.train(*RUN, during=lambda: fragile.compose("restart", "gateway"))
    assert code == 0, printed
    assert len(rounds_in(printed)) == 4


def test_all_containers_started_again(fragile: Federation) -> None:
    """As after a power cut: the coordinator's state is shown at once, and the run can be gone on with."""
    code, printed = fragile.train(*RUN, during=lambda: fragile.compose("restart"))
    assert code, printed
    fragile.wait_healthy()
    began = time.monotonic()
    status = fragile.execute("superexec", "fedct", "coordinator", "status", "/app/coordinator", check=False)
    assert time.monotonic() - began < _STATUS_SECONDS
    resume = re.search(r"--resume ([^\s']+)", status.stdout + status.stderr)
    assert resume, status.stdout + status.stderr
    code, printed = fragile.train("--resume", resume[1])
    assert code == 0, printed
    assert rounds_in(printed)


@pytest.mark.slow
def test_a_silo_cut_off_for_a_round(fragile: Federation) -> None:
    code, printed = fragile.train(*RUN, during=lambda: fragile.network("disconnect", "supernode-budapest", "outside"))
    fragile.network("connect", "supernode-budapest", "outside")
    assert code == 0, printed
    assert 3 in rounds_in(printed)
    assert len(rounds_in(printed)) == 4


def test_a_silo_with_a_full_disk_sends_nothing_that_it_cannot_log(fragile: Federation) -> None:
    before = len(fragile.egress("long-beach"))
    # Never without end: should the small disk not be there, this machine's would be filled.
    # Without a model to begin with: a silo that cannot keep the new one gives up the old one, and with it makes room.
    fill = "cd /app/silo/state && rm -f model-* && head -c 4M /dev/zero > filler"
    fragile.execute("agent-long-beach", "sh", "-c", fill, check=False)
    disk = fragile.execute("agent-long-beach", "df", "--output=size,avail", "/app/silo/state").stdout.split()
    assert disk[2:] == ["1024", "0"], disk
    code, printed = fragile.train(*RUN)
    fragile.execute("agent-long-beach", "rm", "/app/silo/state/filler")
    assert code == 0, printed
    assert rounds_in(printed) == [3, 3, 3, 3], printed
    assert len(fragile.egress("long-beach")) == before


def health(fragile: Federation, service: str) -> str:
    return str(fragile.container(service)["State"]["Health"]["Status"])


@pytest.mark.slow
def test_a_silence_of_the_gateway_is_seen_in_every_silos_health_and_ends_by_itself(fragile: Federation) -> None:
    """The gateway takes calls all the time, and answers none of them."""
    before = {silo: fragile.container(f"supernode-{silo}")["State"]["StartedAt"] for silo in SILOS}
    fragile.compose("pause", "gateway")
    try:
        eventually(lambda: health(fragile, "supernode-cleveland") == "unhealthy", "the health check", pause=2)
    finally:
        fragile.compose("unpause", "gateway")
    fragile.wait_healthy()
    assert {silo: fragile.container(f"supernode-{silo}")["State"]["StartedAt"] for silo in SILOS} == before
    assert "no answer from the coordinator" in fragile.compose("logs", "--no-color", "supernode-cleveland").stdout


def test_afterwards_all_take_part_again(prepared: Federation) -> None:
    code, printed = prepared.train(*RUN)
    assert code == 0, printed
    assert rounds_in(printed)[-1] == 4, printed


@pytest.mark.parametrize("silo", SILOS)
def test_the_log_proves_all_that_left(silo: str, prepared: Federation) -> None:
    assert "is intact" in prepared.execute(f"agent-{silo}", "fedct", "silo", "verify").stdout
