"""A SuperLink behind nginx with the settings of ``fedct coordinator init``, and what attackers have of it."""

import contextlib
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
import pytest

from fedct_flwr.cli.coordinator.folder import CoordinatorFolder
from fedct_flwr.cli.coordinator.init import prepare
from fedct_flwr.cli.coordinator.invite import make_kit
from fedct_flwr.flower import superlink
from fedct_flwr.flower.command import SuperLink, environment
from fedct_flwr.hospital.keys import create_node_key
from tests.hospitals import write_study_folder
from tests.processes.deployment import free_port, listens

SILO: Final = "cleveland"
PATIENCE: Final = 240.0

needs_nginx = pytest.mark.skipif(not shutil.which("nginx"), reason="needs nginx (apt install nginx-light)")


@dataclass
class Started:
    """A coordinator at work."""

    folder: CoordinatorFolder
    port: int
    processes: list[subprocess.Popen[str]]
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
        """The process of flower.superlink or of nginx."""
        started = [psutil.Process(process.pid) for process in self.processes]
        every = [one for process in started for one in (process, *process.children(recursive=True))]
        return next(one for one in every if name in " ".join(one.cmdline()[:4]))


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


@contextmanager
def working(folder: CoordinatorFolder, log: Path, commands: list[list[str]], *ports: int) -> Iterator[Started]:
    """These commands at work, the gateway at the first of the ports; afterwards they are gone."""
    with log.open("w") as output:
        processes = [
            subprocess.Popen(
                command, env=environment(folder.path.parent), text=True, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT,
            )
            for command in commands
        ]  # fmt: skip
    running = Started(folder, ports[0], processes, log)
    try:
        end = time.monotonic() + PATIENCE
        while not all(map(listens, ports)):
            assert all(process.poll() is None for process in processes), running.said()
            assert time.monotonic() < end, running.said()
            time.sleep(0.1)
        yield running
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(PATIENCE)


def nginx(settings: Path) -> list[str]:
    return ["nginx", "-e", "stderr", "-c", str(settings)]


@contextmanager
def started(folder: CoordinatorFolder) -> Iterator[Started]:
    """SuperLink and gateway at work."""
    port, log = free_port(), folder.path.parent / "coordinator.log"
    _, superlink_port = folder.address().split(":")
    conf = re.sub("(_temp_path|pid) /tmp/", rf"\1 {log.parent}/", folder.gateway.read_text("utf-8"))
    conf = conf.replace("8443 ssl", f"{port} ssl")
    folder.gateway.write_text(f"user root;\n{conf}", "utf-8")
    link = [
        *superlink.COMMAND, "--host", "127.0.0.1", "--port", superlink_port, "--isolation", "process",
        "--enable-supernode-auth", "--ssl-ca-certfile", str(folder.ca),
        "--ssl-certfile", str(folder.server_certificate), "--ssl-keyfile", str(folder.server_key),
        "--database", str(folder.state / "state.db"), "--superexec-auth-secret-file", str(folder.secret),
    ]  # fmt: skip
    with working(folder, log, [link, nginx(folder.gateway)], port, int(superlink_port)) as running:
        yield running


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """One that knows the node of one silo."""
    folder = made(tmp_path_factory.mktemp("coordinator") / "coordinator")
    with started(folder) as running:
        with SuperLink(folder.address(), folder.ca) as link:
            link.register(folder.silos / f"{SILO}.pub", SILO)
        yield running
