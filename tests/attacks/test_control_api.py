"""Attack: start, read or stop runs on the coordinator from outside, and read its keys by a run that was started.

The attackers: a stranger with nothing, one with ca.crt and the address, a silo with its certificate and its registered
key; and somebody who did get to the control API, and has code run by the SuperExec.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
import tomli_w
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.engine.flower import BIN, SuperLink
from fedct_flwr.engine.flower import environment as flower_environment
from fedct_flwr.types import ConfigError, RunError
from tests.attacks.coordinator import (
    PATIENCE,
    SECRET,
    SILO,
    Started,
    coordinator,
    environment,
    made,
    needs_nginx_and_bubblewrap,
    start_command,
    started,
    status,
)
from tests.blocks import PAGES
from tests.processes.deployment import free_port

__all__ = ["coordinator"]

pytestmark = [pytest.mark.slow, pytest.mark.processes, needs_nginx_and_bubblewrap]

CONTROL = (
    "start-run", "list-runs", "stop-run", "stream-logs", "pull-artifacts", "register-node", "list-nodes",
    "unregister-node", "list-federations",
)  # fmt: skip
RUNTIME = ("acquire-task", "pull-task-input", "push-task-output", "pull-messages", "push-messages")
TRICKS = [
    "/", "/health", "/docs", "/openapi.json", "/v1/fleet", "/v1/fleet/", "/flwr.proto.Control/ListRuns",
    "/v1/fleet/../control/list-runs", "/v1/fleet/%2e%2e/control/list-runs", "/v1/fleet/..%2fcontrol/list-runs",
    "/v1/fleet/.%2e/%2e./control/list-runs", "/v1/fleet/;/../../control/list-runs", "/v1/fleet/;a=b",
    "/v1/fleet/pull-messages/../../control/list-runs", "/v1/control/../fleet/pull-messages",
    "//v1/fleet/pull-messages", "/v1//fleet/pull-messages", "/v1/fleet//pull-messages", "/V1/fleet/pull-messages",
    "/v1/Fleet/pull-messages", "/v1/fleet/pull-messages?x=/v1/control", "/v1/fleet/pull-messages#/v1/control",
    "/v1/fleet/pull-messages%20", "/v1/fleet/pull%2dmessages", "/v1%2ffleet/pull-messages", "/v1/fleet/\\..\\control",
    "https://superlink:8000/v1/control/list-runs", "https://superlink:8000/v1/fleet/pull-messages",
]  # fmt: skip


def posted(path: str, version: str = "HTTP/1.1", method: str = "POST", more: str = "", body: str = "") -> bytes:
    head = f"{method} {path} {version}\r\nHost: x\r\nConnection: close\r\n{more}Content-Length: {len(body)}\r\n\r\n"
    return f"{head}{body}".encode()


# --- from outside


@pytest.mark.parametrize(
    "path", [f"/v1/control/{name}" for name in CONTROL] + [f"/v1/runtime/{name}" for name in RUNTIME]
)
@pytest.mark.parametrize("certificate", [False, True])
def test_the_gateway_passes_no_call_but_those_of_silos(coordinator: Started, path: str, certificate: bool) -> None:
    assert status(coordinator.ask(posted(path), certificate=certificate)) == (403 if certificate else 400)


@pytest.mark.parametrize("path", TRICKS)
def test_a_path_written_otherwise_passes_no_better(coordinator: Started, path: str) -> None:
    # With a silo's certificate: without one nothing passes, whatever the path.
    assert status(coordinator.ask(posted(path), certificate=True)) in (400, 403)


@pytest.mark.parametrize(
    "request_",
    [
        posted("/v1/fleet/pull-messages", "HTTP/1.0"),
        posted("/v1/fleet/pull-messages", "HTTP/0.9"),
        posted("/v1/fleet/pull-messages", "HTTP/2.0"),
        posted("/v1/fleet/pull-messages", method="GET"),
        posted("/v1/fleet/pull-messages", method="CONNECT"),
        posted("/v1/fleet/pull-messages", method="post"),
        posted("/v1/fleet/pull-messages", more="Transfer-Encoding: chunked\r\n"),
        posted("/v1/fleet/pull-messages", more="Transfer-Encoding : chunked\r\n"),
        posted("/v1/fleet/pull-messages", more="Content-Length: 4\r\n"),
        posted("/v1/fleet/pull-messages\r\nHost: y\r\n\r\nPOST /v1/control/list-runs"),
        b"POST /v1/fleet/pull-messages\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_a_line_written_otherwise_passes_no_better(coordinator: Started, request_: bytes) -> None:
    before = coordinator.said().count("/v1/control/")
    assert status(coordinator.ask(request_, certificate=True)) in (0, 400, 403, 405, 411, 501, 505)
    assert coordinator.said().count("/v1/control/") == before


def test_a_request_behind_another_one_is_judged_like_the_first(coordinator: Started) -> None:
    # A body that looks like a request, and one request right behind another.
    behind = posted("/v1/control/list-runs").decode()
    smuggled = posted("/v1/fleet/pull-messages", more="X: y\r\n", body=behind)
    assert status(coordinator.ask(smuggled, certificate=True)) in (400, 401, 415, 422)
    first = posted("/v1/fleet/pull-messages").replace(b"Connection: close\r\n", b"")
    both = coordinator.ask(first + posted("/v1/control/list-runs"), certificate=True)
    assert [int(code) for code in re.findall(rb"HTTP/1\.1 (\d+)", both)][1:] == [403]


def test_nothing_but_tls_is_spoken(coordinator: Started) -> None:
    with socket.create_connection(("127.0.0.1", coordinator.port), timeout=30) as raw:
        raw.sendall(posted("/v1/fleet/pull-messages"))
        assert b" 400 " in raw.recv(100)


def test_flowers_own_commands_get_nowhere_with_the_certificate_of_the_authority(
    coordinator: Started, tmp_path: Path
) -> None:
    connection = {"address": f"127.0.0.1:{coordinator.port}", "root-certificates": str(coordinator.folder.ca)}
    config = {"superlink": {"default": "outside", "outside": connection}}
    (tmp_path / "config.toml").write_text(tomli_w.dumps(config), "utf-8")
    app = evil_app(tmp_path / "app-evil", tmp_path)
    key = coordinator.folder.silos / f"{SILO}.pub"
    commands = [
        ["list", "outside"],
        ["run", str(app), "outside"],
        ["stop", "1", "outside"],
        ["log", "1", "outside", "--show"],
        ["pull", "--run-id", "1", "outside"],
        ["supernode", "list", "outside"],
        ["supernode", "register", str(key), "outside", "--name", "mine"],
    ]

    def flwr(command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(BIN / "flwr"), *command], env=flower_environment(tmp_path), capture_output=True, text=True,
            stdin=subprocess.DEVNULL, timeout=PATIENCE, check=False,
        )  # fmt: skip

    before = coordinator.said().count("/v1/control/")
    with ThreadPoolExecutor(2) as pool:
        for command, done in zip(commands, pool.map(flwr, commands), strict=True):
            said = done.stdout + done.stderr
            # Of some commands Flower fails before it asks, as it does for `stop` of a run that it does not know.
            assert done.returncode != 0 or "rror" in said, (command, said)
    assert coordinator.said().count("/v1/control/") == before
    with SuperLink(coordinator.folder.address(), coordinator.folder.ca) as superlink:
        assert superlink.unfinished() == []


def test_the_superlink_itself_can_be_reached_from_this_machine_alone(coordinator: Started) -> None:
    addresses = {
        (family, address.address.partition("%")[0])
        for interface in psutil.net_if_addrs().values()
        for address in interface
        if (family := address.family) in (socket.AF_INET, socket.AF_INET6)
    }
    elsewhere = [(family, host) for family, host in addresses if not host.startswith(("127.", "::1", "fe80"))]
    assert elsewhere
    for family, host in elsewhere:
        with socket.socket(family) as probe:
            probe.settimeout(5)
            assert probe.connect_ex((host, coordinator.superlink_port)) != 0, host


def test_a_silo_is_let_through_with_certificate_and_key(coordinator: Started) -> None:
    call = posted("/v1/fleet/pull-messages", more="Content-Type: application/protobuf\r\n")
    assert b"asks for a client certificate" in coordinator.ask(call, certificate=False)
    # What refuses here is the SuperLink: nothing is signed by a node's key.
    assert b"Invalid SuperNode authentication" in coordinator.ask(call, certificate=True)


def test_no_page_starts_a_superlink_that_others_reach() -> None:
    for page in PAGES:
        assert not re.search(r"engine\.superlink|flower-superlink", page.read_text("utf-8")), page


# --- from within: code that the SuperExec runs

EVIL = """
import json, os, pathlib
from flwr.serverapp import ServerApp
app = ServerApp()

