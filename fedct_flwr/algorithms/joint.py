"""FedCT with the joint labeler: silos train one labeler by noisy secure sums, and all learn its labels.

The labeler: ``labelers/joint_linear.py``; its rounds: ``coordinator/joint.py``.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from fedct_flwr import coordinator, labelers, learners
from fedct_flwr.config.settings import Uses, uses
from fedct_flwr.coordinator.joint_plan import JointSettings, simulated_plan
from fedct_flwr.wire.content import STEPS
from fedct_flwr.wire.kinds import Kind
from fedct_flwr.wire.sums import GRADIENTS

if TYPE_CHECKING:
    from flwr.serverapp import Grid

    from fedct_flwr.config.run import RunConfig
    from fedct_flwr.coordinator.study import Study
    from fedct_flwr.datasets.federated import FederatedDataset


@dataclass(frozen=True)
class JointLabeler(JointSettings):
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

        step = simulated_plan(self, config, dataset, len(config.roster or dataset.silos))
        # Raises ConfigError where no noise keeps the budget.
        _ = labelers.joint_labeler(step, dataset.public, dataset.schema).noise

    def notes(self, config: "RunConfig", dataset: "FederatedDataset") -> list[str]:
        plan = simulated_plan(self, config, dataset, len(config.roster or dataset.silos))
        few, sentence = labelers.expected(plan.records, plan.epsilon, plan.delta)
        return [sentence] if few else []

    def run(self, study: "Study", grid: "Grid") -> dict[str, Any]:
        """Train the labeler, let silos learn its labels, and return what ``result.json`` tells. Raises RunError."""
        return coordinator.JointTraining(self, study, grid).run()
