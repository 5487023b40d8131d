"""``fedct coordinator``: what it makes and keeps, silos by name over its life, and one sentence for whatever is wrong.

A table stands for the SuperLink: what a real one does is in tests/processes/test_coordinated_runs.py.
"""

import shutil
import stat
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

import pytest
from rich.console import Console
from rich.status import Status

from fedct_flwr.cli.coordinator import register, run, status
from fedct_flwr.cli.coordinator.folder import CoordinatorFolder
from fedct_flwr.cli.coordinator.register import node_key
from fedct_flwr.cli.coordinator.status import facts
from fedct_flwr.cli.printed_rounds import PrintedRounds
from fedct_flwr.flower.command import Node, RunOver
from fedct_flwr.hospital.keys import create_node_key
from fedct_flwr.hospital.link import CallOutcome, LinkError
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.types import ConfigError, RunError
from tests.cli.silos import Fedct
from tests.hospitals import write_study_folder

SILOS = ("basel", "zurich")


@pytest.fixture
def folder(tmp_path: Path, fedct: Fedct) -> CoordinatorFolder:
    """A coordinator's folder with a study and two silos' keys; no SuperLink is running."""
    study, path = write_study_folder(tmp_path / "handed-out"), tmp_path / "coordinator"
    address = ("--host", "fl.example.org", "--address", "127.0.0.1:1", "--gateway", "fl.example.org:8443")
    assert fedct("coordinator", "init", path, *address, "--study", study).code == 0
    for silo in SILOS:
        create_node_key(tmp_path / silo)
        (tmp_path / f"{silo}.pub").rename(path / "silos" / f"{silo}.pub")
    return CoordinatorFolder.open(path)


def contents(folder: CoordinatorFolder) -> dict[Path, bytes]:
    return {path.relative_to(folder.path): path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}


# --- init


def test_init_makes_all_that_a_superlink_and_its_superexec_need(folder: CoordinatorFolder) -> None:
    assert {str(path) for path in contents(folder)} - {f"silos/{silo}.pub" for silo in SILOS} == {
        "gateway.conf",
        "certificates/ca.crt", "certificates/ca.key", "certificates/server.pem", "certificates/server.key", "secret",
        "certificates/clients.crt", "certificates/clients.key", "coordinator.toml",
        "study/study.toml", "study/public.csv", "study/test.csv", "flwr/config.toml",
    }  # fmt: skip
    assert {path.name for path in folder.path.iterdir() if path.is_dir()} >= {"state", "runs", "silos"}
    for name in ("secret", "certificates/ca.key", "certificates/server.key", "certificates/clients.key"):
        assert stat.S_IMODE((folder.path / name).stat().st_mode) == 0o600


def test_init_again_keeps_what_is_there_but_the_servers_certificate_for_another_host(
    fedct: Fedct, folder: CoordinatorFolder, tmp_path: Path
) -> None:
    before = contents(folder)
    again = ("--host", "fl.example.org", "--study", tmp_path / "handed-out")
    done = fedct("coordinator", "init", folder.path, *again)
    assert (done.code, "new server certificate" in done.out, "forward that one to it" in done.out) == (0, False, False)
    after = contents(folder)
    assert {path: after[path] for path in before} == before
    # New are kits for those whose keys have come.
    assert {path.parts[:2] for path in after.keys() - before} == {("kits", silo) for silo in SILOS}
    hosts = ("--host", "fl.example.org", "--host", "gateway", "--gateway", "fl.example.org:443")
    done = fedct("coordinator", "init", folder.path, *hosts)
    assert "with a new server certificate" in done.out
    assert "silos call port 443: forward" in done.out
    changed = {path.name for path, content in contents(folder).items() if before.get(path, content) != content}
    assert {"server.pem", "server.key"} <= changed <= {"server.pem", "server.key", "coordinator.toml", "gateway.conf"}


# --- run


@pytest.mark.parametrize(
    ("arguments", "said", "error"),
    [
        (["--set", "data=breast-cancer"], "'data' cannot be overridden", ConfigError),
        (["--set", "algorithm=fedavg"], "real silos hand out no weights", ConfigError),
        # Nothing else is wrong: it is the SuperLink that is not there.
        ([], " 127.0.0.1:1 ", RunError),
    ],
)
def test_run_says_what_is_wrong_and_leaves_nothing(
    fedct: Fedct, folder: CoordinatorFolder, arguments: list[str], said: str, error: type[RunError | ConfigError]
) -> None:
    done = fedct("coordinator", "run", folder.path, *arguments)
    assert (done.code, said in done.sentence) == (error.exit_code, True)
    assert list(folder.runs.iterdir()) == []


