"""What a silo keeps between rounds, behind one small interface; it never leaves the silo."""

from pathlib import Path
from typing import Final, Protocol

from flwr.app import ConfigRecord, RecordDict

from fedct_flwr.atomic import write_atomically
from fedct_flwr.learners.base import Learner, Resumable, Saveable

_RECORD: Final = "fedct"


class LocalState(Protocol):
    """Bytes under names such as ``run-12``."""

    def get(self, name: str) -> bytes | None:
        """What was put under this name last, or None."""
        ...

    def put(self, name: str, value: bytes) -> None:
        """Keep a value, whole or not at all."""
        ...


class ContextState:
    """In Flower's context: lasts for a run in a simulation, and in a SuperNode as long as the process does."""

    def __init__(self, state: RecordDict) -> None:
        self._state = state

    def get(self, name: str) -> bytes | None:
        """What was put under this name last, or None."""
        record = self._state.get(_RECORD)
        value = record.get(name) if isinstance(record, ConfigRecord) else None
        return value if isinstance(value, bytes) else None

    def put(self, name: str, value: bytes) -> None:
        """Keep a value."""
        record = self._state.get(_RECORD)
        fields = dict(record) if isinstance(record, ConfigRecord) else {}
        self._state[_RECORD] = ConfigRecord({**fields, name: value})


class FolderState:
    """In a folder on the silo's disk: lasts."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def get(self, name: str) -> bytes | None:
        """What was put under this name last, or None."""
        path = self._folder / name
        return path.read_bytes() if path.exists() else None

    def put(self, name: str, value: bytes) -> None:
        """Keep a value. Raises OSError if the disk is full; the value before is then still there."""
        write_atomically(self._folder / name, value)


def set_back(learner: Learner, progress: bytes | None, kept: Path | None) -> None:
    """Put a learner that trains on into the state that it had before this round.

    ``progress`` is what it kept in this run of Flower's; where that is none, ``kept`` is its model from the run that
    this one resumes, which Flower knows as another.
    """
    if not isinstance(learner, Resumable):
        return
    if progress is not None:
        learner.restore(progress)
    elif isinstance(learner, Saveable) and kept and kept.exists():
        learner.load(kept)
    else:
        learner.reset()
