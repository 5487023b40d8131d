"""What each container may do, and whom it can reach. What the outside sees is in tests/attacks/test_control_api.py."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.deploy.federation import SILOS, Federation

pytestmark = pytest.mark.deploy

AGENTS = [f"agent-{silo}" for silo in SILOS]
SUPERNODES = [f"supernode-{silo}" for silo in SILOS]
SERVICES = [*AGENTS, *SUPERNODES, "superlink", "superexec", "gateway"]

TRY_TO_CONNECT = """
import json, socket, sys
from concurrent.futures import ThreadPoolExecutor

def reached(address):
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=3).close()
        return True
    except OSError:
        return False

addresses = sys.argv[1:]
with ThreadPoolExecutor(len(addresses)) as pool:
    print(json.dumps([address for address, yes in zip(addresses, pool.map(reached, addresses)) if yes]))
"""

# A SuperNode has a way out, and what stands at its end may take any connection: only an answer of Flower's counts.
WHO_ANSWERS = """
import http.client, json, sys, urllib.request

def answers(address):
    try:
        with urllib.request.urlopen(address, timeout=3) as answer:
            return answer.status == 200 and answer.headers["server"] == "uvicorn"
    except (OSError, http.client.HTTPException):
        return False

print(json.dumps([address for address in sys.argv[1:] if answers(address)]))
"""


def reached(deployed: Federation, service: str, addresses: Iterable[str]) -> set[str]:
    """Those of the addresses, as ``host:port``, to which the service can connect."""
    return set(deployed.python(service, TRY_TO_CONNECT, *sorted(addresses)))


def test_every_service_is_tested(deployed: Federation) -> None:
    assert deployed.services() == sorted(SERVICES)


@pytest.mark.parametrize("service", SERVICES)
def test_a_process_has_no_rights_beyond_its_own(service: str, deployed: Federation) -> None:
    lines = deployed.execute(service, "cat", "/proc/1/status").stdout.splitlines()
    status = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    assert set(status["Uid"]) == set(status["Gid"]) == {"49999"}
    for capabilities in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[capabilities][0], 16) == 0
    assert status["NoNewPrivs"] == ["1"]
    assert status["Seccomp"] == ["2"]


@pytest.mark.parametrize("service", SERVICES)
def test_nothing_can_be_written_but_what_is_meant_to_be(service: str, deployed: Federation) -> None:
    places = "/ /usr /etc /app /app/certificates /app/silo /app/silo/study /app/silo/keys /app/silo/connection"
    script = f"for place in {places}; do touch $place/x 2>/dev/null && echo $place; done; true"
    assert deployed.execute(service, "sh", "-c", script).stdout == ""


@pytest.fixture(scope="module")
def everybody(deployed: Federation) -> set[str]:
    """Every port that anybody listens on, under every address: the way out is one of them."""
    ports = {"superlink": 8000, "gateway": 8443} | dict.fromkeys(SUPERNODES, 9094)
    addresses = {"172.17.0.1:22", f"172.17.0.1:{deployed.port}"}
    for service, port in ports.items():
        addresses.add(f"{service}:{port}")
        for network in deployed.container(service)["NetworkSettings"]["Networks"].values():
            addresses |= {f"{network['IPAddress']}:{port}", f"{network['Gateway']}:{deployed.port}"}
    return {address for address in addresses if not address.startswith(":")}


@pytest.mark.parametrize("silo", SILOS)
def test_an_agent_reaches_its_supernode_and_nobody_else(silo: str, deployed: Federation, everybody: set[str]) -> None:
    networks = deployed.container(f"supernode-{silo}")["NetworkSettings"]["Networks"]
    inside = networks[f"{deployed.project}_{silo}"]["IPAddress"]
    assert reached(deployed, f"agent-{silo}", everybody) == {f"supernode-{silo}:9094", f"{inside}:9094"}


@pytest.mark.parametrize("name", ["superlink", "gateway", "example.com", "deb.debian.org", "host.docker.internal"])
def test_an_agent_cannot_ask_for_names_outside(name: str, deployed: Federation) -> None:
    # A question for a name is a way out, too.
    code = f"""
import json, socket
try:
    print(json.dumps(socket.gethostbyname({name!r})))
except OSError:
    print("null")
"""
    assert deployed.python(AGENTS[0], code) is None


@pytest.mark.parametrize("silo", SILOS)
def test_a_supernode_listens_for_its_own_agent_alone(silo: str, deployed: Federation) -> None:
    addresses = {
        f"http://{network['IPAddress']}:9094/health"
        for service in SUPERNODES
        for network in deployed.container(service)["NetworkSettings"]["Networks"].values()
    }
    own = deployed.container(f"supernode-{silo}")["NetworkSettings"]["Networks"][f"{deployed.project}_{silo}"]
    answers = deployed.python(f"supernode-{silo}", WHO_ANSWERS, *sorted(addresses))
    assert answers == [f"http://{own['IPAddress']}:9094/health"]


@pytest.mark.parametrize("silo", SILOS)
def test_a_supernode_has_keys_and_nothing_of_ours(silo: str, deployed: Federation) -> None:
    found = deployed.execute(f"supernode-{silo}", "find", "/app", "-type", "f", "-not", "-path", "/app/.flwr/*")
    names = ("ca.crt", "client.crt", "client.key", "node.key", "secret")
    assert sorted(found.stdout.split()) == [f"/app/certificates/{name}" for name in names]
    for package in ("fedct_flwr", "client_app", "sklearn", "pip"):
        assert deployed.execute(f"supernode-{silo}", "python", "-c", f"import {package}", check=False).returncode


@pytest.mark.parametrize("silo", SILOS)
def test_an_agent_has_no_key_to_the_network_and_no_tools(silo: str, deployed: Federation) -> None:
    agent = f"agent-{silo}"
    found = deployed.execute(agent, "find", "/app", "-type", "f", "-not", "-path", "/app/silo/state/*").stdout.split()
    assert {Path(path).name for path in found} == {
        "silo.toml", "data.csv", "test.csv", "study.toml", "public.csv", "egress.key", "egress.pub", "secret",
    }  # fmt: skip
    tools = "command -v gcc cc curl wget ssh nginx nc; ls /venv/bin/pip* 2>/dev/null; true"
    assert deployed.execute(agent, "sh", "-c", tools).stdout == ""


@pytest.mark.parametrize("name", ["ca.key", "clients.key"])
def test_nobody_has_the_key_of_an_authority(deployed: Federation, name: str) -> None:
    script = f"find / -xdev -name {name} 2>/dev/null; find /app -name {name}; true"
    assert {deployed.execute(service, "sh", "-c", script).stdout for service in SERVICES} == {""}


def test_code_of_a_run_finds_no_key(deployed: Federation) -> None:
    assert deployed.execute("superexec", "find", "/app", "-name", "*.key").stdout == ""
