"""``fedct silo init``: a silo's folder, whole or not at all."""

import os
import secrets
import shutil
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from fedct_flwr.cli.output import Output
from fedct_flwr.cli.silo.folder import SILO_FILE
from fedct_flwr.cli.silo.template import silo_toml
from fedct_flwr.config import SiloConfig, StudyConfig
from fedct_flwr.config.learner import AUTO
from fedct_flwr.datasets.delimited import KindError
from fedct_flwr.datasets.study_copy import check_plain, copy_study
from fedct_flwr.datasets.study_folder import STUDY_FILE, read_study
from fedct_flwr.datasets.table_files import column_names
from fedct_flwr.hospital.keys import create_egress_key, create_node_key
from fedct_flwr.learners.catalog import LANGUAGE, SHORT_NAMES, TORCHVISION, package
from fedct_flwr.text.printable import from_here, in_shell
from fedct_flwr.text.suggest import suggest
from fedct_flwr.types import ConfigError, DataError

_SECRET_BYTES: Final = 32
_SOMEWHERE: Final = "localhost:8000"

_LEARNERS: Final = (AUTO, *SHORT_NAMES, *LANGUAGE)
"""What predicts classes."""

NewFolder: TypeAlias = Annotated[Path, typer.Argument(help="The folder to make.")]
Records: TypeAlias = Annotated[
    Path, typer.Option(help="The silo's records: a table (CSV, TSV, Excel, Parquet), or a folder of images.")
]
Label: TypeAlias = Annotated[str, typer.Option(help="The label column of the records; not for images.")]
Learner: TypeAlias = Annotated[
    str,
    typer.Option(help="What is trained: a short name, or an import path."),
]


def init(
    folder: NewFolder,
    data: Records,
    silo: Annotated[str, typer.Option(help="The silo's name.")],
    study: Annotated[Path, typer.Option(help="The study's folder.")],
    label: Label = "",
    superlink: Annotated[str, typer.Option(help="The coordinator's address, HOST:PORT.")] = "",
    ca: Annotated[Path | None, typer.Option(help="The coordinator's certificate, ca.crt.")] = None,
    learner: Learner = AUTO,
) -> None:
    """Make a silo's folder by hand: settings with every key explained, keys, a secret, and a copy of the study.

    With an invitation from the coordinator, fedct silo join does all of this. Nothing is overwritten. The folder is
    made as a whole or not at all, and only its owner may read it.
    """
    made = make_silo(NewSilo(folder, data, silo, study, label, superlink, ca, learner=learner))
    say_to_send(made)
    if not superlink:
        _say(f"Ask the coordinator for its address, and write it into {made / SILO_FILE} as superlink")
    if not ca:
        _say(f"Ask the coordinator for ca.crt, and put it into {made / 'connection'}")
    _say("If the coordinator's gateway asks for a certificate, take an invitation instead: fedct silo join INVITATION")
    say_next(made, data)


@dataclass(frozen=True)
class NewSilo:
    """What a silo's folder is made of. ``clients``: a client certificate and its key. ``more``: texts of more files.

    ``file`` is what ``silo.toml`` says of the records, and ``supernode`` of the SuperNode, where that is not what it is
    here.
    """

    folder: Path
    data: Path
    silo: str
    study: Path
    label: str = ""
    superlink: str = ""
    ca: Path | None = None
    clients: tuple[Path, ...] = ()
    learner: str = AUTO
    file: str = ""
    supernode: str = ""
    more: Mapping[str, bytes] = field(default_factory=dict)


def make_silo(new: NewSilo) -> Path:
    """Make a silo's folder, whole or not at all. Returns it as it is shown. Raises ConfigError."""
    folder, study, data = new.folder.absolute(), new.study, new.data.absolute()
    check_new(folder)
    # Before a byte of what came from elsewhere is read.
    if study.is_dir():
        check_plain(study)
    agreed = StudyConfig.read_toml(study / STUDY_FILE)
    _check(agreed, new.label, new.ca, new.learner)
    _check_data(new.data, agreed)
    text = silo_toml(
        silo=new.silo,
        # Relative where it lies in the silo's folder.
        data=new.file or str(data.relative_to(folder) if data.is_relative_to(folder) else data),
        label=new.label,
        classes=agreed.classes,
        learner=new.learner,
        # The hospital itself has named the learner, and so trusts its package.
        packages=[] if new.learner in _LEARNERS and new.learner != TORCHVISION else [package(new.learner)],
        superlink=new.superlink or _SOMEWHERE,
        public=len(read_study(study).public),
        supernode=new.supernode,
    )
    # Before anything is made, and without the name of a file that will not be: what is written must be read.
    SiloConfig.read(tomllib.loads(text), "what was asked for", folder)
    if folder.resolve().is_relative_to(study.resolve()):
        raise ConfigError(f"{folder} lies in the study {study} that it would get a copy of: choose another folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        _write(temporary / SILO_FILE, text.encode())
        config = SiloConfig.read_toml(temporary / SILO_FILE)
        copy_study(study, config.study)
        make_keys(config)
        if new.ca:
            shutil.copyfile(new.ca, config.connection.ca_certificate)
        for path in new.clients:
            _write(temporary / "connection" / path.name, path.read_bytes())
        for name, content in new.more.items():
            _write(temporary / name, content)
        temporary.rename(folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return from_here(folder)


def check_new(folder: Path) -> None:
    """Raise ConfigError for a folder that has something in it."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} exists: nothing is overwritten, choose another folder")


def _check(agreed: StudyConfig, label: str, ca: Path | None, learner: str) -> None:
    """Raise ConfigError for what would make a folder that cannot work."""
    if not label and not agreed.image_size:
        raise ConfigError("--label is missing: name the label column of the records")
    if ca and not ca.is_file():
        raise ConfigError(f"there is no file {ca}: ask the coordinator for ca.crt")
    if learner not in _LEARNERS and "." not in learner:
        raise ConfigError(f"unknown learner {learner!r}: {suggest(learner, _LEARNERS)} (or give an import path)")


def _check_data(data: Path, agreed: StudyConfig) -> None:
    """Raise DataError for a file that no settings can make records of. One that is not there yet may come later."""
    if not os.path.lexists(data):
        return
    if agreed.image_size and not data.is_dir():
        raise DataError(f"{data} is no folder: the study has images, so name the folder with a folder for each class")
    if not agreed.image_size:
        try:
            column_names(data)
        except KindError:
            raise
        except DataError:
            # Settings in the silo's folder, which is still to be made, tell how such a table is to be read.
            return


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


def _say(text: str) -> None:
    Output().say(text)


def say_to_send(made: Path) -> None:
    """What was made, and what of it the coordinator needs."""
    _say(f"{in_shell(made)} is made; only you can read it.")
    _say(f"Send to the coordinator: {in_shell(made / 'connection' / 'node.key.pub')} (public, no secret)")


def say_next(made: Path, data: Path) -> None:
    """What there is to do now."""
    if not data.exists():
        _say(f"There is nothing at {in_shell(data)} yet: put the records there, or change file in {made / SILO_FILE}")
    _say(f"Next: fedct silo check {in_shell(made)}")