def read(path):
    try:
        return open(path, "rb").read(4096).decode("latin-1")
    except OSError:
        return None

@app.main()
def main(grid, context):
    named = TARGETS
    below = [str(path) for root in ROOTS for path in pathlib.Path(root).rglob("*") if path.is_file()]
    loot = {
        "uid": [os.getuid(), os.geteuid(), os.getgid(), *os.getgroups()],
        "status": read("/proc/self/status"),
        "environment": dict(os.environ),
        "others": {pid: read(f"/proc/{pid}/cmdline") for pid in os.listdir("/proc") if pid.isdigit()},
        "environments": [read(f"/proc/{pid}/environ") or "" for pid in os.listdir("/proc") if pid.isdigit()],
        "read": {path: read(path) is not None for path in named},
        "below": below,
    }
    (pathlib.Path.home() / "loot.json").write_text(json.dumps(loot))
"""


def evil_app(folder: Path, stolen: Path, *roots: Path) -> Path:
    """An app that looks around where it runs, in place of co-training."""
    folder.mkdir()
    targets = [str(path) for path in stolen.rglob("*") if path.is_file()]
    targets += ["/etc/shadow", "/root/.ssh/id_rsa", "/root/.bash_history"]
    code = EVIL.replace("TARGETS", repr(targets)).replace("ROOTS", repr([*map(str, roots)]))
    (folder / "evil.py").write_text(code, "utf-8")
    (folder / "pyproject.toml").write_text("""
