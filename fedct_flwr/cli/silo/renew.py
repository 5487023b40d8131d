"""``fedct silo renew`` and ``rotate``: new certificates from a new invitation, and a new key for the SuperNode."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from fedct_flwr.cli.certificates import is_older
from fedct_flwr.cli.coordinator.invite import CLIENT_CERTIFICATE, CLIENT_KEY
from fedct_flwr.cli.invitation import COORDINATOR_KEY, Invitation, keep_signer, opened_invitation
from fedct_flwr.cli.output import Output
from fedct_flwr.cli.silo.folder import Folder, FolderOption, silo_file
from fedct_flwr.cli.silo.join import check_fingerprint
from fedct_flwr.config import SiloConfig
from fedct_flwr.config.silo import Connection
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.files.atomic import write_atomically
from fedct_flwr.hospital.keys import create_node_key, load_public_key
from fedct_flwr.text.printable import from_here, in_shell, printable
from fedct_flwr.types import ConfigError


def renew(
    invitation: Annotated[Path, typer.Argument(help="The new invitation from the coordinator.")],
    folder: Folder = None,
    folder_option: FolderOption = None,
    fingerprint: Annotated[
        str,
        typer.Option(help="What the coordinator has told; only for a silo that has not joined by an invitation."),
    ] = "",
) -> None:
    """Take the certificates of a new invitation: after a rotation, or before the old ones expire.

    Settings, keys, study and log stay as they are, and so does the approval. Only an invitation of the coordinator that
    the silo has joined is taken, for this silo and its study. The SuperNode has to be started again afterwards. If the
    coordinator has moved, the command says which address to write into silo.toml.
    """
    file = silo_file(folder, folder_option)
    config = SiloConfig.read_toml(file)
    connection = config.connection
    pinned = connection.ca_certificate.with_name(COORDINATOR_KEY)
    known = load_public_key(pinned) if pinned.exists() else None

    def check(said: Invitation) -> None:
        if (said.silo, said.study) != (config.silo, read_study(config.study).name):
            raise ConfigError(
                f"{invitation} is for {said.silo} in the study {said.study}, and this silo is {config.silo} in another "
                "or under another name: name the right folder, or ask the coordinator"
            )
        if known is None:
            check_fingerprint(invitation, said, fingerprint)

    with opened_invitation(invitation, check, known=known) as (said, files):
        if _is_older(files, connection):
            raise ConfigError(
                f"{invitation} is older than the certificates in {connection.ca_certificate.parent}, and could bring "
                "back what the coordinator has ended: ask the coordinator for a new invitation"
            )
        # The authorities first: with them the old certificate is as good as the new one while they overlap.
        for source, target in (
            (files / "ca.crt", connection.ca_certificate),
            (files / CLIENT_KEY, connection.client_key),
            (files / CLIENT_CERTIFICATE, connection.client_certificate),
        ):
            write_atomically(target, source.read_bytes())
        keep_signer(said.signer, pinned.parent)
    out = Output()
    out.say(f"{in_shell(connection.ca_certificate.parent)} has the certificates of the invitation")
    if said.superlink != connection.superlink:
        # It is part of what was approved, so a person changes it.
        out.say(
            printable(
                f"The invitation names the coordinator's address {said.superlink}, and this silo calls "
                f"{connection.superlink}: if the coordinator has moved, write superlink = {json.dumps(said.superlink)} "
                f"under [connection] in {file}, then fedct silo approve"
            )
        )
    out.say("Next: start the SuperNode again (fedct silo connect, or: docker compose restart supernode)")


def _is_older(files: Path, connection: Connection) -> bool:
    try:
        return is_older(
            files / "ca.crt", files / CLIENT_CERTIFICATE, connection.ca_certificate, connection.client_certificate
        )
    except (ConfigError, OSError):
        # Lost or damaged: there is nothing to go back from.
        return False


def rotate(folder: Folder = None, folder_option: FolderOption = None) -> None:
    """Make a new key for the SuperNode, by which the coordinator knows this silo. The old one is kept as *.former.

    A SuperNode that is running goes on with the old key. Start it again once the coordinator has admitted the new one.
    """
    key = SiloConfig.read_toml(silo_file(folder, folder_option)).connection.node_key
    public, new = key.with_name(f"{key.name}.pub"), key.with_name(f"{key.name}.new")
    for path in (key, public):
        if not path.is_file():
            raise ConfigError(f"there is no key {path}: put back the one that was there")
    for path in (new, new.with_name(f"{new.name}.pub")):
        path.unlink(missing_ok=True)
    create_node_key(new)
    for path in (key, public):
        path.with_name(f"{path.name}.former").unlink(missing_ok=True)
        os.link(path, path.with_name(f"{path.name}.former"))
    new.with_name(f"{new.name}.pub").replace(public)
    new.replace(key)
    out = Output()
    out.say(f"Send to the coordinator: {in_shell(from_here(public))} (public, no secret)")
    out.say("Once it says that both keys are good, start the SuperNode again: fedct silo connect")
