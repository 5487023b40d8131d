"""Whether there is a file with contents at a path, before anything of it is read."""

import os
import stat
from pathlib import Path

from fedct_flwr.datasets.delimited import KindError


def check_regular(path: Path) -> None:
    """Raise KindError unless a file with contents is at ``path``, which this process may read.

    A pipe would keep its reader waiting for ever, and some devices have no end.
    """
    try:
        state = path.stat()
    except OSError as error:
        raise KindError(f"cannot read {path}: {_plain(error)}") from None
    if stat.S_ISDIR(state.st_mode):
        raise KindError(f"cannot read {path}: it is a folder, so name the table in it")
    if not stat.S_ISREG(state.st_mode):
        raise KindError(f"cannot read {path}: it is a pipe or a device, so save the table as a file")
    if not state.st_size:
        raise KindError(f"cannot read {path}: it is empty, so export the table anew")
    if not os.access(path, os.R_OK):
        raise KindError(f"cannot read {path}: this user may not read it, so change its owner or its permissions")


def _plain(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, PermissionError):
        return "this user may not enter its folder, so change the folder's permissions"
    return f"{error.strerror}"
