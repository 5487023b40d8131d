"""What is in docker/ for machines that nobody here has: files that parse, keep to the rules, and name what there is."""

import configparser
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import typer
import yaml

from fedct_flwr import __version__
from fedct_flwr.cli.coordinator.folder import CoordinatorFolder
from fedct_flwr.cli.coordinator.gateway import in_container
from fedct_flwr.cli.main import app
from fedct_flwr.config.coordinator import LONGEST_MESSAGE
from tests.cli.silos import Authority
from tests.patience import PATIENCE
from tests.readme import ROOT

DOCKER = ROOT / "docker"
CHARTS = sorted(path for path in (DOCKER / "charts").iterdir())
KUBERNETES = "1.37"
UNITS = sorted((DOCKER / "systemd").glob("*.service"))
QUADLETS = DOCKER / "quadlet"
QUADLET = Path("/usr/libexec/podman/quadlet")
"""Podman's own reader of Quadlet files."""


# --- the coordinator's compose file


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    text = (DOCKER / "coordinator" / "compose.yaml").read_text("utf-8")
    return dict(yaml.safe_load(text))


def mounts(compose: dict[str, Any], service: str) -> dict[str, bool]:
    """What a service sees of the coordinator's folder, and whether it may write there."""
    return {
        volume["source"].removeprefix("${COORDINATOR:-./coordinator}").lstrip("/"): not volume.get("read_only")
        for volume in compose["services"][service]["volumes"]
    }


def test_each_service_sees_what_it_needs_of_the_folder_and_no_authoritys_key(compose: dict[str, Any]) -> None:
    folder = CoordinatorFolder(Path("/c"))
    there = {str(value.relative_to("/c")) for value in vars(folder).values() if value != folder.path}
    for service in ("superlink", "superexec", "gateway"):
        seen = mounts(compose, service)
        assert set(seen) <= there, service
        assert not {"certificates/ca.key", "certificates/clients.key", "certificates", ""} & set(seen), service
    assert mounts(compose, "superexec") == {
        "certificates/ca.crt": False, "secret": False, "study": False, "runs": True
    }  # fmt: skip
    assert {name for name, writable in mounts(compose, "superlink").items() if writable} == {"state"}
    assert not any(mounts(compose, "gateway").values())


