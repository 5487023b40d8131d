"""Files that are written whole or not at all."""

import os
import tempfile
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Replace ``path`` by ``content``; after a crash or a full disk the old file is still there, unharmed.

    Once this returns, the content outlasts a power cut. Only the owner may read it. Raises OSError, which names
    ``path``, having removed what it wrote.
    """
    try:
        _write(path, content)
    except OSError as error:
        # The user knows this file, not the temporary one that could not be written.
        error.filename, error.filename2 = str(path), None
        raise


def _write(path: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
        _sync_folder(path.parent)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _sync_folder(folder: Path) -> None:
    # The file's name is the folder's content. Windows cannot open folders, and needs no such thing.
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
