"""``fedct coordinator init``: a coordinator's folder, which may be made again to renew its certificate."""

import secrets
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.markup import escape

from fedct_flwr.atomic import write_atomically
from fedct_flwr.cli.certificates import check_hosts, create_authority, create_server_certificate, is_good_for
from fedct_flwr.cli.coordinator.folder import CoordinatorFolder, Folder, coordinators_study
from fedct_flwr.cli.output import console
from fedct_flwr.cli.silo.folder import host_and_port
from fedct_flwr.datasets.study_copy import check_plain, copy_study
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.types import ConfigError

PORT: Final = 8000
"""Where a SuperLink listens unless it is told otherwise."""
_SECRET_BYTES: Final = 32
_OWNER_ONLY: Final = 0o700


def init(
    folder: Folder,
    host: Annotated[
        list[str] | None,
        typer.Option(
            help="Name or IP address that the SuperLink is called by; repeat it for more.", show_default="localhost"
        ),
    ] = None,
    address: Annotated[
        str, typer.Option(help="Where this machine finds the SuperLink, HOST:PORT.", show_default="the first host:8000")
    ] = "",
    study: Annotated[Path | None, typer.Option(help="The study's folder, to copy.")] = None,
) -> None:
    """Make a coordinator's folder: certificates, a secret, and a place for study, silos' keys and runs.

    Run again, it keeps what is there, and renews the server's certificate where that is about to expire or lacks a
    host.
    """
    out = console(soft_wrap=True)
    coordinator, renewed = prepare(folder, host or ["localhost"], address, study)
    out.print(f"{escape(str(folder))} is ready{', with a new server certificate' if renewed else ''}")
    out.print(f"silos need {escape(str(coordinator.ca))} and {escape(str(coordinator.study))}")


def prepare(
    path: Path, hosts: list[str], address: str = "", study: Path | None = None
) -> tuple[CoordinatorFolder, bool]:
    """Make the folder or what lacks of it. Returns it, and whether it has a new server certificate.

    Raises ConfigError or DataError, before anything is made.
    """
    folder = CoordinatorFolder(path)
    check_hosts(hosts)
    if address:
        host_and_port(address, "--address", "")
    if folder.path.exists() and not folder.ca.is_file() and (not folder.path.is_dir() or any(folder.path.iterdir())):
        raise ConfigError(f"{path} exists and is no coordinator's folder: choose another one")
    if study and study.is_dir():
        check_plain(study)
    if study and folder.study.exists() and coordinators_study(study).digest != read_study(folder.study).digest:
        raise ConfigError(f"{folder.study} holds another study: use another folder for {study}")
    if study:
        coordinators_study(study)
    for part in (folder.path, folder.ca.parent, folder.silos, folder.state, folder.runs, folder.flower_config.parent):
        part.mkdir(parents=True, exist_ok=True, mode=_OWNER_ONLY)
    if not folder.secret.exists():
        # Flower takes the file's bytes as they are.
        write_atomically(folder.secret, secrets.token_hex(_SECRET_BYTES).encode())
    if not folder.ca.is_file():
        create_authority(folder.ca, folder.ca_key)
    renewed = not (folder.server_certificate.exists() and is_good_for(folder.server_certificate, hosts, folder.ca))
    if renewed:
        create_server_certificate(folder.server_certificate, folder.server_key, hosts, folder.ca, folder.ca_key)
    if address or not folder.flower_config.exists():
        folder.write_flower_config(address or f"{_in_brackets(hosts[0])}:{PORT}")
    if study and not folder.study.exists():
        copy_study(study, folder.study)
    return folder, renewed


def _in_brackets(host: str) -> str:
    """An IPv6 address, as it stands before a port."""
    return f"[{host}]" if ":" in host else host
