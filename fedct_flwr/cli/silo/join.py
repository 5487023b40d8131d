"""``fedct silo join``: a silo's folder from the coordinator's invitation, whole or not at all."""

import os
import re
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Annotated, Final

import typer

from fedct_flwr.cli.coordinator.invite import CLIENT_CERTIFICATE, CLIENT_KEY, KIT_FILE
from fedct_flwr.cli.invitation import COORDINATOR_KEY, Invitation, opened_invitation
from fedct_flwr.cli.output import Output
from fedct_flwr.cli.silo.init import (
    Label,
    Learner,
    NewFolder,
    NewSilo,
    Records,
    check_new,
    make_silo,
    say_next,
    say_to_send,
)
from fedct_flwr.config import KitConfig
from fedct_flwr.config.learner import AUTO
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.text.printable import in_shell, printable
from fedct_flwr.types import ConfigError

_COMPOSE_FILES: Final = ("compose.yaml", "compose.gpu.yaml", "compose.limits.yaml")
_IN_CONTAINER: Final = "/app/data"
_SUPERNODE: Final = "runtime:9094"
"""What the agent in a container calls the SuperNode in the other."""


def join(
    invitation: Annotated[Path, typer.Argument(help="The file from the coordinator.")],
    folder: NewFolder = Path("silo"),
    data: Records = Path("records.csv"),
    label: Label = "",
    learner: Learner = AUTO,
    containers: Annotated[
        bool,
        typer.Option("--containers", help="For Docker Compose: its files, and paths as they are in containers."),
    ] = False,
    fingerprint: Annotated[
        str,
        typer.Option(help="What the coordinator has told by a second way; asked for if it is not given here."),
    ] = "",
) -> None:
    """Make a silo's folder from the coordinator's invitation: settings, keys, certificates, and the study.

    An invitation that is forged or damaged, has expired, or has another fingerprint than the coordinator has told is
    refused, and nothing is written. Nothing is overwritten. Exit code 1 if the fingerprint is declined.
    """
    check_new(folder.absolute())
    out = Output()
    with opened_invitation(invitation, lambda said: check_fingerprint(invitation, said, fingerprint)) as (said, files):
        kit = KitConfig.read_toml(files / KIT_FILE)
        if (kit.silo, kit.superlink) != (said.silo, said.superlink) or read_study(files / "study").name != said.study:
            raise ConfigError(f"{invitation} contradicts itself: ask the coordinator for a new invitation")
        new = NewSilo(
            folder, data, kit.silo, files / "study", label, kit.superlink, files / "ca.crt",
            clients=(files / CLIENT_CERTIFICATE, files / CLIENT_KEY), learner=learner,
            more={f"connection/{COORDINATOR_KEY}": said.signer},
        )  # fmt: skip
        made = make_silo(_in_containers(new) if containers else new)
    say_to_send(made)
    if containers:
        # Only Compose mounts the records: whether they are there is to be seen in the agent's container alone.
        out.say(f"Work in {in_shell(made)} from now on: compose.yaml there says how")
    else:
        say_next(made, data)


def check_fingerprint(path: Path, said: Invitation, told: str) -> None:
    """Compare with what was ``told``, or ask. Raises ConfigError if it differs, typer.Exit if it is declined."""
    if told:
        if _digits(told) != _digits(said.fingerprint):
            raise ConfigError(
                f"{path} has the fingerprint {said.fingerprint}, which is not what you were told: do not use it, and "
                "ask the coordinator by telephone"
            )
        return
    out = Output()
    out.say(printable(f"An invitation to the study {said.study} as {said.silo}, to call {said.superlink}"))
    out.say(f"Its fingerprint: {said.fingerprint}")
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
        "OWNER": f"{os.getuid()}:{os.getgid()}" if os.name == "posix" else "49999:49999",
        "SILO": ".",
        "DATA": os.path.relpath(mounted, folder),
    }
    text = "".join(f"{name}='{_escaped(value)}'\n" for name, value in variables.items())
    compose = {name: _compose_file(name).read_bytes() for name in _COMPOSE_FILES}
    more = {**new.more, **compose, ".env": text.encode()}
    return replace(new, file=file, supernode=_SUPERNODE, more=more)


def _compose_file(name: str) -> Path:
    """As it is installed, or in the repository. Never the coordinator's: it decides what runs here, and sees what."""
    installed = Path(str(resources.files("fedct_flwr.cli.silo").joinpath(name)))
    return installed if installed.exists() else Path(__file__).parents[3] / "docker" / "silo" / name


def _escaped(value: str) -> str:
    return value.replace("'", "\\'")
