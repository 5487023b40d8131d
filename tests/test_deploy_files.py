"""What is in docker/ for machines that nobody here has: files that parse, keep to the rules, and name what there is."""

import configparser
import importlib.util
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from fedct_flwr.cli.coordinator.folder import CoordinatorFolder
from fedct_flwr.cli.coordinator.gateway import in_container
from fedct_flwr.cli.coordinator.init import prepare
from fedct_flwr.cli.main import app
from fedct_flwr.config.silo import SiloConfig
from tests.blocks import blocks
from tests.hospitals import write_silo_folder
from tests.readme import ROOT

DOCKER = ROOT / "docker"
UNITS = sorted((DOCKER / "systemd").glob("*.service"))
FOLDER = "/var/lib/fedct/coordinator"


def mounts(service: str) -> dict[str, bool]:
    """What a service sees of the coordinator's folder, and whether it may write there."""
    return {
        volume["source"].removeprefix("${COORDINATOR:-./coordinator}").lstrip("/"): not volume.get("read_only")
        for volume in FILES["docker/coordinator/compose.yaml"]["services"][service]["volumes"]
    }


def test_each_service_sees_what_it_needs_of_the_folder_and_no_authoritys_key() -> None:
    folder = CoordinatorFolder(Path("/c"))
    there = {str(value.relative_to("/c")) for value in vars(folder).values() if value != folder.path}
    for service in ("superlink", "superexec", "gateway"):
        seen = mounts(service)
        assert set(seen) <= there, service
        assert not {"certificates/ca.key", "certificates/clients.key", "certificates", ""} & set(seen), service
    assert mounts("superexec") == {
        "certificates/ca.crt": False, "secret": False, "study": False, "runs": True
    }  # fmt: skip
    assert {name for name, writable in mounts("superlink").items() if writable} == {"state"}
    assert not any(mounts("gateway").values())


@pytest.mark.skipif(not shutil.which("nginx"), reason="there is no nginx")
def test_nginx_takes_the_settings_of_containers(tmp_path: Path) -> None:
    certificates = prepare(tmp_path / "coordinator", ["superlink"])[0].ca.parent
    container = replace(in_container(), certificates=str(certificates), temporary=str(tmp_path))
    settings = tmp_path / "gateway.conf"
    settings.write_text(container.render(), "utf-8")
    assert settings.read_text("utf-8").count("listen [::]:8443 ssl;") == 1
    done = subprocess.run(
        ["nginx", "-t", "-e", "stderr", "-c", settings], capture_output=True, text=True, check=False
    )  # fmt: skip
    assert "syntax is ok" in done.stderr
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "helm").glob("*/templates/*.yaml")), ids=lambda p: p.name)
def test_a_container_has_requests_limits_and_no_liveness_that_another_service_decides(path: Path) -> None:
    kinds = list(yaml.safe_load_all(re.sub(r"\{\{.*?\}\}", "x", path.read_text("utf-8"))))
    containers = [
        c for kind in kinds if kind["kind"] == "Deployment" for c in kind["spec"]["template"]["spec"]["containers"]
    ]
    assert len(containers) >= 2
    for container in containers:
        assert set(container["resources"]["requests"]) == {"memory", "cpu"}
        assert set(container["resources"]["limits"]) == {"memory"}
        assert "readinessProbe" in container
        assert "exec" not in container.get("livenessProbe", {})