def test_all_services_are_hardened_and_only_the_gateway_has_a_port(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert ("ports" in service) is (name == "gateway"), name
        assert service["networks"] == (["coordinator", "outside"] if name == "gateway" else ["coordinator"]), name
    assert compose["networks"]["coordinator"]["internal"]


# --- charts


def rendered(chart: Path) -> list[dict[str, Any]]:
    """As Helm renders templates that use values alone."""
    values = {
        f".Values.{key}": str(value)
        for key, value in yaml.safe_load((chart / "values.yaml").read_text("utf-8")).items()
    }

    def value(found: re.Match[str]) -> str:
        name, quoted = found[1], bool(found[2])
        text = {**values, ".Release.Name": "study"}[name]
        return f'"{text}"' if quoted else text

    text = "\n---\n".join(path.read_text("utf-8") for path in sorted((chart / "templates").glob("*.yaml")))
    whole = re.sub(r"\{\{ (\.[\w.]+)( \| quote)? \}\}", value, text)
    assert "{{" not in whole
    return [document for document in yaml.safe_load_all(whole) if document]


def of_kind(chart: Path, kind: str) -> list[dict[str, Any]]:
    return [document for document in rendered(chart) if document["kind"] == kind]


@pytest.mark.parametrize("chart", CHARTS, ids=lambda path: path.name)
def test_pods_have_no_rights_and_no_root(chart: Path) -> None:
    for deployment in of_kind(chart, "Deployment"):
        pod = deployment["spec"]["template"]["spec"]
        assert not pod["automountServiceAccountToken"]
        assert pod["securityContext"]["runAsNonRoot"]
        for container in pod["containers"]:
            rights = container["securityContext"]
            assert rights["readOnlyRootFilesystem"]
            assert not rights["allowPrivilegeEscalation"]
            assert rights["capabilities"] == {"drop": ["ALL"]}
            assert container["livenessProbe"]
            assert container["resources"]["limits"]["memory"]
            assert {mount["name"] for mount in container["volumeMounts"]} == {
                volume["name"] for volume in pod["volumes"]
            }


@pytest.mark.parametrize("chart", CHARTS, ids=lambda path: path.name)
def test_whatever_is_not_allowed_is_denied(chart: Path) -> None:
    nothing, *others = of_kind(chart, "NetworkPolicy")
    assert nothing["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert not {"ingress", "egress"} & set(nothing["spec"])
    chosen = nothing["spec"]["podSelector"]["matchLabels"]
    pods = [document["spec"]["template"]["metadata"]["labels"] for document in of_kind(chart, "Deployment")]
    assert all(chosen.items() <= labels.items() for labels in pods)
    # Each rule is about pods that there are.
    for policy in others:
        own = policy["spec"]["podSelector"]["matchLabels"]
        assert sum(own.items() <= labels.items() for labels in pods) == 1


def test_the_agent_reaches_its_supernode_and_nothing_else() -> None:
    chart = DOCKER / "charts" / "fedct-silo"
    (agent,) = [one for one in of_kind(chart, "NetworkPolicy") if one["metadata"]["name"].endswith("-agent")]
    (rule,) = agent["spec"]["egress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": 9094}]
    assert rule["to"][0]["podSelector"]["matchLabels"]["fedct.org/part"] == "supernode"
    (pod,) = [one for one in of_kind(chart, "Deployment") if one["metadata"]["name"].endswith("-agent")]
    assert pod["spec"]["template"]["spec"]["dnsPolicy"] == "None"
    # Of the connection's keys none.
    (secret,) = [one for one in pod["spec"]["template"]["spec"]["volumes"] if one["name"] == "secret"]
    assert secret["secret"]["items"] == [{"key": "secret", "path": "secret"}]


def test_a_clusters_gateway_asks_the_clusters_name_server() -> None:
    text = in_container("2000000", "10.96.0.10", "superlink.fl.svc.cluster.local").render()
    assert "resolver 10.96.0.10 " in text
    assert "set $superlink superlink.fl.svc.cluster.local;" in text
    assert "proxy_ssl_name superlink;" in text


def test_a_clusters_supernode_is_told_of_a_proxy_and_its_agent_is_not() -> None:
    told = {
        pod["metadata"]["name"].rpartition("-")[2]: {
            one["name"] for one in pod["spec"]["template"]["spec"]["containers"][0]["env"]
        }
        for pod in of_kind(DOCKER / "charts" / "fedct-silo", "Deployment")
    }
    assert told == {"supernode": {"FEDCT_LOG", "HTTPS_PROXY", "NO_PROXY"}, "agent": {"FEDCT_LOG", "FEDCT_SUPERLINK"}}


# --- the gateway


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    """The gateway's settings in containers, with certificates that are there."""
    made = Authority.make()
    for name in ("ca.crt", "clients.crt"):
        made.write(tmp_path / name)
    made.server(tmp_path)
    shutil.copy(tmp_path / "server.pem", tmp_path / "server.key")
    container = replace(in_container(), certificates=str(tmp_path), temporary=str(tmp_path))
    path = tmp_path / "gateway.conf"
    path.write_text(container.render(), "utf-8")
    return path


@pytest.mark.skipif(not shutil.which("nginx"), reason="there is no nginx")
def test_nginx_takes_the_settings_of_containers(settings: Path) -> None:
    assert settings.read_text("utf-8").count("listen [::]:8443 ssl;") == 1
    done = subprocess.run(
        ["nginx", "-t", "-e", "stderr", "-c", settings], capture_output=True, text=True, check=False
    )  # fmt: skip
    assert "syntax is ok" in done.stderr
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not shutil.which("bwrap"), reason="there is no bubblewrap")
@pytest.mark.parametrize("has_ipv6", [True, False])
def test_the_gateway_starts_where_the_kernel_has_no_ipv6(tmp_path: Path, has_ipv6: bool) -> None:
    """With a program in nginx's place, that shows the settings it is given."""
    conf, programs = tmp_path / "gateway.conf", tmp_path / "bin"
    conf.write_text(in_container().render(), "utf-8")
    programs.mkdir()
    (programs / "nginx").write_text('#!/bin/sh\ncat "$4"\n')
    (programs / "nginx").chmod(0o755)
    kernel = tmp_path / "net"
    kernel.mkdir()
    if has_ipv6:
        (kernel / "if_inet6").touch()
    done = subprocess.run(
        [
            "bwrap", "--ro-bind", "/", "/", "--tmpfs", "/proc", "--ro-bind", kernel, "/proc/net",
            "--tmpfs", "/tmp", "--ro-bind", tmp_path, "/mnt", "--ro-bind", DOCKER, "/opt",
            "--setenv", "PATH", f"/mnt/bin:{os.environ['PATH']}",
            "sh", "/opt/gateway.sh", "/mnt/gateway.conf",
        ],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = in_container().render().splitlines()
    assert done.stdout.splitlines() == [line for line in lines if has_ipv6 or "[::]" not in line]
    assert len(lines) - len(done.stdout.splitlines()) == (not has_ipv6)


@pytest.mark.skipif(not shutil.which("helm"), reason="there is no helm")
@pytest.mark.parametrize("chart", CHARTS, ids=lambda path: path.name)
def test_helm_takes_the_charts(chart: Path) -> None:
    subprocess.run(["helm", "lint", "--strict", chart], check=True, capture_output=True)
    done = subprocess.run(["helm", "template", "study", chart], check=True, capture_output=True, text=True)
    assert [document for document in yaml.safe_load_all(done.stdout) if document] == rendered(chart)


@pytest.mark.parametrize("chart", CHARTS, ids=lambda path: path.name)
def test_kubernetes_knows_all_that_the_charts_say(chart: Path) -> None:
    for document in rendered(chart):
        kubernetes_validate.validate(document, KUBERNETES, strict=True)
    # What nobody knows is found.
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**document, "replicas": 1}, KUBERNETES, strict=True)


