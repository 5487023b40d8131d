"""A coordinator as ``fedct coordinator start`` runs it, with nginx and bubblewrap, and what attackers have of it."""

import contextlib
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
import pytest

from fedct_flwr.cli.coordinator.folder import CoordinatorFolder
from fedct_flwr.cli.coordinator.init import prepare
from fedct_flwr.cli.coordinator.invite import make_kit
from fedct_flwr.engine.flower import SuperLink
from fedct_flwr.hospital.keys import create_node_key
from tests.hospitals import write_study_folder
from tests.processes.deployment import ROOT, free_port

SILO: Final = "cleveland"
FEDCT: Final = Path(sys.executable).with_name("fedct")
PATIENCE: Final = 240.0
SECRET: Final = "what nobody shall read"

missing = [name for name in ("nginx", "bwrap", "setpriv") if not shutil.which(name)]
needs_nginx_and_bubblewrap = pytest.mark.skipif(
    bool(missing), reason=f"needs nginx and bubblewrap (apt install nginx-light bubblewrap): no {', '.join(missing)}"
)


@dataclass
class Started:
    """A coordinator at work."""

    folder: CoordinatorFolder
    port: int
    process: subprocess.Popen[str]
    log: Path

    @property
    def superlink_port(self) -> int:
        return int(self.folder.address().rpartition(":")[2])

    @property
    def kit(self) -> Path:
        return self.folder.kits / SILO

    def said(self) -> str:
        return self.log.read_text("utf-8", "replace")

    def context(self, *, certificate: bool = False) -> ssl.SSLContext:
        """TLS as somebody speaks it who has ca.crt, and perhaps a silo's certificate."""
        context = ssl.create_default_context(cafile=str(self.folder.ca))
        if certificate:
            context.load_cert_chain(self.kit / "client.crt", self.kit / "client.key")
        return context

    def call(self, *, certificate: bool = False) -> ssl.SSLSocket:
        """A connection to the gateway."""
        raw = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        return self.context(certificate=certificate).wrap_socket(raw, server_hostname="127.0.0.1")

    def ask(self, request: bytes, *, certificate: bool = False) -> bytes:
        """What the gateway answers to these very bytes, until it closes."""
        with self.call(certificate=certificate) as connection:
            connection.sendall(request)
            return answer(connection)

    def part(self, name: str) -> psutil.Process:
        """The process of nginx, engine.superlink or engine.superexec."""
        return next(
            process
            for process in psutil.Process(self.process.pid).children(recursive=True)
            # Not by all arguments: the SuperLink's have the name of the SuperExec's secret.
            if process.name() != "bwrap" and name in " ".join(process.cmdline()[:4])
        )

    def processes(self) -> list[psutil.Process]:
        return [psutil.Process(self.process.pid), *psutil.Process(self.process.pid).children(recursive=True)]


def answer(connection: ssl.SSLSocket) -> bytes:
    """All that comes until the other side closes, or resets."""
    found = b""
    with contextlib.suppress(ConnectionResetError, ssl.SSLError, TimeoutError):
        while part := connection.recv(65536):
            found += part
    return found


def status(answered: bytes) -> int:
    """The status of the first answer; 0 for none."""
    return int(answered.split(None, 2)[1]) if answered.startswith(b"HTTP/1.") else 0


def made(path: Path) -> CoordinatorFolder:
    """A coordinator's folder with a study, the key of one silo, and its kit."""
    study = write_study_folder(path.parent / "study")
    folder, _ = prepare(path, ["127.0.0.1"], f"127.0.0.1:{free_port()}", study)
    create_node_key(path.parent / "node.key")
    shutil.copy(path.parent / "node.key.pub", folder.silos / f"{SILO}.pub")
    make_kit(folder, SILO)
    return folder


def start_command(folder: CoordinatorFolder, port: int) -> list[str]:
    return [str(FEDCT), "coordinator", "start", str(folder.path), "--host", "127.0.0.1", "--port", str(port)]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "FEDCT_TEST_SECRET": SECRET, "COLUMNS": "80", **more}


@contextmanager
def started(
    folder: CoordinatorFolder, *, before: Sequence[str] = (), variables: Mapping[str, str] | None = None
) -> Iterator[Started]:
    """A coordinator that is ready; afterwards it is asked to end, and nothing of it may be left."""
    port, log = free_port(), folder.path.parent / "coordinator.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [*before, *start_command(folder, port)], env=environment(**variables or {}), text=True,
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
    running = Started(folder, port, process, log)
    try:
        wait_ready(running)
        yield running
    finally:
        tree = running.processes() if process.poll() is None else []
        for one in tree:
            # The command itself, if another one has started it.
            with contextlib.suppress(psutil.Error):
                if one.cmdline()[1:4] == start_command(folder, port)[:3]:
                    one.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)
        _, left = psutil.wait_procs([one for one in tree if one.pid != process.pid], timeout=10)
        assert [one for one in left if one.is_running() and one.status() != psutil.STATUS_ZOMBIE] == []


def wait_ready(running: Started) -> None:
    for _ in range(int(PATIENCE / 0.1)):
        if "the coordinator is ready" in running.said():
            return
        assert running.process.poll() is None, running.said()
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.process.wait(0.1)
    raise AssertionError(running.said())


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """One that knows the node of one silo."""
    folder = made(tmp_path_factory.mktemp("coordinator") / "coordinator")
    with started(folder) as running:
        with SuperLink(folder.address(), folder.ca) as superlink:
            superlink.register(folder.silos / f"{SILO}.pub", SILO)
        yield running
