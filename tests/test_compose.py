"""What the compose files promise, read without an engine; `make test-deploy` looks at the containers themselves."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from fedct_flwr.config.silo import SiloConfig
from tests.blocks import blocks
from tests.hospitals import write_silo_folder

ROOT = Path(__file__).parents[1]
FILES = {
    name: yaml.safe_load((ROOT / name).read_text("utf-8"))
    for name in ("compose.yaml", "docker/silo/compose.yaml", "docker/coordinator/compose.yaml")
}
SERVICES = [(file, name) for file, content in FILES.items() for name in content["services"]]
ONCE = {"demo", "register", "tools"}


def service(file: str, name: str) -> dict[str, Any]:
    return dict(FILES[file]["services"][name])


@pytest.mark.parametrize(("file", "name"), SERVICES)
def test_a_service_is_hardened(file: str, name: str) -> None:
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


@pytest.mark.parametrize(("file", "name"), SERVICES)
def test_only_the_gateway_publishes_a_port(file: str, name: str) -> None:
    assert ("ports" in service(file, name)) is (name == "gateway")


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
