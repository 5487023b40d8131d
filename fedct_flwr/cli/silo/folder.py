"""The silo's folder as the commands take it."""

from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from fedct_flwr.config.settings import split_address
from fedct_flwr.types import ConfigError

SILO_FILE: Final = "silo.toml"

Folder: TypeAlias = Annotated[
    Path | None, typer.Argument(metavar="[FOLDER]", help="The silo's folder.", show_default="here")
]
FolderOption: TypeAlias = Annotated[
    Path | None, typer.Option("--folder", help="The silo's folder.", show_default="here")
]
"""Where the argument is something else."""


def silo_file(folder: Path | None) -> Path:
    """The path of ``silo.toml``, absolute. Raises ConfigError if there is none."""
    folder = (folder or Path()).absolute()
    path = folder if folder.name == SILO_FILE else folder / SILO_FILE
    if not path.is_file():
        raise ConfigError(f"there is no {SILO_FILE} in {path.parent}: name the silo's folder, or make one with "
                          "'fedct silo init'")  # fmt: skip
    return path


def check_new(folder: Path) -> None:
    """Raise ConfigError for a folder that has something in it."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} exists: nothing is overwritten, choose another folder")


def host_and_port(address: str, option: str) -> tuple[str, int]:
    """The two parts of ``host:port``. Raises ConfigError, which names the ``option``."""
    try:
        return split_address(address)
    except ValueError as error:
        raise ConfigError(f"{option} = {address!r}: {error}") from None
