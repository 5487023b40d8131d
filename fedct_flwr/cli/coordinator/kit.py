"""``fedct coordinator kit``: what a silo is sent, as one folder."""

import re
import shutil
from typing import Annotated, Final

import tomli_w
import typer

from fedct_flwr.cli.certificates import create_authority, create_client_certificate, lasts
from fedct_flwr.cli.coordinator.folder import CoordinatorFolder, Folder
from fedct_flwr.config.settings import NAME_PATTERN
from fedct_flwr.datasets.study_folder import STUDY_FILE
from fedct_flwr.files.atomic import write_atomically
from fedct_flwr.text.console import console
from fedct_flwr.text.printable import in_shell
from fedct_flwr.types import ConfigError

KIT_FILE: Final = "kit.toml"
CLIENT_CERTIFICATE: Final = "client.crt"
CLIENT_KEY: Final = "client.key"
_OWNER_ONLY: Final = 0o700


def kit(
    folder: Folder,
    silos: Annotated[list[str], typer.Argument(metavar="SILO...", help="Names of silos on the study's roster.")],
) -> None:
    """Make what silos are sent: a folder each, with study, address and certificates.

    Send a kit to its silo alone, by a way that nobody else reads: it holds a key. Made again, it is brought up to date,
    and a certificate that is about to expire is renewed.
    """
    out = console(soft_wrap=True, markup=False)
    coordinator = CoordinatorFolder.open(folder)
    for silo in silos:
        if not re.fullmatch(NAME_PATTERN, silo):
            raise ConfigError(f"{silo!r} is no silo's name: take letters, digits, dots, hyphens and underscores")
    if not coordinator.config().gateway:
        raise ConfigError(
            f"nobody has said where silos find the gateway: fedct coordinator init {in_shell(folder)} --gateway "
            "HOST:PORT"
        )
    create_clients_authority(coordinator)
    for silo in silos:
        renewed = make_kit(coordinator, silo)
        said = "with a new certificate" if renewed else "with the certificate that it had"
        out.print(f"send {in_shell(folder / 'kits' / silo)} to {silo}, {said}")


def create_clients_authority(folder: CoordinatorFolder) -> None:
    """The authority that the gateway knows silos by, unless it is there."""
    if not folder.clients_ca.exists():
        create_authority(folder.clients_ca, folder.clients_key, "fedct silos")


def make_kit(folder: CoordinatorFolder, silo: str) -> bool:
    """Make a silo's kit, or bring it up to date. Returns whether it has a new certificate. Raises ConfigError."""
    made = folder.kits / silo
    for path in (folder.kits, made):
        path.mkdir(exist_ok=True, mode=_OWNER_ONLY)
    certificate, key = made / CLIENT_CERTIFICATE, made / CLIENT_KEY
    renewed = not (certificate.exists() and key.exists() and lasts(certificate, folder.clients_ca))
    if renewed:
        create_client_certificate(certificate, key, silo, folder.clients_ca, folder.clients_key)
    shutil.copyfile(folder.ca, made / "ca.crt")
    write_atomically(made / KIT_FILE, tomli_w.dumps({"silo": silo, "superlink": folder.config().gateway}).encode())
    if (folder.study / STUDY_FILE).is_file():
        shutil.rmtree(made / "study", ignore_errors=True)
        shutil.copytree(folder.study, made / "study")
    return renewed


def renew_kits(folder: CoordinatorFolder) -> list[str]:
    """Give each silo that has a kit or a registered key a certificate that lasts. Returns whose is new, sorted."""
    kits = {path.name for path in folder.kits.iterdir()} if folder.kits.is_dir() else set()
    return [silo for silo in sorted(kits | set(folder.keys())) if make_kit(folder, silo)]
