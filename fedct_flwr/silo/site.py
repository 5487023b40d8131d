"""Everything one silo works with: data, its copy of the public set, learner, labeler, and its store between rounds.

``SiloContext`` (``silo/context.py``) adds, for one message, the answers that it permits.
"""

import contextlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from flwr.app import ConfigRecord, RecordDict

from fedct_flwr import labelers
from fedct_flwr.config.learner import AUTO, LearnerSettings
from fedct_flwr.datasets.federated import PublicSet, num_units
from fedct_flwr.files import write_atomically
from fedct_flwr.learners import Learner, Resumable, Saveable
from fedct_flwr.learners.safeguard import NetworkSafeguard, Safeguard, SoftSafeguard
from fedct_flwr.text.printable import logger

if TYPE_CHECKING:
    from fedct_flwr.config.privacy import PrivacySettings, TransferSettings
    from fedct_flwr.datasets.inspection import Finding
    from fedct_flwr.datasets.schema import Schema
    from fedct_flwr.labelers.labeler import Labeler
    from fedct_flwr.labelers.students import Transfer
    from fedct_flwr.types import Examples, Groups, SiloName
    from fedct_flwr.wire.content import Terms


_RECORD: Final = "fedct"

WRITING: Final = threading.Lock()
"""Held while a file is written: its holder may end the process, and no file is left half done."""

SITES_KEPT: Final = 128
"""Simulated silos that a process holds at a time: it reads data and fits preprocessing once for many rounds."""


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


def set_back(learner: Learner, progress: bytes | None, kept: Path | None) -> bool:
    """Set a learner back: to its ``progress`` in this run, or to the model ``kept`` of the run resumed.

    Returns whether it is one that trains on, and begins.
    """
    if not isinstance(learner, Resumable):
        return False
    if progress is not None:
        learner.restore(progress)
    elif isinstance(learner, Saveable) and kept and kept.exists():
        learner.load(kept)
    else:
        learner.reset()
        return True
    return False


@dataclass(frozen=True, eq=False)
class Site:
    """One silo. ``terms`` are what it has agreed to; a message with others is refused.

    ``learner`` is the personal model, which stays; ``settings`` describe it.
    """

    silo: "SiloName"
    private: "Examples"
    own_test: "Examples"
    pooled_test: "Examples"
    public: PublicSet
    learner: Learner
    settings: LearnerSettings
    privacy: "PrivacySettings"
    transfer: "TransferSettings"
    schema: "Schema"
    terms: "Terms"
    groups: "Groups | None" = None
    """Which private records belong together: a split of them keeps each group on one side."""
    test_groups: "Groups | None" = None
    """The same of a real silo's test records."""
    findings: tuple["Finding", ...] = ()
    """Findings on a real silo's records, without any value of a cell."""
    set_aside: float = 0.0
    """Part of the budget of ``privacy`` that a drawn public set and scores spend."""
    leaves_out: bool = False
    """Whether it has a list of patients who have opted out."""
    result: Mapping[str, object] = field(default_factory=dict)
    """Facts for the log on a query for the records, see ``result_of``."""

    @cached_property
    def safeguard(self) -> Safeguard | None:
        """Decides the consensus's weight here; None where ``pseudo-weight`` is a number."""
        if not self.settings.guarded or self.schema.outcome.number:
            return None
        network, held_out = isinstance(self.learner, Resumable), self.settings.warm_up_rounds == AUTO
        if network and not held_out:
            self._say_in_full("warm-up-rounds is a number, and no record was held out")
            return None
        kind = NetworkSafeguard if network else Safeguard
        return kind(self.private, len(self.schema.classes), self.settings.seed, self.silo, self.groups)

    @cached_property
    def soft_safeguard(self) -> SoftSafeguard | None:
        """Decides the weight of others' probabilities or values."""
        if not self.settings.guarded:
            return None
        if isinstance(self.learner, Resumable):
            self._say_in_full("a network that learns probabilities trains on from round to round")
            return None
        return SoftSafeguard(self.private, len(self.schema.classes), self.settings.seed, self.silo, self.groups)

    def _say_in_full(self, why: str) -> None:
        logger.info("Silo %s: %s, so pseudo-weight = 'auto' counts what others say in full", self.silo, why)

    @cached_property
    def labeler(self) -> "Labeler":
        """The labeler whose labels leave under a protection; made when first asked for. Raises ConfigError."""
        if self.settings.name == AUTO and (choice := self.privacy.chosen.of_auto):
            logger.info("Silo %s: %s", self.silo, choice)
        return self.labeler_on(self.public)

    def labeler_on(self, public: PublicSet) -> "Labeler":
        """A new labeler of these public examples. Raises ConfigError."""
        self.privacy.check_unit(grouped=self.groups is not None)
        privacy = self.privacy.after(self.set_aside)
        return labelers.labeler_for(labelers.Start(privacy, self.settings, self.silo, self.schema, public, self.units))

    @property
    def units(self) -> int:
        """Number of units that a guarantee protects: private records, or patients where a group column names them."""
        # A silo without any answers like one with one.
        return max(1, num_units(self.private.size, self.groups))

    def students(self, votes: int) -> "Transfer":
        """The untrained students whose ``votes`` leave. Raises ConfigError or DataError."""
        return labelers.transfer_for(
            self.transfer,
            self.privacy.after(self.set_aside),
            self.settings,
            self.silo,
            self.schema,
            self.public,
            self.private.X,
            votes,
            num_units=self.units,
        )
