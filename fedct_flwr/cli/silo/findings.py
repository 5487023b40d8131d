"""What a check of a silo looks at; its findings tell nothing of the records.

Formal guarantee: a finding holds words of this program, names and numbers of the study (which are public), settings of
``silo.toml`` but neither its mapping nor where the records lie, counts of records as ``rounded`` has them, and the
number of a record in which a column is not what the study says, without its value. The
text of an error, which may quote a file, goes into ``details``, which is shown only to who asks for it on the spot.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from fedct_flwr.cli import findings
from fedct_flwr.cli.findings import Unread
from fedct_flwr.config import SiloConfig
from fedct_flwr.datasets.inspection.inspect import Inspection
from fedct_flwr.datasets.inspections import inspect_records
from fedct_flwr.datasets.study_folder import StudyFolder, read_records, read_study
from fedct_flwr.types import Examples, FedctError


class Silo:
    """The silo's folder, and what is in it, each read once. What cannot be read raises Unread."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.folder = file.parent

    @cached_property
    def config(self) -> SiloConfig:
        """The settings."""
        with _unread("silo.toml"):
            return SiloConfig.read_toml(self.file)

    @cached_property
    def study(self) -> StudyFolder:
        """The study."""
        config = self.config
        with _unread("the study"):
            return read_study(config.study)

    @cached_property
    def records(self) -> Examples:
        """The silo's records."""
        config, study = self.config, self.study
        with _unread("the records"):
            return read_records(config.data, study)

    @cached_property
    def inspection(self) -> Inspection:
        """What the inspection finds of the silo's records."""
        config, study = self.config, self.study
        with _unread("the records"):
            return inspect_records(config.data, study, config.silo)

    def shown(self, path: Path) -> str:
        """A path for others to read: from the silo's folder on, and of what lies elsewhere only the last name."""
        return str(path.relative_to(self.folder)) if path.is_relative_to(self.folder) else f"…/{path.name}"


Probe: TypeAlias = findings.Probe[Silo]


@contextmanager
def _unread(what: str) -> Iterator[None]:
    try:
        yield
    except (FedctError, OSError):
        raise Unread(what) from None
