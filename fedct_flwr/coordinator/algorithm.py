"""The coordinator's interface of an algorithm."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeAlias, cast

from pydantic import Field

from fedct_flwr import privacy
from fedct_flwr.config.method import Method
from fedct_flwr.config.settings import MAX_INT, Needs, Uses, uses
from fedct_flwr.consensus.counting import Consensus, Decide, plurality
from fedct_flwr.wire.kinds import Kind

if TYPE_CHECKING:
    from flwr.serverapp import Grid

    from fedct_flwr.config.run import RunConfig
    from fedct_flwr.coordinator.cotraining import CoTraining
    from fedct_flwr.coordinator.study import Study
    from fedct_flwr.datasets.federated import FederatedDataset
    from fedct_flwr.privacy.budget import Spending
    from fedct_flwr.runs.run_folder import Checkpoint, RunFolder
    from fedct_flwr.types import SiloName


@dataclass(frozen=True)
class Algorithm(Method):
    """An algorithm that a run config can name: its settings, checks and rounds, and the kind of answer it asks for."""

    kind: ClassVar[Kind | None]
    """Kind of the silos' answers in classification; None where they share weights."""
    leaves: ClassVar[str]
    """Data that leave a silo, in plain words, where silos share weights."""

    @classmethod
    def asks_students(cls) -> bool:
        """Whether silos' students answer, which are taught once."""
        return cls.kind is not None and not cls.kind.own_model

    @abstractmethod
    def check(self, config: "RunConfig", dataset: "FederatedDataset | None") -> None:
        """Raise ConfigError for settings that the algorithm cannot work with, before anything runs.

        Without a ``dataset``, silos are real and choose their learners themselves.
        """

    def model_path(self, folder: "RunFolder", silo: "SiloName", suffix: str) -> Path:
        """Path of the model that a silo ends with in simulation: its own, if silos do not share one."""
        return folder.silo_model(silo, suffix)

    @abstractmethod
    def run(self, study: "Study", grid: "Grid") -> dict[str, Any]:
        """Run all rounds and return what ``result.json`` tells. Raises RunError."""

    def notes(self, config: "RunConfig", dataset: "FederatedDataset") -> list[str]:
        """Expectations that follow from the size of a simulation's data, a sentence each."""
        return []

    def cautions(self, config: "RunConfig", num_silos: int) -> list[str]:
        """Settings of the silos' noise that are allowed but probably mistakes, a sentence each."""
        found = privacy.weak_delta(config.delta, num_silos, privacy.PrivacyUnit.SILO) if self.protects_silos else ""
        return [found] if found else []


class VoteSharing(Algorithm):
    """An algorithm in which silos share votes: what ``run_label_rounds`` needs of it."""

    kind: ClassVar[Kind]

    @abstractmethod
    def consensus(self, num_classes: int, decide: Decide = plurality) -> Consensus:
        """Rule from votes to labels; 0 classes: a quantity.

        ``decide`` adds the noise of an algorithm that has any. Such a rule must decide by it: without, epsilon would be
        charged and no noise added.
        """

    @abstractmethod
    def rounds(self, silos: "CoTraining", rule: Consensus, begun: "Checkpoint", last: int) -> Iterator["Checkpoint"]:
        """Ask the silos and decide, from the round after ``begun`` to ``last``; yields after each round."""

    @property
    def others_weight(self) -> float:
        """Weight of other silos' probabilities, where silos share them; 0: before their own records."""
        return 0.5

    def spent_at_silos(self, config: "RunConfig", dataset: "FederatedDataset | None") -> "Spending | None":
        """Cost for each record of the silos' own noise on their students' votes, if they add any."""
        return None


ASKING: Final[Uses] = uses("query-size", "student", "student-params")
"""The settings of every algorithm in which silos share votes."""

IN_ROUNDS: Final[Uses] = ASKING | uses("report-scores", "stop-at-fixed-point", "warm-up-rounds")
"""And of those in which silos' own models learn from round to round."""

CO_TRAINING: Final[Uses] = IN_ROUNDS | uses("pseudo-weight", "protection")
"""And of those in which they learn labels."""

_SECURE: Final = Needs("secure = true", lambda config: config.method.in_sums)
IN_SUMS: Final[Uses] = uses("min-summands", "may-collude", needs=_SECURE)
"""Conditions of the settings of sums."""

SiloCount: TypeAlias = Annotated[int, Field(ge=0, le=MAX_INT)]


def find_algorithm(config: "RunConfig") -> Algorithm:
    """The algorithm of a run config, with its settings."""
    return cast(Algorithm, config.method)
