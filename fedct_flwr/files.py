"""Files: written whole or not at all, one JSON document, JSON lines that grow, and whether a path leads to one."""

import errno
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from fedct_flwr.types import RunError

DAMAGED: Final = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
"""Errors from reading a file that is not JSON, or not of the form that its reader expects."""
UNREADABLE: Final = (OSError, *DAMAGED)
"""The same, and errors of files that cannot be read."""
_MOST_ROUNDS: Final = 1 << 63
_SMALL: Final = 1 << 20
"""Bytes that are read each time."""
_SYNCED: Final = ContextVar("synced", default=True)


def data_folder() -> Path:
    """``$FEDCT_DATA``, or ``~/.fedct/data``."""
    return Path(os.environ.get("FEDCT_DATA") or Path.home() / ".fedct" / "data")


def write_atomically(path: Path, content: bytes) -> None:
    """Replace ``path`` by ``content``; after a crash or a full disk the old file is still there, unharmed.

    Once this returns, the content outlasts a power cut, unless within ``unsynced``. Only the owner may read it. Raises
    OSError, which names ``path``, having removed what it wrote.
    """
    try:
        _write(path, content)
    except OSError as error:
        # The user knows this file, not the temporary one that could not be written.
        error.filename, error.filename2 = str(path), None
        raise


@contextmanager
def unsynced() -> Iterator[None]:
    """Do not wait for the disk in this thread: a simulation writes many files, and can be repeated."""
    before = _SYNCED.set(False)
    try:
        yield
    finally:
        _SYNCED.reset(before)


def _write(path: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            if _SYNCED.get():
                os.fsync(file.fileno())
        Path(name).replace(path)
        if _SYNCED.get():
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


def digest_of(path: Path) -> str:
    """SHA-256 of a file's contents; a large one is read again only when the file is another or was written."""
    at = path.stat()
    read = _digest if at.st_size > _SMALL else _digest.__wrapped__
    return read(path, at.st_ino, at.st_size, at.st_mtime_ns, at.st_ctime_ns)


@lru_cache(maxsize=1024)
def _digest(path: Path, *state: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_json(path: Path, content: Any) -> None:
    """Replace ``path`` by the content as JSON that people can read. Raises OSError, as ``write_atomically``."""
    write_atomically(path, (json.dumps(content, indent=2) + "\n").encode())


class News(NamedTuple):
    """New lines; ``replaced`` where the file is another one than before, of which these are all the lines."""

    lines: list[bytes]
    replaced: bool


class JsonLines:
    """Reads each line once, however often it looks; a last line that is not whole yet is left for later.

    ``advice`` says what to do about a file that is damaged. Raises RunError for such a file, and for one that is there
    and cannot be read; one that is not there has no lines.
    """

    def __init__(self, path: Path, advice: str = "start a new run in another folder") -> None:
        self.path, self._advice = path, advice
        self.forget()

    def forget(self) -> None:
        """The next ``news`` are all lines."""
        self._file: int | None = None
        self._offset = 0

    def news(self) -> News:
        """Lines added since the last call."""
        try:
            with self.path.open("rb") as file:
                status = os.fstat(file.fileno())
                # A run that is resumed rewrites its logs, without what comes after its checkpoint.
                replaced = status.st_ino != self._file or status.st_size < self._offset
                if replaced:
                    self._file, self._offset = status.st_ino, 0
                file.seek(self._offset)
                content = file.read()
        except FileNotFoundError:
            self.forget()
            return News([], replaced=True)
        except OSError as error:
            raise RunError(f"cannot read {self.path}: {error.strerror}") from None
        whole = content[: content.rfind(b"\n") + 1]
        self._offset += len(whole)
        return News(whole.splitlines(), replaced)

    def records(self) -> list[dict[str, Any]]:
        """Records of the lines added since the last call."""
        return [self.record(line) for line in self.news().lines]

    def record(self, line: bytes) -> dict[str, Any]:
        """The record of a line."""
        try:
            record = json.loads(line)
            number = int(record["round"])
            if not 0 <= number < _MOST_ROUNDS:
                raise ValueError
            return {**record, "round": number}
        except DAMAGED:
            raise self.damaged() from None

    def damaged(self) -> RunError:
        """To be raised for records that are not what they should be; the next ``news`` are all lines."""
        self.forget()
        return RunError(f"{self.path} is damaged: {self._advice}")


def check_is_file(path: Path) -> None:
    """Raise OSError, as opening would, for a path that leads to no file; for a folder, a pipe or a device as well."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is a pipe or a device, no file", str(path))