def parsed(path: Path) -> configparser.RawConfigParser:
    """A file in systemd's form, in which keys may come more than once."""
    made = configparser.RawConfigParser(strict=False, delimiters=("=",), comment_prefixes=("#",))
    vars(made)["optionxform"] = str
    made.read_string(path.read_text("utf-8"))
    return made


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_is_confined_and_starts_what_there_is(path: Path) -> None:
    service = parsed(path)["Service"]
    program, *words = service["ExecStart"].replace("\\", "").split()
    if program.endswith("/fedct"):
        group = typer.main.get_command(app).get_command(None, words[0])  # type: ignore[attr-defined]
        assert group.get_command(None, words[1])
    elif words[1] == "-m":
        assert importlib.util.find_spec(words[2])
    else:
        assert Path(program).name in ("flower-superexec", "nginx")
    assert (service["ProtectSystem"], service["NoNewPrivileges"], service["Restart"]) == ("strict", "true", "always")
    assert re.fullmatch(r"\d+[MG]", service["MemoryMax"])
    # Root alone can read the certificates for nginx, and has no other right there.
    assert ("User" in service) is (service["CapabilityBoundingSet"] == "")


def test_the_control_api_is_open_to_the_coordinators_machine_alone() -> None:
    """The SuperLink listens on a loopback address, and the SuperExec sees no key but its secret."""
    superlink, superexec = (
        (DOCKER / "systemd" / f"fedct-{name}.service").read_text("utf-8") for name in ("superlink", "superexec")
    )
    assert "--host 127.0.0.1 " in superlink
    assert re.findall(r"^(?:LoadCredential=(\S+?):|Bind\w*Paths=)(.*)$", superexec, re.MULTILINE) == [
        ("ca.crt", f"{FOLDER}/certificates/ca.crt"), ("secret", f"{FOLDER}/secret"),
        ("", f"{FOLDER}/study"), ("", f"{FOLDER}/runs"),
    ]  # fmt: skip
    assert "\nTemporaryFileSystem=/var/lib/fedct:ro\n" in superexec


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd")
def test_systemd_knows_all_that_the_units_say(tmp_path: Path) -> None:
    for path in UNITS:
        text = re.sub(r"ExecStart=(.*\\\n)*.*", "ExecStart=/bin/true", path.read_text("utf-8"))
        text = re.sub("User=.*", "User=root", text)
        (tmp_path / path.name).write_text(text, "utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *sorted(tmp_path.glob("*.service"))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = [line for line in done.stderr.splitlines() if any(path.name in line for path in UNITS)]
    assert said == []


# --- compose files, read without an engine; `make test-deploy` looks at the containers themselves


FILES = {
    name: yaml.safe_load((ROOT / name).read_text("utf-8"))
    for name in ("compose.yaml", "docker/silo/compose.yaml", "docker/coordinator/compose.yaml")
}
SERVICES = [(file, name) for file, content in FILES.items() for name in content["services"]]
ONCE = {"demo", "register", "tools"}


def service(file: str, name: str) -> dict[str, Any]:
    return dict(FILES[file]["services"][name])


@pytest.mark.parametrize(("file", "name"), SERVICES)
def test_a_service_is_hardened_and_only_the_gateway_publishes_a_port(file: str, name: str) -> None:
    settings = service(file, name)
    assert settings["user"] in ("49999:49999", "${OWNER:-49999:49999}")
    assert settings["read_only"] is True
    assert settings["cap_drop"] == ["ALL"]
    assert settings["security_opt"] == ["no-new-privileges:true"]
    assert settings["pids_limit"]
    assert settings["mem_limit"]
    assert settings["logging"]["options"]["max-size"]
    assert settings["restart"] == ("no" if name in ONCE else "unless-stopped")
    assert ("healthcheck" in settings) is (name not in ONCE)
    assert not {"privileged", "cap_add", "devices", "pid", "ipc"} & set(settings)
    assert ("ports" in settings) is (name == "gateway")


@pytest.mark.parametrize(("file", "name"), [(file, name) for file, name in SERVICES if name.startswith("agent")])
def test_an_agent_has_one_network_without_a_way_out_and_writes_its_state_alone(file: str, name: str) -> None:
    settings = service(file, name)
    (network,) = settings["networks"]
    assert FILES[file]["networks"][network]["internal"] is True
    assert set(FILES[file]["networks"][network]["driver_opts"].values()) == {"true", "isolated"}
    assert settings["dns"] == ["192.0.2.1"]
    writable = [volume["target"] for volume in settings["volumes"] if not volume.get("read_only")]
    assert writable == ["/app/silo/state"]


@pytest.mark.parametrize(("file", "name"), [(file, name) for file, name in SERVICES if name.startswith("supernode")])
def test_a_supernode_has_keys_and_nothing_else(file: str, name: str) -> None:
    (volume,) = service(file, name)["volumes"]
    assert volume["target"] == "/app/certificates"
    assert volume["read_only"] is True


def test_a_supernode_is_told_of_a_proxy_and_an_agent_is_not() -> None:
    file = "docker/silo/compose.yaml"
    assert service(file, "supernode")["environment"] | {"FEDCT_LOG": ""} == {
        "FEDCT_LOG": "",
        "HTTPS_PROXY": "${HTTPS_PROXY:-${https_proxy:-}}",
        "NO_PROXY": "${NO_PROXY:-${no_proxy:-}}",
    }
    assert set(service(file, "agent")["environment"]) == {"FEDCT_LOG"}


def test_no_two_silos_share_a_network_or_a_volume() -> None:
    content = FILES["compose.yaml"]
    silos = [name.removeprefix("agent-") for name in content["services"] if name.startswith("agent-")]
    assert len(silos) == 4
    for silo in silos:
        assert content["services"][f"agent-{silo}"]["networks"] == [silo]
        assert set(content["services"][f"supernode-{silo}"]["networks"]) == {"outside", silo}
        sources = [volume["source"] for volume in content["services"][f"agent-{silo}"]["volumes"]]
        assert sources == [f"agent-{silo}", f"state-{silo}"]


LIMITS = "docker/silo/compose.limits.yaml"


def test_limits_over_several_studies_give_the_agent_one_more_folder_and_the_supernode_nothing() -> None:
    content = yaml.safe_load((ROOT / LIMITS).read_text("utf-8"))
    assert content.keys() == {"services"}
    assert content["services"].keys() == {"agent"}
    (volume,) = content["services"]["agent"].pop("volumes")
    assert content["services"]["agent"] == {}
    assert (volume["type"], volume["target"], "read_only" in volume) == ("bind", "/app/limits", False)
    # Where the folder is not named, or not made, nothing starts: Docker would make one that no agent can write into.
    assert volume["source"].startswith("${LIMITS:?")
    assert volume["bind"] == {"create_host_path": False}
    mounted = [one["target"] for one in service("docker/silo/compose.yaml", "agent")["volumes"]]
    assert not any(Path(volume["target"]).is_relative_to(target) for target in mounted)


def test_what_a_partner_writes_for_limits_over_several_studies_fits_the_file(tmp_path: Path) -> None:
    """The comment at the top of the file, and the tutorial."""
    page = ROOT / "docs" / "tutorials" / "hospital.md"
    said = {f"<!-- {block.said} -->": block.text for block in blocks(page)}
    settings = said["<!-- the settings of limits over several studies -->"]
    variables = dict(line.split("=", 1) for line in settings.splitlines())
    assert all((ROOT / "docker" / "silo" / name).is_file() for name in variables.pop("COMPOSE_FILE").split(":"))
    made = said["<!-- the folder of limits over several studies -->"].split()[-1]
    assert variables == {"LIMITS": made}
    text = (ROOT / LIMITS).read_text("utf-8")
    comment = text[: text.index("services:")].replace("#", " ")
    line = next(line for line in comment.splitlines() if "folder =" in line)
    written = SiloConfig.read_toml(write_silo_folder(tmp_path, records={"folder": line.split('"')[1]}))
    assert written.records.folder == Path(yaml.safe_load(text)["services"]["agent"]["volumes"][0]["target"])
    assert all(line in comment for line in settings.splitlines())
    assert comment.index("silo check --offline") < comment.index("silo approve") < comment.index("compose up")
