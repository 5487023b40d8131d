"""``fedct coordinator invite``: all that a silo needs to join, as one signed file."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedct_flwr.cli.certificates import create_authority, create_client_certificate, lasts
from fedct_flwr.cli.coordinator.folder import CoordinatorFolder, Folder, coordinators_study
from fedct_flwr.cli.invitation import CERTIFICATES, Invitation, fingerprint_of, write_invitation
from fedct_flwr.cli.output import Json, Output
from fedct_flwr.config.settings import check_name
from fedct_flwr.datasets.study_folder import check_plain
from fedct_flwr.hospital.keys import create_egress_key, load_egress_key
from fedct_flwr.text.printable import from_here, in_shell
from fedct_flwr.types import ConfigError

_OWNER_ONLY: Final = 0o700


def invite(
    folder: Folder,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The silo's name on the study's roster.")],
    days: Annotated[int, typer.Option(min=1, max=365, help="Days until the invitation expires.")] = 14,
    again: Annotated[
        bool,
        typer.Option("--again", help="For a silo that was invited before: with certificates and study of today."),
    ] = False,
    json_: Json = False,
) -> None:
    """Write one signed file with all that a silo needs to join: study, address, certificates.

    Send it to that silo alone and in private, as it holds a key. Tell the silo the fingerprint by a
    second way, such as the telephone. A certificate that is about to expire is renewed.
    """
    out = Output(as_json=json_)
    coordinator = CoordinatorFolder.open(folder)
    check_name(name)
    taken = {one.lower(): one for one in invited(coordinator)}.get(name.lower())
    if taken and not (again and taken == name):
        raise ConfigError(
            f"there is a silo {taken} already: take another name, or for the same hospital "
            f"fedct coordinator invite {in_shell(folder)} {taken} --again"
        )
    address = coordinator.config().gateway
    if not address:
        raise ConfigError(
            f"the gateway's address is unknown: fedct coordinator init {in_shell(folder)} --gateway HOST:PORT"
        )
    study = coordinators_study(coordinator.study)
    check_plain(coordinator.study)
    create_clients_authority(coordinator)
    key = signing_key(coordinator)
    renewed = make_kit(coordinator, name)
    expires, fingerprint = datetime.now(UTC) + timedelta(days=days), fingerprint_of(key.public_key())
    invitation = Invitation(silo=name, study=study.name, superlink=address, expires=expires)
    coordinator.invitations.mkdir(exist_ok=True, mode=_OWNER_ONLY)
    path = coordinator.invitations / f"{name}.zip"
    study_files = {path.relative_to(coordinator.study).as_posix(): path for path in coordinator.study.rglob("*")}
    files = {
        **files_of(coordinator, name),
        **{f"study/{inside}": path for inside, path in sorted(study_files.items()) if path.is_file()},
    }
    write_invitation(path, invitation, files, key)
    shown = in_shell(from_here(path))
    out.say(f"Send to {name} in private: {shown} (good until {expires:%Y-%m-%d})")
    out.say(f"Tell {name} by a second way, such as the telephone, the fingerprint {fingerprint}")
    document: dict[str, Any] = {
        "silo": name,
        "file": str(path),
        "expires": expires.isoformat(timespec="seconds"),
        "fingerprint": fingerprint,
        "new_certificate": renewed,
    }
    out.show(document)


def files_of(folder: CoordinatorFolder, silo: str) -> dict[str, Path]:
    """Files that a silo needs to reach the coordinator, by their names at the silo."""
    return {name: folder.ca if name == folder.ca.name else folder.kits / silo / name for name in CERTIFICATES}


def invited(folder: CoordinatorFolder) -> list[str]:
    """All silos that were invited or whose key has come, sorted."""
    kits = {path.name for path in folder.kits.iterdir() if path.is_dir()} if folder.kits.is_dir() else set()
    return sorted(kits | set(folder.keys()))


def signing_key(folder: CoordinatorFolder) -> Ed25519PrivateKey:
    """The key that signs invitations, made when it is first needed. Raises ConfigError."""
    if not folder.signing_key.exists():
        create_egress_key(folder.signing_key)
    return load_egress_key(folder.signing_key)


def create_clients_authority(folder: CoordinatorFolder) -> None:
    """The authority that the gateway knows silos by, unless it is there."""
    if not folder.clients_ca.exists():
        create_authority(folder.clients_ca, folder.clients_key, "fedct silos")


def make_kit(folder: CoordinatorFolder, silo: str) -> bool:
    """Make a silo's certificate, or renew it. Returns whether it has a new one. Raises ConfigError."""
    made = folder.kits / silo
    for path in (folder.kits, made):
        path.mkdir(exist_ok=True, mode=_OWNER_ONLY)
    certificate, key = made / "client.crt", made / "client.key"
    renewed = not (certificate.exists() and key.exists() and lasts(certificate, folder.clients_ca))
    if renewed:
        create_client_certificate(certificate, key, silo, folder.clients_ca, folder.clients_key)
    return renewed


def renew_kits(folder: CoordinatorFolder) -> list[str]:
    """Give each silo that was invited or has sent its key a certificate that lasts. Returns whose is new, sorted."""
    return [silo for silo in invited(folder) if make_kit(folder, silo)]
