"""FedCT with the joint labeler: silos train one labeler by noisy secure sums, and all learn its labels.

The labeler: ``labelers/joint_linear.py``; its rounds: ``coordinator/joint.py``.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from fedct_flwr.config import RunConfig
from fedct_flwr.config.run import of_run
from fedct_flwr.config.uses import Uses, uses
from fedct_flwr.coordinator.algorithm import Algorithm
from fedct_flwr.coordinator.label_sharing import Silos
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.kinds import GRADIENTS
from fedct_flwr.kinds.base import Kind
from fedct_flwr.kinds.joint import STEPS

if TYPE_CHECKING:
    # An algorithm as an object waits for neither.
    from flwr.serverapp import Grid

    from fedct_flwr.coordinator.study import Study


@dataclass(frozen=True)
class JointLabeler(Algorithm):
    """The labels of one labeler that silos train together by noisy secure sums.

    ``epsilon`` and ``delta`` hold for each record, in total, against everybody, if no more than ``may_collude`` silos
    collude.
    """

    name: ClassVar[str] = "fedct-joint"
    title: ClassVar[str] = "FedCT, joint"
    kind: ClassVar[Kind] = GRADIENTS
    leaves: ClassVar[str] = GRADIENTS.shared
    fixed_rounds: ClassVar[int] = STEPS + 1
    trains_together: ClassVar[bool] = True
    used: ClassVar[Uses] = uses("student", "student-params", "report-scores", "pseudo-weight")

    epsilon: float = of_run("epsilon")
    """In total, for each record."""
    delta: float = of_run("delta")
    joint_labeler: Literal["linear", "additive"] = "linear"
    """A linear model on features of the public set, or one that adds up a curve for each column."""
    min_summands: Silos = field(default=0, kw_only=True)
    """Fewest silos whose sum is opened; 0: all."""
    may_collude: Silos = field(default=1, kw_only=True)
    """Silos that may collude with the coordinator, and learn no other silo's gradient."""

    @property
    def in_sums(self) -> bool:
        """Always."""
        return True

    @property
    def facts(self) -> dict[str, Any]:
        """The kind of labeler."""
        return {"joint_labeler": self.joint_labeler}

    def fewest_summands(self, num_silos: int) -> int:
        """All silos, whose noise adds up, unless fewer are named."""
        return self.min_summands or num_silos

    def wrong(self, config: Any) -> str:
        """Colluders have no labels to send, and other noise would protect nothing."""
        if config.protection != "none":
            return (
                f"algorithm {self.name!r} protects records by its own noise, and not by protection = "
                f"{config.protection!r}: leave that out"
            )
        if config.corruption == "collusion":
            return (
                "colluders send the labels of their own model, and with this algorithm gradients are added: choose "
                "another corruption, such as 'label-shift'"
            )
        return ""

    def check(self, config: RunConfig, dataset: FederatedDataset | None) -> None:
        """Raise ConfigError for a budget that no noise keeps, or silos that are too few to add it.

        Real silos' budget is that of their study, which their coordinator and each of them check.
        """
        from fedct_flwr.coordinator.joint_plan import simulated_plan
        from fedct_flwr.labelers.protect import check_extra
        from fedct_flwr.learners.build import named_learners

        check_extra("privacy", f"algorithm {self.name!r}")
        if dataset is None:
            return
        named_learners(config, dataset)
        from fedct_flwr.silo.joint import joint_labeler

        step = simulated_plan(self, config, dataset, len(config.roster or dataset.silos))
        # Raises ConfigError where no noise keeps the budget.
        _ = joint_labeler(step, dataset.public, dataset.schema).noise

    def run(self, study: "Study", grid: "Grid") -> dict[str, Any]:
        """Train the labeler, let silos learn its labels, and return what ``result.json`` tells. Raises RunError."""
        from fedct_flwr.coordinator.joint import Training

        return Training(self, study, grid).run()
