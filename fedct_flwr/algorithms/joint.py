"""FedCT with the joint labeler: silos train one labeler by noisy secure sums, and all learn its labels.

The labeler: ``labelers/joint_linear.py``; its rounds: ``coordinator/joint.py``. Coordinator and silos agree on a plan
before the first step. In a simulation it follows from the run's settings. Real silos have approved it as ``[joint]`` in
``study.toml``, so a run has no say in it, and no silo tells how many records it has.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from fedct_flwr import coordinator, labelers, learners, privacy
from fedct_flwr.config.run import of_run
from fedct_flwr.config.settings import Uses, uses
from fedct_flwr.coordinator.algorithm import Algorithm, SiloCount
from fedct_flwr.wire.content import STEPS, Joint
from fedct_flwr.wire.kinds import Kind
from fedct_flwr.wire.sums import GRADIENTS

if TYPE_CHECKING:
    # An algorithm as an object waits for none of these, nor for the extra privacy.
    from flwr.serverapp import Grid

    from fedct_flwr.config.run import RunConfig
    from fedct_flwr.coordinator.study import Study
    from fedct_flwr.datasets.federated import FederatedDataset


@dataclass(frozen=True)
class JointLabeler(Algorithm):
    """The labels of one labeler that silos train together by noisy secure sums.

    ``epsilon`` and ``delta`` hold for each record, in total, against everybody, if no more than ``may_collude`` silos
    collude.
    """

    name: ClassVar[str] = "fedct-joint"
    title: ClassVar[str] = "FedCT, joint"
    kind: ClassVar[Kind] = GRADIENTS
    fixed_rounds: ClassVar[int] = STEPS + 1
    trains_together: ClassVar[bool] = True
    used: ClassVar[Uses] = uses("student", "student-params", "report-scores", "pseudo-weight", "warm-up-rounds")

    epsilon: float = of_run("epsilon")
    """In total, for each record."""
    delta: float = of_run("delta")
    joint_labeler: Literal["linear", "additive"] = "linear"
    """A linear model on features of the public set, or one that adds up a curve for each column."""
    min_summands: SiloCount = field(default=0, kw_only=True)
    """Fewest silos whose sum is opened; 0: all."""
    may_collude: SiloCount = field(default=1, kw_only=True)
    """Silos that may collude with the coordinator, and learn no other silo's gradient."""

    def fewest_summands(self, num_silos: int) -> int:
        """All silos, whose noise adds up, unless fewer are named."""
        return self.min_summands or num_silos

    def plan(self, config: "RunConfig", dataset: "FederatedDataset") -> Joint:
        """The plan of a simulation, without weights. Raises ConfigError."""
        silos = [silo for silo in dataset.silos if not config.roster or silo.name in config.roster]
        fewest = self.fewest_summands(len(config.roster or dataset.silos))
        return Joint(
            records=sum(silo.units for silo in silos),
            steps=STEPS,
            epsilon=self.epsilon,
            delta=self.delta,
            honest=privacy.surely_honest(fewest, self.may_collude),
            columns=0 if self.joint_labeler == "linear" else len(dataset.schema.without_texts),
            seed=config.seed,
        )

    @property
    def in_sums(self) -> bool:
        return True

    @property
    def facts(self) -> dict[str, Any]:
        return {"joint_labeler": self.joint_labeler}

    def wrong(self, config: Any) -> str:
        if config.protection != "none":
            return (
                f"algorithm {self.name!r} protects records by its own noise, and not by protection = "
                f"{config.protection!r}: leave that out"
            )
        return ""

    def check(self, config: "RunConfig", dataset: "FederatedDataset | None") -> None:
        """Raise ConfigError for a budget that no noise keeps, or silos that are too few to add it.

        Real silos' budget is that of their study, which their coordinator and each of them check.
        """
        labelers.check_extra("privacy", f"algorithm {self.name!r}")
        if dataset is None:
            return
        learners.named_learners(config, dataset)
        dataset.check_protected()
        # Raises ConfigError where no noise keeps the budget.
        _ = labelers.joint_labeler(self.plan(config, dataset), dataset.public, dataset.schema).noise

    def notes(self, config: "RunConfig", dataset: "FederatedDataset") -> list[str]:
        plan = self.plan(config, dataset)
        few, sentence = labelers.expected(plan.records, plan.epsilon, plan.delta)
        return [sentence] if few else []

    def run(self, study: "Study", grid: "Grid") -> dict[str, Any]:
        """Train the labeler, let silos learn its labels, and return what ``result.json`` tells. Raises RunError."""
        if study.dataset is None:
            plan = study.subject.approved_joint._replace(seed=study.config.seed)
        else:
            plan = self.plan(study.config, study.dataset)
        return coordinator.JointTraining(self.title, plan, study, grid).run()
