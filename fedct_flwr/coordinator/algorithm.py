"""The coordinator's interface of an algorithm, and the base of all algorithms in which silos share votes."""

from abc import abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeAlias, cast

from pydantic import Field

from fedct_flwr import privacy
from fedct_flwr.config.method import Method
from fedct_flwr.config.privacy import IN_SHARES
from fedct_flwr.config.settings import MAX_INT, Needs, Uses, either, uses
from fedct_flwr.consensus.counting import Consensus, Decide, plurality
from fedct_flwr.types import FEWEST_SILOS
from fedct_flwr.wire.kinds import HARD, Kind

if TYPE_CHECKING:
    from flwr.serverapp import Grid

    from fedct_flwr.config.run import RunConfig
    from fedct_flwr.coordinator.questions import Learning
    from fedct_flwr.coordinator.study import Study
    from fedct_flwr.datasets.federated import FederatedDataset
    from fedct_flwr.learners.base import Learner
    from fedct_flwr.privacy.budget import Spending
    from fedct_flwr.runs.run_folder import RunFolder
    from fedct_flwr.types import SiloName


@dataclass(frozen=True)
class Algorithm(Method):
    """An algorithm that a run config can name: what silos answer, its checks and its rounds."""

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
        if not self.protects_silos:
            return []

        weakness = privacy.weak_delta(config.delta, num_silos, privacy.PrivacyUnit.SILO)
        return [weakness] if weakness else []


ASKING: Final[Uses] = uses("query-size", "student", "student-params")
"""The settings of every algorithm in which silos share votes."""

IN_ROUNDS: Final[Uses] = ASKING | uses("report-scores", "stop-at-fixed-point", "warm-up-rounds")
"""And of those in which silos' own models learn from round to round."""

CO_TRAINING: Final[Uses] = IN_ROUNDS | uses("pseudo-weight", "protection")
"""And of those in which they learn labels."""


@dataclass(frozen=True)
class LabelSharing(Algorithm):
    """An algorithm states its kind, its consensus, and what else it needs, as class variables and by methods."""

    kind: ClassVar[Kind] = HARD
    used: ClassVar[Uses] = CO_TRAINING
    predicts_quantities: ClassVar[bool] = False

    @abstractmethod
    def consensus(self, num_classes: int, decide: Decide = plurality) -> Consensus:
        """Rule from votes to labels; 0 classes: a quantity. ``decide`` decides on counts under noise."""

    @property
    def learning(self) -> "Learning":
        """Training with other silos' probabilities, where silos share them."""
        from fedct_flwr.coordinator.questions import Learning

        return Learning()

    def check(self, config: "RunConfig", dataset: "FederatedDataset | None") -> None:
        """Raise ConfigError for a learner that cannot be made, or for noise that cannot keep the promise."""
        from fedct_flwr.coordinator import label_rounds

        learners = label_rounds.learners_of(config, dataset)
        label_rounds.check_noise(self)
        self.check_silos(config, dataset, learners)

    def check_silos(self, config: "RunConfig", dataset: "FederatedDataset | None", learners: list["Learner"]) -> None:
        """Raise ConfigError for learners that the kind of answer is not for, or silos that a protection is not for.

        The smallest silo stands for all: what a protection asks of records is that there are enough.
        """
        from fedct_flwr.coordinator import label_rounds

        label_rounds.check_learners(self.kind, learners)
        label_rounds.check_protection(config, dataset)

    def spent_at_silos(self, config: "RunConfig", dataset: "FederatedDataset | None") -> "Spending | None":
        """Cost for each record of the silos' own noise on their students' votes, if they add any."""
        return None

    def run(self, study: "Study", grid: "Grid") -> dict[str, Any]:
        """Co-train, write the final labels or values, and return what ``result.json`` tells. Raises RunError."""
        from fedct_flwr.coordinator import label_rounds

        return label_rounds.run(self, study, grid)


_SECURE: Final = Needs("secure = true", lambda config: config.method.in_sums)
IN_SUMS: Final[Uses] = uses("min-summands", "may-collude", needs=_SECURE)
"""Conditions of the settings of sums."""

Silos: TypeAlias = Annotated[int, Field(ge=0, le=MAX_INT)]


@dataclass(frozen=True)
class Summable(LabelSharing):
    """An algorithm whose consensus is made of the sum of all answers, which may be all that the coordinator sees."""

    secure: bool = field(default=False, kw_only=True)
    """Let silos add their answers in secure sums: the coordinator sees no single silo's, and gets the same labels."""
    min_summands: Silos = field(default=0, kw_only=True)
    """For secure sums: fewest silos whose sum is opened; 0: 3, or may-collude + 2; with noise in shares, all silos."""
    may_collude: Silos = field(default=1, kw_only=True)
    """For secure sums: silos that may collude with the coordinator, and learn no other silo's answers."""

    @property
    def in_sums(self) -> bool:
        """Whether silos add their answers, by ``secure``."""
        return self.secure

    def fewest_summands(self, num_silos: int) -> int:
        """Fewest summands that hide each silo's answers from colluders; all silos where noise comes in shares."""
        enough = max(FEWEST_SILOS, self.may_collude + 2)
        return self.min_summands or (max(enough, num_silos) if self.noise_in_shares else enough)

    def wrong(self, config: Any) -> str:
        """Noise of which no silo can add a share."""
        if not self.noise_in_shares or self.noise is None or self.noise.mechanism in IN_SHARES:
            return ""
        return (
            f"{self.noise.mechanism} noise does not come in shares that silos can add: set mechanism to "
            f"{either(IN_SHARES)}, or secure to false for noise at the coordinator"
        )


def find_algorithm(config: "RunConfig") -> Algorithm:
    """The algorithm of a run config, with its settings."""
    return cast(Algorithm, config.method)
