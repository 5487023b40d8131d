"""Whether a path leads to a file: a pipe would keep its reader waiting for ever, and some devices have no end."""

import errno
import stat
from pathlib import Path


def check_is_file(path: Path) -> None:
    """Raise OSError, as opening would, for a path that leads to no file; for a folder, a pipe or a device as well."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is a pipe or a device, no file", str(path))
