"""``fedct coordinator``: what it makes and keeps, and one sentence for whatever is wrong before anything is started.

Runs on a real SuperLink are in tests/processes/test_coordinated_runs.py.
"""

import socket
import ssl
import stat
from pathlib import Path

import pytest
from rich.console import Console
from rich.status import Status
from typer.testing import CliRunner, Result

from fedct_flwr.cli.coordinator import run
from fedct_flwr.cli.coordinator.folder import CoordinatorFolder
from fedct_flwr.cli.main import app
from fedct_flwr.cli.printed_rounds import PrintedRounds
from fedct_flwr.flower.command import RunOver
from fedct_flwr.hospital.keys import create_node_key
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.types import ConfigError, FedctError, RunError
from tests.hospitals import HOSPITALS, write_study_folder


def coordinator(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["coordinator", *map(str, arguments)], catch_exceptions=True)


def refusal(*arguments: str | Path, error: type[FedctError] = ConfigError) -> str:
    """The sentence that the command ends with."""
    done = coordinator(*arguments)
    assert isinstance(done.exception, error), (done.output, done.exception)
    assert "\n" not in str(done.exception)
    return str(done.exception)


def test_silos_that_sent_unequal_bytes_are_told_the_most(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rounds = PrintedRounds(Console(), RunFolder(here), Status(""))
    for sizes in ((94, 93), (94, 94)):
        silos = {f"silo-{at}": {"bytes_sent": size} for at, size in enumerate(sizes)}
        rounds._print({"round": 1, "silos": silos, "absent": {}})
    assert [line.split("sent ")[1] for line in capsys.readouterr().out.splitlines()] == [
        "at most 94 bytes each",
        "94 bytes each",
    ]


def closed_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return write_study_folder(tmp_path / "handed-out")


@pytest.fixture
def folder(tmp_path: Path, study: Path) -> Path:
    """A coordinator's folder with a study and four silos' keys; no SuperLink is running."""
    path = tmp_path / "coordinator"
    done = coordinator("init", path, "--host", "127.0.0.1", "--address", f"127.0.0.1:{closed_port()}", "--study", study)
    assert done.exit_code == 0, done.output
    for silo in HOSPITALS:
        create_node_key(tmp_path / silo)
        (tmp_path / f"{silo}.pub").rename(path / "silos" / f"{silo}.pub")
    return path


# --- init


def test_init_makes_all_that_a_superlink_and_its_superexec_need(folder: Path) -> None:
    made = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} - {
        f"silos/{silo}.pub" for silo in HOSPITALS
    }
    assert made == {
        "gateway.conf",
        "certificates/ca.crt", "certificates/ca.key", "certificates/server.pem", "certificates/server.key", "secret",
        "certificates/clients.crt", "certificates/clients.key", "coordinator.toml",
        "study/study.toml", "study/public.csv", "study/test.csv", "flwr/config.toml",
    }  # fmt: skip
    assert {path.name for path in folder.iterdir() if path.is_dir()} >= {"state", "runs", "silos"}
    for name in ("secret", "certificates/ca.key", "certificates/server.key", "certificates/clients.key"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificates/server.pem", folder / "certificates/server.key")


def test_init_names_a_port_that_has_to_be_forwarded(folder: Path) -> None:
    assert "forward that one to it" not in coordinator("init", folder).output
    assert "silos call port 443: forward" in coordinator("init", folder, "--gateway", "fl.example.org:443").output


def test_init_again_keeps_what_is_there(folder: Path, study: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    done = coordinator("init", folder, "--host", "127.0.0.1", "--study", study)
    assert done.exit_code == 0
    assert "new server certificate" not in done.output
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert {path: after[path] for path in before} == before
    # New are kits for those whose keys have come.
    assert {path.relative_to(folder).parts[:2] for path in after.keys() - before} == {
        ("kits", name) for name in HOSPITALS
    }


def test_init_with_another_host_renews_the_servers_certificate_and_nothing_else(folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    done = coordinator("init", folder, "--host", "127.0.0.1", "--host", "gateway")
    assert "with a new server certificate" in done.output
    changed = {path.name for path, content in before.items() if path.read_bytes() != content}
    assert changed == {"server.pem", "server.key"}


# --- register


def test_register_takes_nothing_but_a_nodes_public_key(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "noise.pub").write_bytes(b"\x00\xff noise")
    for path in (tmp_path / "noise.pub", tmp_path / "cleveland"):
        assert "is no node's public key" in refusal("register", folder, f"new={path}")
    assert "there is no key" in refusal("register", folder, "new=nowhere.pub")
    assert not (folder / "silos" / "new.pub").exists()


# --- run


def test_run_without_a_superlink_is_one_sentence_and_leaves_nothing(folder: Path) -> None:
    address = CoordinatorFolder.open(folder).address()
    said = refusal("run", folder, error=RunError)
    assert f" {address} " in said
    assert list((folder / "runs").iterdir()) == []


MISTAKES: dict[str, tuple[list[str], str]] = {
    "another data set": (["--set", "data=breast-cancer"], "'data' cannot be overridden"),
    "weights": (["--set", "algorithm=fedavg"], "real silos hand out no weights"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_run_says_what_is_wrong_before_it_asks_the_superlink(folder: Path, mistake: str) -> None:
    arguments, named = MISTAKES[mistake]
    said = refusal("run", folder, *arguments)
    assert named in said
    assert list((folder / "runs").iterdir()) == []


@pytest.mark.parametrize("said", ["no-run", "failed", "stopped"])
def test_a_run_whose_end_nobody_else_can_write_down_has_a_result(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
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
    reason = refusal("run", folder, "--run-dir", tmp_path / "run", error=RunError)
    assert ("the run was stopped" in reason) is (said == "stopped")
    assert f"go on with: fedct coordinator run {folder} --resume {tmp_path / 'run'}" in reason
    assert RunFolder(tmp_path / "run").read_json("result.json") == {"status": "failed", "reason": reason}
