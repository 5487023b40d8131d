"""Whether there is a file with contents at a path, before anything of it is read."""

import errno
import os
from pathlib import Path
from typing import Final

from fedct_flwr.datasets.delimited import KindError
from fedct_flwr.files.regular import check_is_file

_NO_ENTRY: Final = "this user may not enter its folder, so change the folder's permissions"
_PLAIN: Final = {
    errno.ENOENT: "there is no such file",
    errno.EACCES: _NO_ENTRY,
    errno.EPERM: _NO_ENTRY,
    errno.EISDIR: "it is a folder, so name the table in it",
    errno.EINVAL: "it is a pipe or a device, so save the table as a file",
}


def check_regular(path: Path) -> None:
    """Raise KindError unless a file with contents is at ``path``, which this process may read."""
    try:
        check_is_file(path)
        size = path.stat().st_size
    except OSError as error:
        raise KindError(f"cannot read {path}: {_PLAIN.get(error.errno or 0, error.strerror)}") from None
    if not size:
        raise KindError(f"cannot read {path}: it is empty, so export the table anew")
    if not os.access(path, os.R_OK):
        raise KindError(f"cannot read {path}: this user may not read it, so change its owner or its permissions")
