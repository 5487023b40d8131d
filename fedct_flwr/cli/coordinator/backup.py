"""``fedct coordinator backup``: all of a coordinator as one file."""

import contextlib
import os
import sqlite3
import tarfile
import tempfile
from pathlib import Path
from typing import Annotated, Final

import typer

from fedct_flwr.cli.coordinator.folder import CoordinatorFolder, Folder
from fedct_flwr.cli.output import Output
from fedct_flwr.text.printable import in_shell
from fedct_flwr.types import ConfigError

DATABASE: Final = "state.db"
_WHOLE: Final = ("certificates", "silos", "kits", "study", "secret", "coordinator.toml", "flwr")


def backup(
    folder: Folder,
    file: Annotated[Path, typer.Argument(help="The file to write, such as coordinator.tar.gz.")],
    runs: Annotated[bool, typer.Option("--runs", help="Also the folders of runs.")] = False,
) -> None:
    """Write all of a coordinator into one file, also while it is at work: keys, silos, study, database.

    The file holds every key: keep it as you keep those. Nothing is overwritten. fedct coordinator restore reads it.
    """
    coordinator = CoordinatorFolder.open(folder)
    if file.exists():
        raise ConfigError(f"{file} exists: nothing is overwritten, choose another name")
    handle, name = tempfile.mkstemp(dir=file.absolute().parent, prefix=f".{file.name}.")
    made = Path(name)
    try:
        with os.fdopen(handle, "wb") as target, tarfile.open(fileobj=target, mode="w:gz") as archive:
            for part in (*_WHOLE, *(["runs"] if runs else [])):
                if (coordinator.path / part).exists():
                    archive.add(coordinator.path / part, part)
            _add_database(archive, coordinator.state / DATABASE)
        made.replace(file)
    except BaseException:
        made.unlink(missing_ok=True)
        raise
    out = Output()
    out.say(f"{in_shell(file)} is written, {file.stat().st_size:,} bytes; it holds every key, so keep it safe")
    if not coordinator.ca_key.exists():
        out.say(f"{coordinator.ca_key} is not on this machine, and so not in the backup")


def _add_database(archive: tarfile.TarFile, path: Path) -> None:
    """As it is at one moment, by SQLite's own means: a copy of a file that is being written is none."""
    if not path.exists():
        return
    with tempfile.TemporaryDirectory(prefix="fedct-") as folder:
        copy = Path(folder) / DATABASE
        with (
            contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as source,
            contextlib.closing(sqlite3.connect(copy)) as target,
        ):
            source.backup(target)
        archive.add(copy, f"state/{DATABASE}")
