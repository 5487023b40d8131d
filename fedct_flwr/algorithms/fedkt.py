"""Silos are asked once: PATE, where each is a teacher, and FedKT, where each one's students vote.

Papernot et al., "Semi-supervised knowledge transfer for deep learning from private training data", arXiv:1610.05755,
and with noise "Scalable private learning with PATE", arXiv:1802.08908. Li, He, Song, "Practical one-shot federated
learning for cross-silo setting", IJCAI 2021, arXiv:2010.01017, Algorithm 1.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from pydantic import Field

from fedct_flwr import coordinator, labelers, privacy
from fedct_flwr.algorithms.fedct import Summable
from fedct_flwr.config.privacy import IN_SHARES, MAX_PARTITIONS, MAX_TEACHERS, NoisePlan, TallyNoise, TransferSettings
from fedct_flwr.config.run import RunConfig, of_run
from fedct_flwr.config.settings import MAX_INT, Needs, Uses, uses
from fedct_flwr.consensus.counting import Consensus, Decide, consistent, counting, plurality
from fedct_flwr.coordinator.algorithm import ASKING, IN_SUMS
from fedct_flwr.types import ConfigError
from fedct_flwr.wire.kinds import COUNTS, Kind, can_count

if TYPE_CHECKING:
    from fedct_flwr.coordinator.cotraining import CoTraining
    from fedct_flwr.datasets.federated import FederatedDataset
    from fedct_flwr.learners import Learner
    from fedct_flwr.privacy.budget import Spending
    from fedct_flwr.runs.run_folder import Checkpoint

_NOISE: Final = Needs("privacy-level = 'L1' or 'L2'", lambda config: config.method.privacy_level != "L0")
_AT_SILOS: Final = Needs("privacy-level = 'L2'", lambda config: config.method.protects_records)
# At L2 the silos' ledgers hold it as their budget, whatever the noise.
_BUDGET: Final = Needs(
    "privacy-level = 'L2', or 'L1' and no gamma",
    lambda config: config.method.protects_records or (config.method.protects_silos and not config.method.gamma),
)


@dataclass(frozen=True)
class FedKT(Summable):
    """Votes of each silo's students, once (Li et al., arXiv:2010.01017)."""

    name: ClassVar[str] = "fedkt"
    title: ClassVar[str] = "FedKT"
    kind: ClassVar[Kind] = COUNTS
    asks_once: ClassVar[bool] = True
    leaves_student: ClassVar[bool] = True
    used: ClassVar[Uses] = (
        ASKING
        | IN_SUMS
        | uses("mechanism", "gamma", "delta", needs=_NOISE)
        | uses("epsilon", needs=_BUDGET)
        | uses("lessons", needs=_AT_SILOS)
    )

    privacy_level: Literal["L0", "L1", "L2"] = "L0"
    """No noise, noise on all silos' votes that protects silos (L1), or at each silo for its records (L2)."""
    partitions: Annotated[int, Field(ge=0, le=MAX_PARTITIONS)] = 0
    """Students of each silo, the paper's s; 0: the paper's, which is 2 at L0 and else 1."""
    teachers: Annotated[int, Field(ge=0, le=MAX_TEACHERS)] = 0
    """Models that vote for each student, the paper's t; 0: the paper's 5, or 25 at L2, but no more than the smallest
    silo has records for."""
    mechanism: TallyNoise = ""
    """Noise on votes; empty: laplace, as in the paper, and gaussian where silos add it in secure sums."""
    gamma: Annotated[float, Field(ge=0)] = 0.0
    """The noise has the scale 1 / gamma in votes; 0: what epsilon and delta call for."""
    lessons: Annotated[int, Field(ge=0, le=MAX_INT)] = 0
    """At L2: public examples that teachers label under noise, which alone costs privacy, and that students learn from
    before they are asked about query-size of them; 0: those that students are asked about."""
    epsilon: float = of_run("epsilon")
    """In total: for each silo at L1, for each record at L2."""
    delta: float = of_run("delta")

    @property
    def votes(self) -> int:
        return self.partitions or (2 if self.privacy_level == "L0" else 1)

    @property
    def noise(self) -> NoisePlan | None:
        if self.privacy_level != "L1":
            return None
        # Laplace noise does not come in shares that are easy to draw.
        usual = IN_SHARES[0] if self.in_sums else "laplace"
        return NoisePlan(self.mechanism or usual, self.epsilon, self.delta, self.gamma)

    @property
    def protects_records(self) -> bool:
        return self.privacy_level == "L2"

    @property
    def pays_by_label(self) -> bool:
        return self.protects_silos or (self.protects_records and not self.lessons)

    def wrong(self, config: Any) -> str:
        if self.privacy_level == "L0" and (self.gamma or self.mechanism):
            return "fedkt adds no noise at privacy-level = 'L0': set 'L1' or 'L2', or leave gamma and mechanism out"
        if not self.protects_records and self.lessons:
            return (
                f"fedkt's students learn from all public examples at privacy-level = {self.privacy_level!r}: set 'L2', "
                "or leave lessons out"
            )
        return super().wrong(config)

    def check_real(self) -> None:
        """Raise ConfigError for noise at silos, which they decide for themselves."""
        if self.protects_records:
            raise ConfigError(
                "privacy-level = 'L2' has no effect on real silos, which add noise if they promise something under "
                "[privacy] in silo.toml: set it to 'L0', or to 'L1' for noise at the coordinator"
            )

    def check_public(self, num_public: int) -> None:
        """Raise ConfigError for more lessons than public examples."""
        if self.lessons > num_public:
            raise ConfigError(f"lessons is {self.lessons} but the public set has {num_public} examples")

    def transfer_settings(self, fewest_units: int) -> TransferSettings:
        raw = {"teachers": self.teachers, "partitions": self.votes, "gamma": self.gamma, "lessons": self.lessons}
        noise = {"noise": self.mechanism} if self.mechanism else {}
        wanted = TransferSettings.read({**raw, **noise}, "the run config")
        fitting = wanted.fitting_teachers(self.votes, fewest_units, noisy=self.protects_records)
        return wanted.model_copy(update={"teachers": fitting})

    def rounds(self, silos: "CoTraining", rule: Consensus, begun: "Checkpoint", last: int) -> Iterator["Checkpoint"]:
        """Algorithm 1 of FedKT (arXiv:2010.01017), with votes in the place of students; comments have its lines.

        The paper's parties send their students, which the server asks about the public set. Here silos ask them: the
        same labels, fewer bytes. The noise of L1 is in ``rule``, whose ``decide`` adds it (``label_rounds.py``).
        """
        if begun.round:
            return
        # Lines 1 to 12, at each silo (labelers/students.py): t teachers label the public set for each of s students, at
        # L2 under noise (9, 10), and each student learns these labels. Lines 15 and 16: the students label it.
        heard = silos.train_and_label(1, begun.targets, begun.state)
        # Lines 14 to 22: count silos whose s students agree, add noise at L1 (20, 21), take the most frequent class.
        labels, state = heard.decided(rule, begun.targets, begun.state)
        # Line 23: the final model learns the labels (coordinator/label_rounds.py).
        yield silos.note(heard, labels, state)

    def consensus(self, num_classes: int, decide: Decide = plurality) -> Consensus:
        """Silos whose students all agree, counted by their students (Li et al., arXiv:2010.01017, Alg. 1)."""
        return consistent(num_classes, self.votes, decide)

    def cautions(self, config: RunConfig, num_silos: int) -> list[str]:
        """And partitions that cost more than they are worth."""
        found = super().cautions(config, num_silos)
        if self.protects_silos:
            dear = privacy.dear_partitions(self.privacy_level, self.votes, self.gamma)
            found += [dear] if dear else []
        return found

    def spent_at_silos(self, config: RunConfig, dataset: "FederatedDataset | None") -> "Spending | None":
        """Cost of L2 for each record of a simulated silo; real silos keep their own ledgers."""
        if dataset is None or not self.protects_records:
            return None
        num_public = len(dataset.public)
        asked = config.asked_about(num_public)
        settings = self.transfer_settings(dataset.fewest_units)
        mechanism = labelers.teachers_noise(settings, config.privacy_settings(asked), num_public, self.votes)
        spent = privacy.spent_by(mechanism, settings.lessons_for(asked, num_public), self.delta, partitions=self.votes)
        coordinator.log_cost("Votes protect each record of a silo", spent)
        return spent

    def check_silos(self, config: RunConfig, dataset: "FederatedDataset | None", learners: list["Learner"]) -> None:
        """Raise ConfigError for students that cannot be taught, or whose votes cannot be sent.

        The smallest silo stands for all: what teachers ask of records is that there are enough.
        """
        if config.protection != "none":
            raise ConfigError(
                f"algorithm {self.name!r} protects records by privacy-level = 'L2', and not by protection = "
                f"{config.protection!r}: leave that out"
            )
        if dataset is None:
            return
        if not can_count(len(dataset.schema.classes), self.votes):
            raise ConfigError(f"{self.votes} votes among {len(dataset.schema.classes)} classes: lower partitions")
        if self.protects_records:
            dataset.check_protected()
        fewest = min(dataset.silos, key=lambda silo: silo.units)
        transfer = self.transfer_settings(fewest.units)
        if self.protects_records:
            coordinator.check_delta(transfer.noise, self.delta)
        try:
            labelers.check_records(fewest.units, self.votes, max(1, transfer.teachers))
        except ConfigError as error:
            raise ConfigError(f"silo {fewest.name!r}: {error}") from None
        promised = config.privacy_settings(config.asked_about(len(dataset.public)))
        learner = config.learner_settings(0, len(dataset.silos))
        given = transfer, promised, learner, fewest.name, dataset.schema, dataset.public, fewest.private.X, self.votes
        made = labelers.transfer_for(*given, num_units=fewest.units)
        if self.gamma and promised.enabled:
            spent = privacy.epsilon_in_time(made.price(promised.planned_queries(len(dataset.public))), self.delta).upper
            if spent > self.epsilon:
                raise ConfigError(
                    f"gamma = {self.gamma:g} costs epsilon {spent:.4g} at delta {self.delta:g}, and epsilon is "
                    f"{self.epsilon:g}: raise epsilon, or set gamma to 0 for noise that keeps it"
                )


