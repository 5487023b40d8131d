"""Silos by name over a coordinator's life: new keys and authorities, departures. A table stands for the SuperLink.

What a real SuperLink makes of keys is in tests/processes/test_coordinated_runs.py.
"""

import shutil
import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from fedct_flwr.cli.coordinator import register, status
from fedct_flwr.cli.coordinator.folder import CoordinatorFolder
from fedct_flwr.cli.coordinator.init import prepare
from fedct_flwr.cli.coordinator.register import node_key
from fedct_flwr.cli.coordinator.status import facts
from fedct_flwr.flower.command import Node
from fedct_flwr.hospital.keys import create_node_key
from fedct_flwr.hospital.link import CallOutcome, LinkError
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.types import ConfigError, RunError
from tests.cli.silos import Fedct, shake_hands
from tests.hospitals import write_study_folder

SILOS = ("basel", "zurich")


class Link:
    """What a SuperLink knows: nodes by their keys."""

    def __init__(self) -> None:
        self.nodes: dict[bytes, Node] = {}
        self.gone: set[bytes] = set()

    def __call__(self, *_: object) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        pass

    def list(self, *_: object) -> list[Node]:
        return list(self.nodes.values())

    def register(self, path: Path, name: str) -> bool:
        if node_key(path) in self.gone:
            return False
        new = node_key(path) not in self.nodes
        self.nodes.setdefault(node_key(path), Node(node_key(path), len(self.nodes) + 1, False, None))
        return new

    def unregister(self, node_id: int) -> None:
        (key,) = [key for key, node in self.nodes.items() if node.node_id == node_id]
        del self.nodes[key]
        self.gone.add(key)

    def seen(self, path: Path, seconds: float = 3) -> None:
        key = node_key(path)
        when = datetime.now(UTC) - timedelta(seconds=seconds)
        self.nodes[key] = replace(self.nodes[key], online=True, seen=when)


@pytest.fixture
def link(monkeypatch: pytest.MonkeyPatch) -> Link:
    made = Link()
    monkeypatch.setattr(register, "list_nodes", made.list)
    monkeypatch.setattr(register, "SuperLink", made)
    return made


@pytest.fixture
def folder(link: Link, tmp_path: Path, fedct: Fedct) -> CoordinatorFolder:
    """With two silos, which are registered."""
    study = write_study_folder(tmp_path / "study")
    made, _ = prepare(tmp_path / "coordinator", ["fl.example.org"], study=study, gateway="fl.example.org:8443")
    for silo in SILOS:
        assert fedct("coordinator", "invite", made.path, silo).code == 0
        create_node_key(tmp_path / silo)
        (tmp_path / f"{silo}.pub").rename(made.silos / f"{silo}.pub")
    assert fedct("coordinator", "register", made.path).code == 0
    return made


