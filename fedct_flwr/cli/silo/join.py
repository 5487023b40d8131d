"""``fedct silo join``: a silo's folder, and later new certificates for it."""

import json
import os
import re
from dataclasses import replace
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Annotated, Final

import typer

from fedct_flwr.cli.invitation import CERTIFICATES, COORDINATOR_KEY, Invitation, opened_invitation
from fedct_flwr.cli.output import Output
from fedct_flwr.cli.silo.folder import SILO_FILE, check_new
from fedct_flwr.cli.silo.init import (
    Database,
    Label,
    Learner,
    NewFolder,
    NewSilo,
    Records,
    make_silo,
    say_next,
    say_to_send,
)
from fedct_flwr.config.learner import AUTO
from fedct_flwr.config.silo import SiloConfig, SiloFolder
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.files import write_atomically
from fedct_flwr.hospital.keys import create_node_key, load_public_key
from fedct_flwr.text.printable import from_here, in_shell, printable
from fedct_flwr.types import ConfigError

_COMPOSE_FILES: Final = ("compose.yaml", "compose.gpu.yaml", "compose.limits.yaml")
_RECORDS: Final = Path("records.csv")
_IN_CONTAINER: Final = "/app/data"
_SUPERNODE: Final = "runtime:9094"
"""Address of the SuperNode's container for the agent in another."""


def join(
    invitation: Annotated[Path, typer.Argument(help="The file from the coordinator.")],
    folder: NewFolder = Path("silo"),
    data: Records = _RECORDS,
    label: Label = "",
    learner: Learner = AUTO,
    containers: Annotated[
        bool,
        typer.Option("--containers", help="For Docker Compose: its files, and paths as they are in containers."),
    ] = False,
    fingerprint: Annotated[
        str,
        typer.Option(help="Fingerprint that the coordinator gave you by a second way; asked for if missing."),
    ] = "",
    database: Database = "",
) -> None:
    """Make a silo's folder from the coordinator's invitation: settings, keys, certificates, and the study.

    An invitation that is forged or damaged, has expired, or has another fingerprint than the coordinator has told is
    refused, and nothing is written. Exit code 1 if the fingerprint is declined.

    A folder that has joined takes the certificates of a new invitation from the same coordinator. Its settings, keys,
    study, log and approval stay. For a new node key, move connection/node.key and node.key.pub away first.
    """
    out = Output()
    if (folder / SILO_FILE).is_file():
        if (data, label, learner, containers, database) != (_RECORDS, "", AUTO, False, ""):
            raise ConfigError(f"{folder} has joined already: change its {SILO_FILE}, and give the invitation alone")
        _renew(invitation, (folder / SILO_FILE).absolute(), fingerprint)
        return
    check_new(folder.absolute())
    check = partial(check_fingerprint, invitation, given=fingerprint)
    with opened_invitation(invitation, check) as (found, files):
        if read_study(files / "study").name != found.study:
            raise ConfigError(f"{invitation} contradicts itself: ask the coordinator for a new invitation")
        new = NewSilo(
            folder, data, found.silo, files / "study", label, found.superlink, files / "ca.crt",
            clients=(files / "client.crt", files / "client.key"), learner=learner, database=database,
            more={f"connection/{COORDINATOR_KEY}": found.signer},
        )  # fmt: skip
        made = make_silo(_in_containers(new) if containers else new)
    say_to_send(made)
    if containers:
        # Only Compose mounts the records: whether they are there is to be seen in the agent's container alone.
        out.say(f"Work in {in_shell(made)} from now on: compose.yaml there says how")
    else:
        say_next(made, data)


def check_fingerprint(path: Path, found: Invitation, *, given: str) -> None:
    """Compare with the ``given`` fingerprint, or ask. Raises ConfigError if it differs, typer.Exit if declined."""
    if given:
        if _digits(given) != _digits(found.fingerprint):
            raise ConfigError(
                f"{path} has the fingerprint {found.fingerprint}, which is not what you were told: do not use it, and "
                "ask the coordinator by telephone"
            )
        return
    out = Output()
    out.say(printable(f"An invitation to the study {found.study} as {found.silo}, to call {found.superlink}"))
    out.say(f"Its fingerprint: {found.fingerprint}")
    if not typer.confirm("Has the coordinator told you this fingerprint by another way?"):
        raise typer.Exit(1)


