"""FedMD: each round silos digest the mean of all probabilities, then revisit their records.

Li, Wang, "FedMD: heterogenous federated learning via model distillation", arXiv:1910.03581, Algorithm 1. The paper's
silos first learn the public set's labels. Here it has none: they begin with the first consensus on it. Code that passes
for the authors' (diogenes0319/FedMD_clean) averages logits and fits them by absolute error; here it is probabilities,
by cross-entropy.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedct_flwr.algorithms.prediction import ProbabilitySharing
from fedct_flwr.config import RunConfig
from fedct_flwr.consensus.counting import Consensus, Decide, plurality
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.learners.base import Learner
from fedct_flwr.types import ConfigError

if TYPE_CHECKING:
    from fedct_flwr.coordinator.asking import Learning


@dataclass(frozen=True)
class FedMD(ProbabilitySharing):
    """Silos digest the mean of all probabilities, then revisit their records (Li & Wang, arXiv:1910.03581)."""

    name: ClassVar[str] = "fedmd"
    title: ClassVar[str] = "FedMD"

    @property
    def learning(self) -> "Learning":
        from fedct_flwr.coordinator.asking import Learning

        return Learning(0.0)

    def consensus(self, num_classes: int, decide: Decide = plurality) -> Consensus:
        """The mean of all probabilities (Li & Wang, arXiv:1910.03581, Alg. 1)."""
        from fedct_flwr.consensus.prediction import prediction_consensus
        from fedct_flwr.consensus.trust import naive

        return prediction_consensus(num_classes, naive())

    def check_silos(self, config: RunConfig, dataset: FederatedDataset | None, learners: list[Learner]) -> None:
        """Raise ConfigError for learners that do not go on learning."""
        from fedct_flwr.learners.soft import check_in_turn

        if config.corruption == "collusion":
            raise ConfigError(
                f"colluders learn nothing, and algorithm {self.name!r} needs networks: choose another corruption, "
                "such as 'label-shift'"
            )
        # First, as it wants more: a user told of all that know probabilities would next be refused a tree.
        for learner in learners:
            check_in_turn(learner)
        super().check_silos(config, dataset, learners)
