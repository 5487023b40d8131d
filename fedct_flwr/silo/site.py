"""Everything one silo works with: data, its copy of the public set, learner, labeler, and what it keeps between rounds.

Its files never leave the silo.
"""

import contextlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Final, Protocol

from flwr.app import ConfigRecord, RecordDict

from fedct_flwr import datasets
from fedct_flwr.config.learner import AUTO, LearnerSettings
from fedct_flwr.config.privacy import PrivacySettings, TransferSettings
from fedct_flwr.config.run import RunConfig
from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.datasets.federated import PublicSet, SiloData, check_protected, num_units, split_silo
from fedct_flwr.datasets.inspection.finding import Finding, Severity, refuse
from fedct_flwr.datasets.inspections import inspect_records
from fedct_flwr.datasets.query import result_of
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.datasets.study_folder import StudyFolder, read_each, read_grouped, table_of
from fedct_flwr.files import write_atomically
from fedct_flwr.labelers.labeler import Labeler, Start, labeler_for
from fedct_flwr.labelers.students import Transfer, transfer_for
from fedct_flwr.learners.base import Learner, Resumable, Saveable
from fedct_flwr.learners.build import build_learner, learner_for
from fedct_flwr.learners.catalog import check_allowed
from fedct_flwr.learners.safeguard import NetworkSafeguard, Safeguard, SoftSafeguard
from fedct_flwr.seeding import generator
from fedct_flwr.text.printable import logger
from fedct_flwr.types import ConfigError, DataError, Examples, Groups, SiloName
from fedct_flwr.wire.content import Terms

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

    silo: SiloName
    private: Examples
    own_test: Examples
    pooled_test: Examples
    public: PublicSet
    learner: Learner
    settings: LearnerSettings
    privacy: PrivacySettings
    transfer: TransferSettings
    schema: Schema
    terms: Terms
    groups: Groups | None = None
    """Which private records belong together: a split of them keeps each group on one side."""
    findings: tuple[Finding, ...] = ()
    """Findings on a real silo's records, without any value of a cell."""
    draw_epsilon: float = 0.0
    """Part of the budget of ``privacy`` that a drawn public set spends."""
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
    def labeler(self) -> Labeler:
        """The labeler whose labels leave under a protection; made when first asked for. Raises ConfigError."""
        if self.settings.name == AUTO and (choice := self.privacy.chosen.of_auto):
            logger.info("Silo %s: %s", self.silo, choice)
        return self.labeler_on(self.public)

    def labeler_on(self, public: PublicSet) -> Labeler:
        """A new labeler of these public examples. Raises ConfigError."""
        self.privacy.check_unit(grouped=self.groups is not None)
        privacy = self.privacy.after(self.draw_epsilon)
        return labeler_for(Start(privacy, self.settings, self.silo, self.schema, public, self.units))

    @property
    def units(self) -> int:
        """Number of units that a guarantee protects: private records, or patients where a group column names them."""
        # A silo without any answers like one with one.
        return max(1, num_units(self.private.size, self.groups))

    def students(self, votes: int) -> Transfer:
        """The untrained students whose ``votes`` leave. Raises ConfigError or DataError."""
        return transfer_for(
            self.transfer,
            self.privacy.after(self.draw_epsilon),
            self.settings,
            self.silo,
            self.schema,
            self.public,
            self.private.X,
            votes,
            num_units=self.units,
        )


# A process that serves many rounds reads the data and fits the preprocessing once.
SITES_KEPT: Final = 128
"""Simulated silos that a process holds at a time."""


@lru_cache(maxsize=SITES_KEPT)
def simulated_site(config: RunConfig, partition_id: int) -> Site:
    """The silo at this position of the run config's data set. Raises ConfigError or DataError."""
    dataset, data = datasets.load(config), simulated_silo(config, partition_id)
    return Site(
        data.name,
        data.private,
        data.test,
        dataset.test,
        dataset.public,
        build_learner(config, dataset, partition_id, data.private.X),
        config.learner_settings(partition_id, len(dataset.silos)),
        config.privacy_settings(config.asked_about(len(dataset.public))),
        config.method.transfer_settings(dataset.fewest_units),
        dataset.schema,
        dataset.schema.terms(config.study, dataset.public),
        groups=data.groups,
    )


def simulated_silo(config: RunConfig, partition_id: int) -> SiloData:
    """The records of the silo at this position. Raises ConfigError if the data set has no such silo, or DataError."""
    silos = datasets.load(config).silos
    if partition_id >= len(silos):
        raise ConfigError(f"there are {len(silos)} silos but this is node {partition_id + 1}: lower num-supernodes")
    return silos[partition_id]


def real_site(config: SiloConfig, study: StudyFolder) -> Site:
    """The silo that ``silo.toml`` describes, in this study. Raises ConfigError or DataError."""
    check_allowed(config.learner.name, config.learner.packages)
    result: Mapping[str, object] = {}
    try:
        table = table_of(config.data, study)
        result = result_of(config.data, table)
        found = inspect_records(config.data, study, config.silo, table)
        refuse(found.findings, {"": study.config.public, config.silo: config.data.source})
        own = _own_records(config, study, read_each if config.always_answers else partial(read_grouped, table=table))
        if config.promises and table is not None and own.private.size < table.num_rows:
            raise DataError(f"{config.data.source} has records that are not a line of text each")
        del table
        if own.private.size == 0:
            raise DataError(f"{config.data.source} leaves no records to train on: lower test-fraction")
        if config.promises:
            check_protected(own.groups, config.silo)
        findings = found.suspicious
    except DataError as error:
        if not config.always_answers:
            raise
        # No record may decide whether there is an answer.
        why = f"{error}; records that cannot be read are left out"
        own = _own_records(config, study, read_each)
        findings = [Finding("unreadable", Severity.SAID, why, "", silo=config.silo)]
    return Site(
        config.silo,
        own.private,
        own.test,
        study.test,
        study.public,
        learner_for(config.learner, config.silo, study.schema, study.public, own.private.X),
        config.learner,
        config.privacy,
        config.transfer,
        study.schema,
        study.terms,
        groups=own.groups,
        findings=tuple(findings),
        draw_epsilon=study.config.draw_epsilon,
        result=result,
    )


def _own_records(
    config: SiloConfig, study: StudyFolder, read: Callable[..., tuple[Examples, Groups | None]]
) -> SiloData:
    """The silo's records to train on and to test with, as ``read`` reads them."""
    data = config.data
    records, groups = read(data, study)
    nothing = Examples(records.X[:0], records.y[:0])
    if data.test_file:
        return SiloData(config.silo, records, read(data, study, data.test_file)[0], groups)
    rng = generator(config.learner.seed, "test", config.silo)
    if data.test_fraction:
        return split_silo(config.silo, records, groups, data.test_fraction, rng)
    return SiloData(config.silo, records, nothing, groups)