def _digits(fingerprint: str) -> str:
    return re.sub(r"[\s-]", "", fingerprint).lower()


def _in_containers(new: NewSilo) -> NewSilo:
    """With what Docker Compose needs, in the silo's folder. Images for a learner are a folder of their own."""
    data, folder = new.data.absolute(), new.folder.absolute()
    mounted, file = (data, _IN_CONTAINER) if data.is_dir() else (data.parent, f"{_IN_CONTAINER}/{data.name}")
    variables = {
        "COMPOSE_PROJECT_NAME": re.sub(r"[^a-z0-9_-]", "-", f"fedct-{folder.name}-{new.silo}".lower()),
        "SUPERLINK": new.superlink,
        "OWNER": f"{os.getuid()}:{os.getgid()}",
        "SILO": ".",
        "DATA": os.path.relpath(mounted, folder),
    }
    text = "".join("{}='{}'\n".format(name, value.replace("'", "\\'")) for name, value in variables.items())
    compose = {name: _compose_file(name).read_bytes() for name in _COMPOSE_FILES}
    more = {**new.more, **compose, ".env": text.encode()}
    source = "data.query" if new.database else "data.file"
    return replace(new, given={source: file, "connection.supernode": _SUPERNODE}, more=more)


def _compose_file(name: str) -> Path:
    """As it is installed, or in the repository. Never the coordinator's: it decides what runs here, and sees what."""
    installed = Path(str(resources.files("fedct_flwr.cli.silo").joinpath(name)))
    return installed if installed.exists() else Path(__file__).parents[3] / "docker" / "silo" / name


def _renew(invitation: Path, file: Path, fingerprint: str) -> None:
    """Take certificates for the silo of this ``silo.toml``, and make its node's key where there is none.

    Only an invitation for this silo and its study is taken, and where the silo knows its coordinator's key, only that
    coordinator's. The address is part of what was approved, so a person changes it. Raises ConfigError.
    """
    config = SiloFolder.read_toml(file)
    connection = config.connection
    pinned = connection.ca_certificate.with_name(COORDINATOR_KEY)
    known = load_public_key(pinned) if pinned.exists() else None

    def check(found: Invitation) -> None:
        # An app has no study.
        study = read_study(config.study).name if isinstance(config, SiloConfig) else found.study
        if (found.silo, found.study) != (config.silo, study):
            raise ConfigError(
                f"{invitation} is for {found.silo} in study {found.study}, and this silo is {config.silo} in another "
                "or under another name: name the right folder, or ask the coordinator"
            )
        if known is None or fingerprint:
            check_fingerprint(invitation, found, given=fingerprint)

    with opened_invitation(invitation, check, known=known) as (found, files):
        studies = (config.study, files / "study") if isinstance(config, SiloConfig) else ()
        changed = len({read_study(study).digest for study in studies}) > 1
        targets = connection.ca_certificate, connection.client_certificate, connection.client_key
        for name, target in zip(CERTIFICATES, targets, strict=True):
            write_atomically(target, (files / name).read_bytes())
        write_atomically(pinned, found.signer)
    out, public = Output(), connection.node_key.with_name(f"{connection.node_key.name}.pub")
    out.say(f"{in_shell(connection.ca_certificate.parent)} has the certificates of the invitation")
    if changed and isinstance(config, SiloConfig):
        out.warn(
            f"the invitation has another study than {config.study}, which stays: ask the coordinator what changed, "
            "then put its study folder there, and run fedct silo approve"
        )
    if not connection.node_key.exists():
        create_node_key(connection.node_key)
        out.say(f"Send to the coordinator: {in_shell(from_here(public))} (public, no secret)")
    if found.superlink != connection.superlink:
        out.say(
            printable(
                f"The invitation names the address {found.superlink}, and this silo calls "
                f"{connection.superlink}: if the coordinator moved, write superlink = {json.dumps(found.superlink)} "
                f"under [connection] in {file}, then fedct silo approve"
            )
        )
    out.say("Next: start the SuperNode again (fedct silo connect, or: docker compose restart supernode)")