_GAUSSIAN = "gaussian"


@dataclass(frozen=True)
class PATE(Summable):
    """Every silo is a teacher, once (Papernot et al., arXiv:1610.05755)."""

    name: ClassVar[str] = "pate"
    title: ClassVar[str] = "PATE"
    asks_once: ClassVar[bool] = True
    used: ClassVar[Uses] = ASKING | IN_SUMS | uses("report-scores", "protection", "warm-up-rounds")

    def consensus(self, num_classes: int, decide: Decide = plurality) -> Consensus:
        """Every silo is a teacher, the plurality wins (Papernot et al., arXiv:1610.05755, §2.1)."""
        return counting(num_classes, decide)


@dataclass(frozen=True)
class PrivatePATE(PATE):
    """PATE with noise on all silos' votes: the coordinator's, or the silos' (Papernot et al., arXiv:1802.08908)."""

    name: ClassVar[str] = "dp-pate"
    title: ClassVar[str] = "DP-PATE"
    used: ClassVar[Uses] = (
        PATE.used
        # A gamma says how much noise there is, and epsilon follows.
        | uses("epsilon", needs=Needs("gamma = 0", lambda config: not config.method.gamma))
    )

    mechanism: TallyNoise = ""
    """Noise on votes: LNMax of the first paper, GNMax of the second; empty: gaussian."""
    gamma: Annotated[float, Field(ge=0)] = 0.0
    """The noise has the scale 1 / gamma in votes; 0: what epsilon and delta call for."""
    epsilon: float = of_run("epsilon")
    """In total, for each silo."""
    delta: float = of_run("delta")

    @property
    def noise(self) -> NoisePlan:
        """The noise on votes before a label is decided: LNMax (arXiv:1610.05755) or GNMax (arXiv:1802.08908, §4)."""
        return NoisePlan(self.mechanism or _GAUSSIAN, self.epsilon, self.delta, self.gamma)
