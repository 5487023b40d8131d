"""``fedct coordinator init``: a coordinator's folder, which may be made again to renew its certificate."""

import json
import secrets
from pathlib import Path
from typing import Annotated, Final

import typer

from fedct_flwr.cli.certificates import check_hosts, create_authority, create_server_certificate, hosts_of, is_good_for
from fedct_flwr.cli.coordinator.folder import CoordinatorFolder, Folder, coordinators_study
from fedct_flwr.cli.coordinator.gateway import Gateway
from fedct_flwr.cli.coordinator.invite import create_clients_authority, invited, renew_kits
from fedct_flwr.cli.output import Output
from fedct_flwr.cli.silo.folder import check_new, host_and_port
from fedct_flwr.datasets.inspection import gathered, refuse
from fedct_flwr.datasets.inspections import inspect_public
from fedct_flwr.datasets.study_folder import check_plain, copy_study, read_study
from fedct_flwr.files import write_atomically
from fedct_flwr.text.printable import in_shell
from fedct_flwr.types import ConfigError

PORT: Final = 8000
"""Where a SuperLink listens by default."""
GATEWAY_PORT: Final = 8443
"""Where the gateway listens by default."""
LOOPBACK: Final = ("localhost", "127.0.0.1")
_SETTINGS: Final = """\
# Where silos find the gateway, host:port: their invitations say so.
gateway = {gateway}

# Bytes of the longest message that the gateway takes. Labels of 50,000 public examples are 25,000 bytes; probabilities
# are a byte for each example and each class but one.
max-message = {max_message}
"""
_SECRET_BYTES: Final = 32
_OWNER_ONLY: Final = 0o700


def init(
    folder: Folder,
    host: Annotated[
        list[str] | None,
        typer.Option(
            help="Name or IP address that silos call this machine by; repeat it for more. localhost is always one.",
            show_default="localhost",
        ),
    ] = None,
    gateway: Annotated[
        str, typer.Option(help="Where silos find the gateway, HOST:PORT.", show_default="the first host:8443")
    ] = "",
    address: Annotated[
        str,
        typer.Option(help="Where this machine alone finds the SuperLink, HOST:PORT.", show_default=f"127.0.0.1:{PORT}"),
    ] = "",
    study: Annotated[Path | None, typer.Option(help="The study's folder, to copy.")] = None,
) -> None:
    """Make a coordinator's folder: certificates, a secret, and a place for study, silos' keys and runs.

    Run again, it keeps what is there, and renews certificates: the server's where it is about to expire or lacks a
    host, those of silos where they are about to expire. Where certificates/ca.* and clients.* were moved away, it makes
    new authorities, and all silos need a new invitation.
    """
    out, known = Output(), CoordinatorFolder(folder).ca.is_file()
    coordinator, renewed = prepare(folder, host or ["localhost"], address, study, gateway)
    out.say(f"{folder} is ready{', with a new server certificate' if renewed else ''}")
    for finding in gathered(inspect_public(read_study(study)).suspicious) if study else ():
        out.warn(finding.sentence)
    if gateway and coordinator.gateway.is_file() and (port := host_and_port(gateway, "--gateway")[1]) != GATEWAY_PORT:
        out.say(f"nginx listens on port {GATEWAY_PORT}, and silos call port {port}: forward that one to it")
    late = renew_kits(coordinator)
    for silo in late if known else invited(coordinator):
        out.say(f"{silo} needs new certificates: fedct coordinator invite {in_shell(folder)} {silo} --again")
    out.say(f"what a silo needs, you get by: fedct coordinator invite {in_shell(folder)} SILO")


def prepare(
    path: Path, hosts: list[str], address: str = "", study: Path | None = None, gateway: str = ""
) -> tuple[CoordinatorFolder, bool]:
    """Make the folder or what lacks of it. Returns it, and whether it has a new server certificate.

    The server's certificate is also good for ``localhost`` and ``127.0.0.1``, if the SuperLink is found there.

    Raises ConfigError or DataError, before anything is made.
    """
    folder = CoordinatorFolder(path)
    check_hosts(hosts)
    for option, given in (("--address", address), ("--gateway", gateway)):
        if given:
            host_and_port(given, option)
    if not folder.secret.is_file():
        check_new(folder.path)
    if study and study.is_dir():
        check_plain(study)
    if study and folder.study.exists() and coordinators_study(study).digest != read_study(folder.study).digest:
        raise ConfigError(f"{folder.study} holds another study: use another folder for {study}")
    if study:
        found = coordinators_study(study)
        if not folder.study.exists():
            refuse(inspect_public(found).findings, {"": found.config.public})
    for part in (folder.path, folder.ca.parent, folder.silos, folder.state, folder.runs, folder.flower_config.parent):
        part.mkdir(parents=True, exist_ok=True, mode=_OWNER_ONLY)
    if not folder.secret.exists():
        # Flower takes the file's bytes as they are.
        write_atomically(folder.secret, secrets.token_hex(_SECRET_BYTES).encode())
    if not folder.ca.is_file():
        create_authority(folder.ca, folder.ca_key)
    if address or not folder.flower_config.exists():
        folder.write_flower_config(address or f"{LOOPBACK[1]}:{PORT}")
    # Only where it is called so: a folder for containers need not get its authority's key back from where it is kept.
    near = host_and_port(folder.address(), "address")[0] in LOOPBACK
    before = hosts_of(folder.server_certificate) if folder.server_certificate.exists() else []
    named = list(dict.fromkeys([*hosts, *before, *(LOOPBACK if near else ())]))
    renewed = not (folder.server_certificate.exists() and is_good_for(folder.server_certificate, named, folder.ca))
    if renewed:
        create_server_certificate(folder.server_certificate, folder.server_key, named, folder.ca, folder.ca_key)
    create_clients_authority(folder)
    if gateway or not folder.settings.exists():
        # An IPv6 address has brackets before a port.
        first = f"[{hosts[0]}]" if ":" in hosts[0] else hosts[0]
        place = json.dumps(gateway or f"{first}:{GATEWAY_PORT}")
        text = _SETTINGS.format(gateway=place, max_message=folder.config().max_message)
        write_atomically(folder.settings, text.encode())
    if near:
        _write_gateway(folder)
    if study and not folder.study.exists():
        copy_study(study, folder.study)
    return folder, renewed


def _write_gateway(folder: CoordinatorFolder) -> None:
    """Nginx's settings, where no container has them: the SuperLink is on this machine."""
    has_ipv6 = Path("/proc/net/if_inet6").exists()
    settings = Gateway(
        listen=str(GATEWAY_PORT),
        listen_too=f"[::]:{GATEWAY_PORT}" if has_ipv6 else "",
        certificates=str(folder.ca.parent),
        temporary="/tmp",  # noqa: S108 - the unit has one of its own
        superlink=("127.0.0.1", host_and_port(folder.address(), "address")[1]),
        # nginx knows no IP addresses in certificates.
        superlink_name=LOOPBACK[0],
        max_message=folder.config().max_message,
    )
    write_atomically(folder.gateway, settings.render().encode())
