"""``fedct silo init``: a silo's folder, whole or not at all."""

import secrets
import shutil
import tempfile
import tomllib
from pathlib import Path
from typing import Annotated, Final

import typer

from fedct_flwr.cli import complete
from fedct_flwr.cli.coordinator.kit import CLIENT_CERTIFICATE, CLIENT_KEY, KIT_FILE
from fedct_flwr.cli.output import Output
from fedct_flwr.cli.silo.folder import SILO_FILE, host_and_port
from fedct_flwr.cli.silo.template import silo_toml
from fedct_flwr.config import KitConfig, SiloConfig, StudyConfig
from fedct_flwr.config.learner import AUTO
from fedct_flwr.datasets.inspection import Severity, gathered
from fedct_flwr.datasets.study_copy import check_plain, copy_study
from fedct_flwr.datasets.study_folder import STUDY_FILE, read_study
from fedct_flwr.datasets.study_inspection import inspect_records
from fedct_flwr.hospital.keys import create_egress_key, create_node_key
from fedct_flwr.learners.catalog import SHORT_NAMES, TORCHVISION, package
from fedct_flwr.text.console import console
from fedct_flwr.text.printable import from_here, in_shell
from fedct_flwr.text.suggest import suggest
from fedct_flwr.types import ConfigError, FedctError

_SECRET_BYTES: Final = 32
_SOMEWHERE: Final = "localhost:8000"

_LEARNERS: Final = (AUTO, *SHORT_NAMES)
"""What predicts classes."""