@pytest.mark.parametrize("said", ["no-run", "failed", "stopped"])
def test_a_run_whose_end_nobody_else_can_write_down_has_a_result(
    fedct: Fedct, folder: CoordinatorFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    def start(self: object, settings: dict[str, object]) -> int:
        RunFolder.create(tmp_path / "run", settings, {}).close()
        return 5

    def status(self: object, number: int) -> str:
        if said == "no-run":
            raise RunOver("run 5 is not known to the SuperLink")
        return f"finished:{said}"

    monkeypatch.setattr(run.SuperLink, "start", start)
    monkeypatch.setattr(run.SuperLink, "status", status)
    monkeypatch.setattr(run.SuperLink, "log", lambda self, number: "")
    for name in ("_POLL_SECONDS", "_ASK_SECONDS"):
        monkeypatch.setattr(run, name, 0.01)
    reason = fedct("coordinator", "run", folder.path, "--run-dir", tmp_path / "run").sentence
    assert ("the run was stopped" in reason) is (said == "stopped")
    assert f"go on with: fedct coordinator run {folder.path} --resume {tmp_path / 'run'}" in reason
    assert RunFolder(tmp_path / "run").read_json("result.json") == {"status": "failed", "reason": reason}


def test_silos_that_sent_unequal_bytes_are_told_the_most(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rounds = PrintedRounds(Console(), RunFolder(here), Status(""))
    for sizes in ((94, 93), (94, 94)):
        silos = {f"silo-{at}": {"bytes_sent": size} for at, size in enumerate(sizes)}
        rounds._print({"round": 1, "silos": silos, "absent": {}})
    said = [line.split("sent ")[1] for line in capsys.readouterr().out.splitlines()]
    assert said == ["at most 94 bytes each", "94 bytes each"]


# --- silos by name


class Link:
    """What a SuperLink knows: nodes by their keys."""

    def __init__(self) -> None:
        self.nodes: dict[bytes, Node] = {}
        self.gone: set[bytes] = set()

    def __call__(self, *_: object) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def list(self, *_: object) -> list[Node]:
        return list(self.nodes.values())

    def register(self, path: Path, name: str) -> bool:
        key = node_key(path)
        if key in self.gone or key in self.nodes:
            return False
        self.nodes[key] = Node(key, len(self.nodes) + 1, False, None)
        return True

    def unregister(self, node_id: int) -> None:
        (key,) = [key for key, node in self.nodes.items() if node.node_id == node_id]
        del self.nodes[key]
        self.gone.add(key)


@pytest.fixture
def link(fedct: Fedct, folder: CoordinatorFolder, monkeypatch: pytest.MonkeyPatch) -> Link:
    """With it, the two silos are invited and registered."""
    made = Link()
    monkeypatch.setattr(register, "list_nodes", made.list)
    monkeypatch.setattr(register, "SuperLink", made)
    for silo in SILOS:
        assert fedct("coordinator", "invite", folder.path, silo, "--again").code == 0
    assert fedct("coordinator", "register", folder.path).code == 0
    return made


def test_register_takes_nothing_but_a_nodes_public_key(fedct: Fedct, folder: CoordinatorFolder, tmp_path: Path) -> None:
    (tmp_path / "noise.pub").write_bytes(b"\x00\xff noise")
    for path in (tmp_path / "noise.pub", tmp_path / "basel"):
        assert "is no node's public key" in fedct("coordinator", "register", folder.path, f"new={path}").sentence
    assert "there is no key" in fedct("coordinator", "register", folder.path, "new=nowhere.pub").sentence
    assert not (folder.silos / "new.pub").exists()


def test_status_tells_of_all_silos_by_name(
    fedct: Fedct, folder: CoordinatorFolder, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = node_key(folder.silos / "basel.pub")
    link.nodes[key] = replace(link.nodes[key], online=True, seen=datetime.now(UTC) - timedelta(seconds=3))
    fedct("coordinator", "invite", folder.path, "geneva")
    said = facts(folder)
    states = {"basel": "online", "geneva": "invited", "zurich": "waiting"}
    assert {silo["silo"]: silo["state"] for silo in said["silos"]} == states
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


def test_a_rotation_of_before_is_ended_in_one_sentence(fedct: Fedct, folder: CoordinatorFolder) -> None:
    folder.ca.with_name("ca.next.crt").write_bytes(b"")
    assert "move ca.* and clients.* away" in fedct("coordinator", "status", folder.path).sentence
    for group, command in (("coordinator", "rotate"), ("silo", "rotate"), ("silo", "renew")):
        gone = fedct(group, command, folder.path)
        assert (gone.code, "'fedct silo join" in gone.sentence) == (ConfigError.exit_code, True)
