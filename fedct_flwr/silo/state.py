"""What a silo keeps between rounds: bytes under names, in Flower's context or in a folder of its disk."""

import contextlib
import threading
from pathlib import Path
from typing import Final, Protocol

from flwr.app import ConfigRecord, RecordDict

from fedct_flwr.files import write_atomically

_RECORD: Final = "fedct"

WRITING: Final = threading.Lock()
"""Held while a file is written: its holder may end the process, and no file is left half done."""


class LocalState(Protocol):
    """Bytes under names such as ``run-12``."""

    def get(self, name: str, size: int | None = None) -> bytes | None:
        """Last value under this name, or only its first ``size`` bytes; None without one."""

    def put(self, name: str, value: bytes) -> None:
        """Keep a value, whole or not at all."""

    def names(self, prefix: str) -> list[str]:
        """The names that begin with ``prefix``, the one that was put last first."""

    def drop(self, name: str) -> None:
        """Keep nothing under this name any more. Whether that comes off decides nothing: never raises."""


class ContextState:
    """Store in Flower's context: lasts for a run in a simulation, and in a SuperNode as long as the process does."""

    def __init__(self, state: RecordDict) -> None:
        self._state = state

    def get(self, name: str, size: int | None = None) -> bytes | None:
        """Last value under this name, or only its first ``size`` bytes; None without one."""
        return value[:size] if (value := self._fields().get(name)) is not None else None

    def put(self, name: str, value: bytes) -> None:
        """Keep a value."""
        fields = self._fields()
        fields.pop(name, None)
        self._state[_RECORD] = ConfigRecord({**fields, name: value})

    def names(self, prefix: str) -> list[str]:
        """The names that begin with ``prefix``, the one that was put last first."""
        return [name for name in reversed(self._fields()) if name.startswith(prefix)]

    def drop(self, name: str) -> None:
        """Keep nothing under this name any more."""
        self._state[_RECORD] = ConfigRecord({key: value for key, value in self._fields().items() if key != name})

    def _fields(self) -> dict[str, bytes]:
        record = self._state.get(_RECORD)
        fields = dict(record) if isinstance(record, ConfigRecord) else {}
        return {name: value for name, value in fields.items() if isinstance(value, bytes)}


class FolderState:
    """Store in a folder on the silo's disk: permanent."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def get(self, name: str, size: int | None = None) -> bytes | None:
        """Last value under this name, or only its first ``size`` bytes; None without one."""
        try:
            with (self._folder / name).open("rb") as file:
                return file.read(size)
        except FileNotFoundError:
            return None

    def put(self, name: str, value: bytes) -> None:
        """Keep a value. Raises OSError if the disk is full; the value before is then still there."""
        with WRITING:
            write_atomically(self._folder / name, value)

    def names(self, prefix: str) -> list[str]:
        """The names that begin with ``prefix``, the one that was put last first, by the times of their files."""
        times = {path.name: path.stat().st_mtime_ns for path in self._folder.iterdir() if path.name.startswith(prefix)}
        return sorted(times, key=lambda name: times[name], reverse=True)

    def drop(self, name: str) -> None:
        """Keep nothing under this name any more."""
        with contextlib.suppress(OSError):
            (self._folder / name).unlink(missing_ok=True)
