"""``fedct silo carry``: the connected end of an air gap, in place of the agent."""

import signal
import threading
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from fedct_flwr.cli.output import Output
from fedct_flwr.cli.silo.folder import Folder, FolderOption, silo_file
from fedct_flwr.config import SiloConfig
from fedct_flwr.flower.runtime_client import SuperNode
from fedct_flwr.hospital.carrier import Carrier
from fedct_flwr.text.printable import printable
from fedct_flwr.types import ConfigError


def carry(
    folder: Folder = None,
    folder_option: FolderOption = None,
    files: Annotated[Path, typer.Option(help="Folder where questions are put and answers are looked for.")] = Path(
        "carried"
    ),
) -> None:
    """Turn questions into sealed files, for records on a machine without any connection, and hand answers back.

    Runs where 'fedct silo connect' runs, and needs no records: the silo's settings and its connection/ folder. People
    carry each question to the records, answer it there with 'fedct silo answer', and bring the answer back.
    """
    connection = SiloConfig.read_toml(silo_file(folder, folder_option)).connection
    try:
        files.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot make the folder {files}: {error.strerror}") from None
    supernode = SuperNode(connection.supernode, connection.secret)
    out, stop = Output(), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())

    def say(sentence: str) -> None:
        out.say(f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S}  {printable(sentence)}")

    say(f"questions for {connection.supernode}'s silo are put into {files.absolute()}")
    try:
        Carrier(supernode, connection.secret, files.absolute(), say, stop).run()
    finally:
        supernode.close()
