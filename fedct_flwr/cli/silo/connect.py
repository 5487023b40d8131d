"""``fedct silo connect`` and ``carry``: the end with a connection, which reads neither records nor study.

Flower's SuperNode with the silo's settings, supervised; and for an air gap what takes the agent's place there.
"""

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Annotated, Final

import typer

from fedct_flwr.cli.output import Output
from fedct_flwr.cli.silo.folder import Folder, silo_file
from fedct_flwr.config.settings import split_address
from fedct_flwr.config.silo import Connection, SiloConfig, SiloFolder
from fedct_flwr.flower.runtime_client import SuperNode
from fedct_flwr.hospital import supervisor
from fedct_flwr.hospital.agent_status import status_file
from fedct_flwr.hospital.log_line import log_line
from fedct_flwr.hospital.offline_transport import Carrier
from fedct_flwr.hospital.supervisor import SILO
from fedct_flwr.text.printable import printable
from fedct_flwr.types import ConfigError

# Nothing is reported to anybody, and nothing is fetched.
_ENVIRONMENT: Final = {
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
}

NO_KIT: Final = "ask the coordinator for a new invitation, and take it with 'fedct silo join'"


def connect(
    folder: Folder = None,
    host: Annotated[
        str, typer.Option(help="Address to listen at for the agent.", show_default="that of supernode in silo.toml")
    ] = "",
) -> None:
    """Run Flower's SuperNode: it calls the coordinator, and the agent calls it. It needs no access to records.

    A SuperNode that ends, or stops polling while the coordinator answers, is started again, and a line says so. Stops
    cleanly on SIGTERM, SIGINT and SIGHUP. Exit code 2 if its port is taken or its certificate refused.
    The agent calls it by plain HTTP with a shared secret: keep both on one machine, or on a network of their own.
    """
    config = SiloFolder.read_toml(silo_file(folder))
    connection = config.connection
    for path, remedy in (
        (connection.ca_certificate, "ask the coordinator for ca.crt"),
        (connection.node_key, "make the silo's folder with 'fedct silo init'"),
        (connection.secret, "make the silo's folder with 'fedct silo init'"),
    ):
        if not path.is_file():
            raise ConfigError(f"there is no file {path}: {remedy}")
    if connection.client_certificate.is_file() and not connection.client_key.is_file():
        raise ConfigError(f"there is no file {connection.client_key}: {NO_KIT}")
    command = [*supernode_command(connection, host), f"--status={status_file(config)}"]
    os.execve(command[0], command, {**os.environ, **_ENVIRONMENT, SILO: config.silo})  # noqa: S606 - that is the point


def supernode_command(connection: Connection, host: str = "") -> list[str]:
    """The SuperNode's command line; it listens at ``host``, or where the agent expects it."""
    listens_at, port = split_address(connection.supernode)
    certificate, key = connection.client_certificate, connection.client_key
    # A folder of before there were client certificates has none: a gateway that asks for one says so.
    shown = ["--client-certificate", str(certificate), "--client-key", str(key)] if certificate.is_file() else []
    return [
        *(sys.executable, "-P", "-m", supervisor.__name__),
        *shown,
        "--isolation", "process",
        "--superlink", connection.superlink,
        "--root-certificates", str(connection.ca_certificate),
        "--auth-supernode-private-key", str(connection.node_key),
        "--superexec-auth-secret-file", str(connection.secret),
        "--host", host or listens_at,
        "--port", str(port),
    ]  # fmt: skip


def carry(
    folder: Folder = None,
    files: Annotated[Path, typer.Option(help="Folder where questions are put and answers are looked for.")] = Path(
        "carried"
    ),
) -> None:
    """Turn questions into sealed files, for records on a machine without any connection, and hand answers back.

    Runs where 'fedct silo connect' runs, and needs no records: the silo's settings and its connection/ folder. People
    carry each question to the records, answer it there with 'fedct silo answer', and bring the answer back.
    """
    connection = SiloConfig.read_toml(silo_file(folder)).connection
    try:
        files.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot make the folder {files}: {error.strerror}") from None
    supernode = SuperNode(connection.supernode, connection.secret)
    out, stop = Output(), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())

    def say(sentence: str) -> None:
        out.say(log_line(printable(sentence)))

    say(f"questions for {connection.supernode}'s silo are put into {files.absolute()}")
    try:
        Carrier(supernode, connection.secret, files.absolute(), say, stop).run()
    finally:
        supernode.close()
