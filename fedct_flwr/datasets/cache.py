"""Where data sets that are not part of the package lie on this machine."""

import os
from collections.abc import Sequence
from pathlib import Path

from fedct_flwr.types import DataError


def data_folder() -> Path:
    """``$FEDCT_DATA``, or ``~/.fedct/data``."""
    return Path(os.environ.get("FEDCT_DATA") or Path.home() / ".fedct" / "data")


def find(name: str, files: Sequence[str], elsewhere: Sequence[Path], how: str) -> list[Path]:
    """The files of a data set in ``NAME`` under the data folder or in a folder ``elsewhere``.

    Raises DataError that says where they are looked for and ``how`` to get them.
    """
    folders = [data_folder() / name, *elsewhere]
    for folder in folders:
        if all((folder / file).is_file() for file in files):
            return [folder / file for file in files]
    raise DataError(
        f"data set {name!r} is not on this machine: {', '.join(files)} in {' or '.join(map(str, folders))}; {how}"
    )