[project]
name = "app-evil"
version = "1.0.0"
license = "Apache-2.0"
dependencies = ["flwr"]
[tool.flwr.app]
publisher = "evil"
fab-include = ["*.py"]
[tool.flwr.app.components]
serverapp = "evil:app"
clientapp = "evil:app"
""", "utf-8")  # fmt: skip
    return folder


def loot_of(coordinator: Started, tmp_path: Path) -> dict[str, object]:
    """What the app finds, started by somebody on the machine itself who has ca.crt."""
    folder = coordinator.folder
    app = evil_app(tmp_path / "app-evil", folder.path, folder.path, folder.path.parent)
    done = subprocess.run(
        [str(BIN / "flwr"), "run", str(app), "deployment"], env=flower_environment(folder.flower_config.parent),
        capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    path, end = folder.runs / "loot.json", time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(OSError, ValueError):
            return dict(json.loads(path.read_text("utf-8")))
        assert time.monotonic() < end, coordinator.said()
        time.sleep(0.2)


def assert_harmless(coordinator: Started, loot: dict[str, object]) -> None:
    folder = coordinator.folder
    assert isinstance(loot["uid"], list)
    assert 0 not in loot["uid"]
    assert re.search(r"CapEff:\s+0+\n", str(loot["status"]))
    assert re.search(r"NoNewPrivs:\s+1\n", str(loot["status"]))
    assert SECRET not in json.dumps([loot["environment"], loot["environments"]])
    # Of what happens on this machine it sees itself.
    assert isinstance(loot["others"], dict)
    programs = {str(line).partition("\0")[0].rpartition("/")[2] for line in loot["others"].values() if line}
    assert "python" in programs
    assert not programs & {"nginx", "nginx: master process nginx", "systemd", "init", "bash"}
    assert not re.search(r"engine\.superlink|flower-superlink|coordinator\W+start", json.dumps(loot["others"]))
    assert isinstance(loot["read"], dict)
    seen = {Path(path).relative_to(folder.path) for path, yes in loot["read"].items() if yes}
    assert {path for path in seen if path.parts[0] != "study"} == {Path("certificates/ca.crt"), Path("secret")}
    assert isinstance(loot["below"], list)
    inside = {Path(path).relative_to(folder.path.parent).parts[:2] for path in loot["below"]}
    assert {part[1] for part in inside} <= {"certificates", "secret", "study", "runs"}


def test_code_that_the_superexec_runs_reads_no_key_and_sees_nobody(coordinator: Started, tmp_path: Path) -> None:
    assert_harmless(coordinator, loot_of(coordinator, tmp_path))


@pytest.mark.skipif(os.geteuid() != 0, reason="looks at other users' processes, which only root can")
def test_no_part_sees_what_belongs_to_another_or_runs_as_root(coordinator: Started) -> None:
    folder = coordinator.folder
    keys = {folder.ca_key, folder.clients_key, folder.server_key, folder.kits, folder.silos}
    users = set()
    with_key = {folder.server_key}
    for name, seen in (("nginx", with_key), ("engine.superlink", with_key), ("engine.superexec", set())):
        part = coordinator.part(name)
        assert {path for path in keys if Path(f"/proc/{part.pid}/root{path}").exists()} == seen
        users.add(part.uids().real)
        assert part.uids().real == part.uids().effective
        assert SECRET not in part.environ().values()
    assert len(users) == 3
    assert 0 not in users


@pytest.mark.skipif(os.geteuid() != 0, reason="changes the user id, which only root can")
def test_it_is_the_same_where_an_ordinary_user_starts_the_coordinator(tmp_path: Path) -> None:
    # Where all get to, unlike pytest's folders.
    with tempfile.TemporaryDirectory(prefix="fedct-") as name:
        place = Path(name)
        folder = made(place / "coordinator")
        for path in (place, *place.rglob("*")):
            os.chown(path, 49_000, 49_000)
        # Neither need the interpreter lie where an ordinary user gets to: here it is there.
        base = Path(sys.base_prefix).resolve()
        opened = [part for path in reversed(base.parents[:-1]) for part in ("--perms", "0755", "--dir", str(path))]
        shown = [*opened, "--bind", str(base), str(base)]
        ordinary = [
            "bwrap", "--dev-bind", "/", "/",
            *(["--tmpfs", f"/{base.parts[1]}", *shown] if base.parts[1] in ("root", "home") else []),
            "setpriv", "--reuid", "49000", "--regid", "49000", "--clear-groups", "--",
        ]  # fmt: skip
        with started(folder, before=ordinary, variables={"HOME": name}) as running:
            assert_harmless(running, loot_of(running, tmp_path))


# --- refused at start, and ended


def refusal(folder_args: list[str], **variables: str) -> tuple[int, str]:
    done = subprocess.run(
        folder_args, env=environment(**variables), capture_output=True, text=True, stdin=subprocess.DEVNULL,
        timeout=PATIENCE, check=False,
    )  # fmt: skip
    sentence = done.stderr.strip()
    assert "\n" not in sentence
    return done.returncode, sentence


def test_without_separation_nothing_is_started(tmp_path: Path) -> None:
    folder = made(tmp_path / "coordinator")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "nginx").symlink_to(str(shutil.which("nginx")))
    code, said = refusal(start_command(folder, free_port()), PATH=str(programs))
    assert code == RunError.exit_code
    assert "the SuperExec runs the code of whoever reaches the SuperLink" in said
    assert "there is no bubblewrap" in said
    (programs / "bwrap").write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace'; exit 1\n")
    (programs / "bwrap").chmod(0o755)
    (programs / "setpriv").symlink_to(str(shutil.which("setpriv")))
    code, said = refusal(start_command(folder, free_port()), PATH=str(programs))
    assert code == RunError.exit_code
    assert "bubblewrap cannot do that here (bwrap: No permissions to create new namespace)" in said
    assert "start this as root" in said
    assert "in containers" in said


def test_without_nginx_one_sentence_says_what_to_install(tmp_path: Path, wording: SnapshotAssertion) -> None:
    (tmp_path / "bin").mkdir()
    code, said = refusal(start_command(made(tmp_path / "coordinator"), free_port()), PATH=str(tmp_path / "bin"))
    assert code == ConfigError.exit_code
    assert said == wording


def test_a_view_that_shows_a_key_is_refused(tmp_path: Path) -> None:
    folder = made(tmp_path / "coordinator")
    programs = tmp_path / "bin"
    programs.mkdir()
    # One that separates nothing, and leaves all rights: it runs what comes after the last of the arguments' ends.
    (programs / "bwrap").write_text(
        '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift\n'
        'if [ "$1" = setpriv ]; then while [ "$1" != -- ]; do shift; done; shift; fi\nexec "$@"\n',
        "utf-8",
    )
    (programs / "bwrap").chmod(0o755)
    code, said = refusal(start_command(folder, free_port()), PATH=f"{programs}:{os.environ['PATH']}")
    assert code == RunError.exit_code
    assert "so it must neither be root nor read keys, and here it can read" in said
    assert "server.key" in said


def test_a_superlink_for_others_is_refused(tmp_path: Path, wording: SnapshotAssertion) -> None:
    folder = made(tmp_path / "coordinator")
    folder.write_flower_config("superlink:8000")
    code, said = refusal(start_command(folder, free_port()))
    assert code == ConfigError.exit_code
    assert said == wording
    assert f"fedct coordinator init {folder.path} --address 127.0.0.1:8000" in said


def test_a_port_in_use_is_one_sentence(tmp_path: Path) -> None:
    folder = made(tmp_path / "coordinator")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = refusal(start_command(folder, port))
    assert code == ConfigError.exit_code
    assert f"cannot listen at 127.0.0.1:{port} (Address already in use)" in said


def test_if_one_ends_all_end_and_nothing_is_left_of_one_that_was_killed(tmp_path: Path) -> None:
    folder = made(tmp_path / "coordinator")
    with started(folder) as running:
        tree = running.processes()
        running.part("nginx").kill()
        assert running.process.wait(PATIENCE) == RunError.exit_code
        assert "the gateway has ended" in running.said().replace("\n", " ")
        _, left = psutil.wait_procs(tree[1:], timeout=20)
        assert [one for one in left if one.status() != psutil.STATUS_ZOMBIE] == []
    with started(folder) as running:
        tree = running.processes()
        running.process.send_signal(signal.SIGKILL)
        running.process.wait(PATIENCE)
        _, left = psutil.wait_procs(tree[1:], timeout=20)
        assert [one for one in left if one.is_running() and one.status() != psutil.STATUS_ZOMBIE] == []