def init(
    folder: Annotated[Path, typer.Argument(help="The folder to make.")],
    data: Annotated[
        Path, typer.Option(help="The silo's records: a table (CSV, TSV, Excel, Parquet), or a folder of images.")
    ],
    kit: Annotated[
        Path | None,
        typer.Option(help="The silo's kit, from the coordinator: name, study, address and certificates."),
    ] = None,
    silo: Annotated[str, typer.Option(help="The silo's name, if not the kit's.")] = "",
    study: Annotated[Path | None, typer.Option(help="The study's folder, if not the kit's.")] = None,
    label: Annotated[str, typer.Option(help="The label column of the records; not for images.")] = "",
    superlink: Annotated[str, typer.Option(help="The coordinator's address, HOST:PORT, if not the kit's.")] = "",
    ca: Annotated[Path | None, typer.Option(help="The coordinator's certificate, ca.crt, if not the kit's.")] = None,
    learner: Annotated[
        str,
        typer.Option(help="What is trained: a short name, or an import path.", autocompletion=complete.learners),
    ] = AUTO,
) -> None:
    """Make a silo's folder: settings with every key explained, keys, a secret, and a copy of the study.

    Nothing is overwritten. The folder is made as a whole or not at all, and only its owner may read it.
    """
    folder = folder.absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} exists: nothing is overwritten, choose another folder")
    # Before a byte of what came from elsewhere is read.
    for given in (kit, study):
        if given and given.is_dir():
            check_plain(given)
    said = KitConfig.read_toml(kit / KIT_FILE) if kit else None
    silo = silo or (said.silo if said else "")
    study = study or (kit / "study" if kit else None)
    if not silo or not study:
        raise ConfigError("--kit is missing: name the folder from the coordinator, or --silo and --study")
    if said and kit:
        superlink, ca = superlink or said.superlink, ca or kit / "ca.crt"
    agreed = StudyConfig.read_toml(study / STUDY_FILE)
    _check(agreed, label, superlink, ca, learner)
    clients = _of_kit(kit)
    text = silo_toml(
        silo=silo,
        data=_as_written(data, folder),
        label=label,
        classes=agreed.classes,
        learner=learner,
        packages=_packages(learner),
        superlink=superlink or _SOMEWHERE,
    )
    # Before anything is made, and without the name of a file that will not be: what is written must be read.
    SiloConfig.read(tomllib.loads(text), "what was asked for", folder)
    if folder.resolve().is_relative_to(study.resolve()):
        raise ConfigError(f"{folder} lies in the study {study} that it would get a copy of: choose another folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        _fill(temporary, text, study, ca)
        for path in clients:
            _write(temporary / "connection" / path.name, path.read_bytes())
        temporary.rename(folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    _print_next(folder, data, superlink, ca, kit)
    if data.exists():
        _print_findings(folder)


def _print_findings(folder: Path) -> None:
    """What the inspection finds of the records, in words that may be e-mailed."""
    out = Output()
    try:
        config = SiloConfig.read_toml(folder / SILO_FILE)
        found = inspect_records(config.data, read_study(config.study), config.silo)
    except (FedctError, OSError):
        out.warn("The records cannot be read as the study's: fedct silo check says why")
        return
    for each in gathered(found.findings):
        if each.severity is not Severity.ACCEPTED:
            out.warn(f"{'The agent will not start' if each.severity is Severity.REFUSED else 'Note'}: {each.sentence}")


def _check(agreed: StudyConfig, label: str, superlink: str, ca: Path | None, learner: str) -> None:
    """Raise ConfigError for what would make a folder that cannot work."""
    if not label and not agreed.image_size:
        raise ConfigError("--label is missing: name the label column of the records")
    if superlink:
        host_and_port(superlink, "superlink")
    if ca and not ca.is_file():
        raise ConfigError(f"there is no file {ca}: ask the coordinator for ca.crt")
    if learner not in _LEARNERS and "." not in learner:
        raise ConfigError(f"unknown learner {learner!r}: {suggest(learner, _LEARNERS)} (or give an import path)")


def _of_kit(kit: Path | None) -> list[Path]:
    """The certificate that opens the gateway, and its key. Raises ConfigError for a kit without them."""
    if not kit:
        return []
    found = [kit / CLIENT_CERTIFICATE, kit / CLIENT_KEY]
    for path in (*found, kit / "ca.crt"):
        if path.is_symlink() or not path.is_file():
            raise ConfigError(f"there is no file {path}: ask the coordinator for the whole kit of your silo")
    return found


def _as_written(data: Path, folder: Path) -> str:
    """The path for ``silo.toml``: relative if it lies in the silo's folder."""
    path = data.absolute()
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)


def _packages(learner: str) -> list[str]:
    """The hospital itself has named the learner, and so trusts its package."""
    return [] if learner in _LEARNERS and learner != TORCHVISION else [package(learner)]


def _fill(folder: Path, text: str, study: Path, ca: Path | None) -> None:
    _write(folder / SILO_FILE, text.encode())
    config = SiloConfig.read_toml(folder / SILO_FILE)
    copy_study(study, config.study)
    make_keys(config)
    if ca:
        shutil.copyfile(ca, config.connection.ca_certificate)


def make_keys(config: SiloConfig) -> None:
    """The folders that a silo keeps to itself, its keys, and what its agent shows to the SuperNode."""
    for path in (config.egress_key.parent, config.connection.node_key.parent, config.state):
        path.mkdir(mode=0o700)
    create_egress_key(config.egress_key)
    create_node_key(config.connection.node_key)
    _write(config.connection.secret, secrets.token_hex(_SECRET_BYTES).encode())


def _write(path: Path, content: bytes) -> None:
    path.touch(mode=0o600, exist_ok=False)
    path.write_bytes(content)


def _print_next(folder: Path, data: Path, superlink: str, ca: Path | None, kit: Path | None) -> None:
    shown, out = from_here(folder), console(soft_wrap=True, markup=False)

    def say(text: str) -> None:
        out.print(text)

    say(f"{shown} is made; only you can read it.")
    say(f"Send to the coordinator: {in_shell(shown / 'connection' / 'node.key.pub')} (public, no secret)")
    if not superlink:
        say(f"Ask the coordinator for its address, and write it into {shown / SILO_FILE} as superlink")
    if not ca:
        say(f"Ask the coordinator for ca.crt, and put it into {shown / 'connection'}")
    if not kit:
        say(
            f"If the coordinator's gateway asks for a certificate, put client.crt and client.key from your kit into "
            f"{shown / 'connection'}"
        )
    if not data.exists():
        say(f"There is nothing at {data} yet: put the records there, or change file in {shown / SILO_FILE}")
    say(f"Next: fedct silo check {in_shell(shown)}")