def test_status_tells_of_all_silos_by_name(
    fedct: Fedct, folder: CoordinatorFolder, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    link.seen(folder.silos / "basel.pub")
    fedct("coordinator", "invite", folder.path, "geneva")
    said = facts(folder)
    assert {silo["silo"]: silo["state"] for silo in said["silos"]} == {
        "basel": "online", "geneva": "invited", "zurich": "waiting"
    }  # fmt: skip
    assert said["reachable"]
    assert said["certificate_days"]["server"] == 824
    assert [silo["certificate_days"] for silo in said["silos"]] == [824] * 3
    monkeypatch.setattr(status, "call", lambda *_: CallOutcome(LinkError.CERTIFICATE))
    assert fedct("coordinator", "status", folder.path).code == 0
    monkeypatch.setattr(status, "call", lambda *_: CallOutcome(LinkError.REFUSED))
    gone = fedct("coordinator", "status", folder.path)
    assert (gone.code, "does not answer at fl.example.org:8443 (refused)" in gone.out) == (RunError.exit_code, True)


def test_status_names_the_command_that_goes_on_with_a_run(fedct: Fedct, folder: CoordinatorFolder, link: Link) -> None:
    run = RunFolder.create(folder.runs / "study 1", {}, {})
    assert facts(folder)["interrupted"] is None
    run.close()
    assert f"--resume '{run.path}'" in fedct("coordinator", "status", folder.path).out
    run.finish("completed")
    assert facts(folder)["interrupted"] is None


def test_a_silo_that_departs_leaves_roster_and_superlink(
    fedct: Fedct, folder: CoordinatorFolder, link: Link, tmp_path: Path
) -> None:
    key = node_key(folder.silos / "basel.pub")
    create_node_key(tmp_path / "new")
    new, old = f"basel={tmp_path / 'new.pub'}", f"basel={shutil.copy(folder.silos / 'basel.pub', tmp_path / 'old')}"
    other = fedct("coordinator", "register", folder.path, new)
    assert (other.code, "holds another key: 'fedct coordinator unregister'" in other.sentence) == (2, True)
    assert fedct("coordinator", "unregister", folder.path, "basel").code == 0
    assert key not in link.nodes
    assert list(folder.keys()) == ["zurich"]
    assert not (folder.kits / "basel").exists()
    assert not (folder.invitations / "basel.zip").exists()
    # Its name is free for a new invitation and a new key.
    assert fedct("coordinator", "invite", folder.path, "basel").code == 0
    again = fedct("coordinator", "register", folder.path, old)
    assert (again.code, "never admits it again" in again.sentence) == (RunError.exit_code, True)
    assert fedct("coordinator", "register", folder.path, new).code == 0
    assert {node_key(path) for path in folder.keys().values()} == set(link.nodes)


def trusts(authorities: Path, certificate: Path, key: Path, purpose: ssl.Purpose) -> bool:
    """Whether a TLS party that knows these authorities takes this certificate, by a handshake in memory."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    shows, checks = (server, client) if purpose is ssl.Purpose.SERVER_AUTH else (client, server)
    shows.load_cert_chain(certificate, key)
    checks.load_verify_locations(authorities)
    checks.verify_mode = ssl.CERT_REQUIRED
    if purpose is ssl.Purpose.CLIENT_AUTH:
        server.load_cert_chain(certificate.parents[2] / "certificates/server.pem",
                               certificate.parents[2] / "certificates/server.key")  # fmt: skip
        client.verify_mode = ssl.CERT_NONE
    return shake_hands(client, server, "fl.example.org")


def test_new_authorities_shut_out_all_silos_until_they_are_invited_again(
    fedct: Fedct, folder: CoordinatorFolder, tmp_path: Path
) -> None:
    old_ca = Path(shutil.copy(folder.ca, tmp_path / "old-ca.crt"))
    # The silo's certificate as it has it, next to the coordinator's folder as `trusts` wants it.
    old_kit = Path(shutil.copytree(folder.kits / "basel", folder.kits.with_name("old") / "basel"))
    for path in (folder.ca, folder.ca_key, folder.clients_ca, folder.clients_key):
        path.unlink()
    made = fedct("coordinator", "init", folder.path, "--host", "fl.example.org")
    for silo in SILOS:
        assert f"fedct coordinator invite {folder.path} {silo} --again" in made.out
    for authority, kit, good in ((folder.ca, folder.kits / "basel", True), (old_ca, old_kit, False)):
        assert trusts(authority, folder.server_certificate, folder.server_key, ssl.Purpose.SERVER_AUTH) is good
        assert trusts(folder.clients_ca, kit / "client.crt", kit / "client.key", ssl.Purpose.CLIENT_AUTH) is good


def test_a_rotation_of_before_is_ended_in_one_sentence(fedct: Fedct, folder: CoordinatorFolder) -> None:
    folder.ca.with_name("ca.next.crt").write_bytes(b"")
    assert "move ca.* and clients.* away" in fedct("coordinator", "status", folder.path).sentence
    for group, command in (("coordinator", "rotate"), ("silo", "rotate"), ("silo", "renew")):
        gone = fedct(group, command, folder.path)
        assert (gone.code, "'fedct silo join" in gone.sentence) == (ConfigError.exit_code, True)