@pytest.mark.parametrize("chart", CHARTS, ids=lambda path: path.name)
def test_a_chart_says_what_it_is(chart: Path) -> None:
    about = yaml.safe_load((chart / "Chart.yaml").read_text("utf-8"))
    assert (about["name"], about["version"], about["appVersion"]) == (chart.name, __version__, __version__)
    assert isinstance(about["description"], str)


# --- units


def parsed(path: Path) -> configparser.RawConfigParser:
    """A file in systemd's form, in which keys may come more than once."""
    made = configparser.RawConfigParser(strict=False, delimiters=("=",), comment_prefixes=("#",))
    vars(made)["optionxform"] = str
    made.read_string(path.read_text("utf-8"))
    return made


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_starts_a_command_that_there_is(path: Path) -> None:
    service = parsed(path)["Service"]
    program, group, command, folder = service["ExecStart"].split()
    assert program.endswith("/fedct")
    found = typer.main.get_command(app)
    for name in (group, command):
        found = found.get_command(None, name)  # type: ignore[attr-defined]
        assert found
    assert service["ProtectSystem"] == "strict"
    assert service["Restart"] == "always"
    # Settings do not mend themselves.
    assert service["RestartPreventExitStatus"] == "2"
    assert folder in path.read_text("utf-8").split("ExecStart", 1)[1]
    assert service.get("User") == (None if group == "coordinator" else "fedct")


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd")
def test_systemd_knows_all_that_the_units_say(tmp_path: Path) -> None:
    for path in UNITS:
        text = re.sub("ExecStart=.*", "ExecStart=/bin/true", path.read_text("utf-8")).replace("User=fedct", "User=root")
        (tmp_path / path.name).write_text(text, "utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *sorted(tmp_path.glob("*.service"))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = [line for line in done.stderr.splitlines() if any(path.name in line for path in UNITS)]
    assert said == []


def test_limits_over_several_studies_are_written_where_compose_has_them() -> None:
    content = yaml.safe_load((DOCKER / "silo" / "compose.limits.yaml").read_text("utf-8"))
    target = content["services"]["agent"]["volumes"][0]["target"]
    quadlet = (QUADLETS / "silo" / "fedct-agent.container").read_text("utf-8")
    ((folder, inside),) = re.findall(r"^# Volume=([^:]+):([^:]+):rw,z$", quadlet, re.MULTILINE)
    assert inside == target
    unit = (DOCKER / "systemd" / "fedct-silo-agent.service").read_text("utf-8")
    # Where nobody has made it, the unit starts all the same.
    assert f"\nReadWritePaths=-{folder}\n" in unit


def test_quadlets_keep_agent_and_supernode_as_compose_does() -> None:
    services = yaml.safe_load((DOCKER / "silo" / "compose.yaml").read_text("utf-8"))["services"]
    assert parsed(QUADLETS / "silo" / "fedct-inside.network")["Network"]["Internal"] == "true"
    for name, networks in {"agent": ["inside"], "supernode": ["outside", "inside"]}.items():
        container = kept_as_in_compose("silo", name, services[name], networks)
    wanted = [re.sub(r"\$\{SUPERLINK:.*\}", "${SUPERLINK}", word) for word in services["supernode"]["command"]]
    assert container["Exec"].split() == wanted


def test_quadlets_keep_the_coordinator_as_compose_does(compose: dict[str, Any]) -> None:
    services = compose["services"]
    inner = parsed(QUADLETS / "coordinator" / "fedct-coordinator.network")["Network"]
    assert inner["Internal"] == "true"
    for name in ("superlink", "superexec"):
        service = services[name]
        container = kept_as_in_compose("coordinator", name, service, ["coordinator"])
        started = [container.get("Entrypoint", ""), *container["Exec"].split()]
        assert started == [*service.get("entrypoint", [""]), *service["command"]]
        told = dict(word.split("=", 1) for word in container.get("Environment", "").split())
        assert told == service.get("environment", {})
        assert "PublishPort" not in container
    of_its_own = {"/app/conf/gateway.conf": True}
    container = kept_as_in_compose(
        "coordinator", "gateway", services["gateway"], ["coordinator", "outside"], of_its_own
    )
    assert [container["Exec"]] == list(of_its_own)
    assert container["PublishPort"] == "8443:8443"
    # Podman's name server has the address of the network's gateway, and the file says how to tell nginx.
    steps = (QUADLETS / "coordinator" / "fedct-coordinator.network").read_text("utf-8")
    assert f"fedct_flwr.cli.coordinator.gateway {LONGEST_MESSAGE} {inner['Gateway']} " in steps


def kept_as_in_compose(
    side: str, name: str, service: dict[str, Any], networks: list[str], mounted: dict[str, bool] | None = None
) -> configparser.SectionProxy:
    """A Quadlet file's container, which sees and may do what it does in compose, and has ``mounted`` besides."""
    path = QUADLETS / side / f"fedct-{name}.container"
    text, container = path.read_text("utf-8"), parsed(path)["Container"]
    assert [container[key] for key in ("ReadOnly", "DropCapability", "NoNewPrivileges", "User", "PidsLimit")] == [
        "true", "ALL", "true", "49999:49999", "256"
    ]  # fmt: skip
    inside = re.findall(r"^Volume=[^:]+:([^:]+):(\w+)", text, re.MULTILINE)
    assert {target: kind == "ro" for target, kind in inside} == {
        volume["target"]: volume.get("read_only", False) for volume in service["volumes"]
    } | (mounted or {})
    found = re.findall(r"^Network=([\w.-]+)", text, re.MULTILINE)
    assert found == [f"fedct-{network}.network" for network in networks]
    assert all((path.parent / one).exists() for one in found)
    return container


@pytest.mark.skipif(not QUADLET.exists(), reason="there is no Podman")
@pytest.mark.parametrize("side", ["silo", "coordinator"])
def test_podman_takes_the_quadlets(side: str) -> None:
    done = subprocess.run(
        [QUADLET, "-dryrun"],
        env={"QUADLET_UNIT_DIRS": str(QUADLETS / side)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.count("unsupported")) == (0, 0), done.stderr
    assert done.stdout.count("ExecStart=") == len(list((QUADLETS / side).iterdir()))


# --- Slurm


def test_a_silo_as_a_slurm_job_ends_as_soon_as_one_of_its_two_processes_does(tmp_path: Path) -> None:
    """Outside Slurm the job is a script; this silo's folder is empty, which both commands refuse."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    job = DOCKER / "slurm" / "fedct-silo.sbatch"
    done = subprocess.run(
        ["bash", str(job), str(tmp_path)], env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 2, done.stderr
    assert "Error: " in done.stderr
    options = re.findall(r"^#SBATCH (--[a-z-]+)", job.read_text("utf-8"), re.MULTILINE)
    assert {"--requeue", "--signal", "--time"} <= set(options)
    assert subprocess.run(["bash", str(job)], env=environment, capture_output=True).returncode != 0
