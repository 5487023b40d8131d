"""What the coordinator asks of every algorithm."""

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fedct_flwr.config import RunConfig
from fedct_flwr.config.method import Method
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.kinds.base import Kind
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.types import SiloName

if TYPE_CHECKING:
    # An algorithm as an object waits for neither.
    from flwr.serverapp import Grid

    from fedct_flwr.coordinator.study import Study


@dataclass(frozen=True)
class Algorithm(Method):
    """An algorithm that a run config can name: what silos answer, its checks and its rounds."""

    kind: ClassVar[Kind | None]
    """What silos answer where there are classes; None where they share weights."""
    leaves: ClassVar[str]
    """What leaves a silo where there are classes, in plain words."""

    @classmethod
    def asks_students(cls) -> bool:
        """Whether silos' students answer, which are taught once."""
        return cls.kind is not None and not cls.kind.own_model

    @abstractmethod
    def check(self, config: RunConfig, dataset: FederatedDataset | None) -> None:
        """Raise ConfigError for settings that the algorithm cannot work with, before anything runs.

        Without a ``dataset``, silos are real and choose their learners themselves.
        """

    def model_path(self, folder: RunFolder, silo: SiloName, suffix: str) -> Path:
        """Where a run in simulation keeps the model that a silo ends with: its own, if silos do not share one."""
        return folder.silo_model(silo, suffix)

    @abstractmethod
    def run(self, study: "Study", grid: "Grid") -> dict[str, Any]:
        """Run all rounds and return what ``result.json`` tells. Raises RunError."""

    def notes(self, config: RunConfig, dataset: FederatedDataset) -> list[str]:
        """What the size of a simulation's data lets expect, a sentence each."""
        return []

    def cautions(self, config: RunConfig, num_silos: int) -> list[str]:
        """What is allowed and hardly meant of noise that protects silos, a sentence each."""
        if not self.protects_silos:
            return []
        from fedct_flwr.privacy.budget import PrivacyUnit, weak_delta

        weakness = weak_delta(config.delta, num_silos, PrivacyUnit.SILO)
        return [weakness] if weakness else []
