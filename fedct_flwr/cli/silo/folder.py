"""The silo's folder as the commands take it, and what they have in common: its settings, its paths, its address."""

import os
import re
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from fedct_flwr.config.names import split_address
from fedct_flwr.types import ConfigError

VARIABLE: Final = "FEDCT_SUPERLINK"
"""In the environment of an agent in a container: what its SuperNode was told to call."""
_ENV_FILE: Final = ".env"
_LINE: Final = re.compile(r"""^\s*(?:export\s+)?SUPERLINK\s*=\s*(['"]?)([^\s'"#]*)\1""", re.MULTILINE)
_MOST_BYTES: Final = 2**20


def called_elsewhere(folder: Path, superlink: str) -> str:
    """The address that the SuperNode calls, if it is another than ``silo.toml`` of this folder says; else empty."""
    called = os.environ.get(VARIABLE) or _in_env_file(folder / _ENV_FILE)
    return called if called != superlink else ""


def _in_env_file(path: Path) -> str:
    """What ``.env`` says; empty where it says nothing. The last line counts."""
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    found = _LINE.findall(text)
    return found[-1][1] if found else ""


SILO_FILE: Final = "silo.toml"

Folder: TypeAlias = Annotated[
    Path | None, typer.Argument(metavar="[FOLDER]", help="The silo's folder.", show_default="here")
]
FolderOption: TypeAlias = Annotated[Path | None, typer.Option("--folder", help="The silo's folder, as an option.")]


def silo_file(argument: Path | None, option: Path | None = None) -> Path:
    """The path of ``silo.toml``, absolute. Raises ConfigError if there is none, or if two folders are named."""
    if argument and option and argument.resolve() != option.resolve():
        raise ConfigError(f"two folders are named, {argument} and {option}: name one")
    folder = (argument or option or Path()).absolute()
    path = folder if folder.name == SILO_FILE else folder / SILO_FILE
    if not path.is_file():
        raise ConfigError(f"there is no {SILO_FILE} in {path.parent}: name the silo's folder, or make one with "
                          "'fedct silo init'")  # fmt: skip
    return path


def host_and_port(address: str, option: str) -> tuple[str, int]:
    """The two parts of ``host:port``. Raises ConfigError, which names the ``option``."""
    try:
        return split_address(address)
    except ValueError as error:
        raise ConfigError(f"{option} = {address!r}: {error}") from None
