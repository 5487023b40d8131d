"""Silos share probabilities: each learns what the others say, by its trust in them or by the mean.

Fan et al., "Collaborative learning via prediction consensus", arXiv:2305.18497, Algorithm 1; Bistritz et al.,
"Distributed distillation for on-device learning", NeurIPS 2020; Li, Wang, "FedMD: heterogenous federated learning via
model distillation", arXiv:1910.03581, Algorithm 1.

FedMD's silos first learn the public set's labels. Here it has none: they begin with the first consensus on it. Code
that passes for the authors' (diogenes0319/FedMD_clean) averages logits and fits them by absolute error; here it is
probabilities, by cross-entropy.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field

from fedct_flwr import consensus
from fedct_flwr.algorithms.fedct import LabelSharing
from fedct_flwr.config.learner import AUTO
from fedct_flwr.config.settings import Uses, uses
from fedct_flwr.consensus.counting import Consensus, Decide, plurality
from fedct_flwr.coordinator.algorithm import IN_ROUNDS
from fedct_flwr.learners.soft import check_in_turn
from fedct_flwr.types import ConfigError
from fedct_flwr.wire.kinds import Kind
from fedct_flwr.wire.numbers import PROBABILITIES

if TYPE_CHECKING:
    from fedct_flwr.config.run import RunConfig
    from fedct_flwr.consensus.prediction import TrustRule
    from fedct_flwr.coordinator.cotraining import CoTraining
    from fedct_flwr.datasets.federated import FederatedDataset
    from fedct_flwr.learners import Learner
    from fedct_flwr.runs.run_folder import Checkpoint


Weight: TypeAlias = Annotated[float, Field(gt=0, le=1e6)]


@dataclass(frozen=True)
class ProbabilitySharing(LabelSharing):
    """Base of the algorithms in which silos share probabilities."""

    kind: ClassVar[Kind] = PROBABILITIES
    used: ClassVar[Uses] = IN_ROUNDS
    refused: ClassVar[Mapping[str, str]] = {
        "secure": "secure = true adds labels and votes of students, neither probabilities nor values: set algorithm to "
        "'fedct' or 'fedct-qualified', or leave secure out"
    }

    def rounds(self, silos: "CoTraining", rule: Consensus, begun: "Checkpoint", last: int) -> Iterator["Checkpoint"]:
        """Algorithm 1 of prediction consensus (arXiv:2305.18497), with the trust worked out by the coordinator.

        The paper's agents send their predictions to each other, and each weighs them itself. ``state`` has the last
        predictions and the trust among silos: each silo's targets follow from it (``Consensus.targets``). Silos do not
        learn the ``labels``, which only say what the consensus stands for. Distributed distillation and FedMD share the
        loop; a FedMD silo learns the targets first and its records afterwards (``silo/personal.py``).
        """
        labels, state = begun.targets, begun.state
        for t in range(begun.round + 1, last + 1):
            # At each silo (silo/personal.py): train on its records, and on its targets with the weight lambda, equation
            # (3), or in round 1 on its records alone; predict the public set.
            heard = silos.train_and_label(t, labels, state)
            # Trust of each silo in each other, equation (6); targets of silo i are row i of trust @ predictions, (1).
            labels, state = heard.decided(rule, labels, state)
            yield silos.note(heard, labels, state)

    def wrong(self, config: Any) -> str:
        if config.pseudo_weight in (AUTO, 1.0):
            return ""
        return f"pseudo-weight has no effect on algorithm {self.name!r}: set consensus-weight instead"

    def check_silos(self, config: "RunConfig", dataset: "FederatedDataset | None", learners: list["Learner"]) -> None:
        """Raise ConfigError for a protection, which does not cover probabilities, or learners that share none."""
        if config.protection != "none":
            raise ConfigError(
                f"protection = {config.protection!r} covers labels and not probabilities, which algorithm "
                f"{self.name!r} shares: set it to 'none', or choose an algorithm that shares labels, such as 'fedct'"
            )
        super().check_silos(config, dataset, learners)


@dataclass(frozen=True)
class DistributedDistillation(ProbabilitySharing):
    """All learn the mean of all probabilities (Bistritz et al., NeurIPS 2020), or the median of all values."""

    name: ClassVar[str] = "dd"
    title: ClassVar[str] = "DD"
    predicts_quantities: ClassVar[bool] = True
    used: ClassVar[Uses] = ProbabilitySharing.used | uses("pseudo-weight")

    consensus_weight: Weight = 0.5
    """Weight of the loss on others' probabilities next to that on private records: lambda. Real silos refuse more than
    their policy allows, which is 1 unless they say otherwise."""

    @property
    def others_weight(self) -> float:
        return self.consensus_weight

    def consensus(self, num_classes: int, decide: Decide = plurality) -> Consensus:
        """All learn the mean of all (Bistritz et al., NeurIPS 2020; [14] of arXiv:2305.18497)."""
        return _by_trust(consensus.naive, num_classes)


@dataclass(frozen=True)
class PredictionConsensus(ProbabilitySharing):
    """Each silo learns the others' probabilities by its trust in them (Fan et al., arXiv:2305.18497)."""

    name: ClassVar[str] = "prediction-consensus"
    title: ClassVar[str] = "PredCons"
    predicts_quantities: ClassVar[bool] = True
    used: ClassVar[Uses] = DistributedDistillation.used

    trust: Literal["naive", "static", "dynamic"] = "static"
    """From the first round that a silo takes part in, or from each round; naive: all silos count the same."""
    consensus_weight: Weight = DistributedDistillation.consensus_weight
    """As that of distributed distillation."""

    @property
    def others_weight(self) -> float:
        return self.consensus_weight

    def consensus(self, num_classes: int, decide: Decide = plurality) -> Consensus:
        """Each silo learns the others' probabilities by its trust in them (Fan et al., arXiv:2305.18497, Alg. 1)."""
        return _by_trust(consensus.TRUSTS[self.trust], num_classes)


def _by_trust(rule: "Callable[..., TrustRule]", num_classes: int) -> Consensus:
    """On probabilities, or without classes on the values of a quantity (arXiv:2305.18497, §3.2 and Appendix A)."""
    return (
        consensus.prediction_consensus(num_classes, rule())
        if num_classes
        else consensus.consensus_of_values(rule(consensus.similarity_of_values))
    )


@dataclass(frozen=True)
class FedMD(ProbabilitySharing):
    """FedMD (Li & Wang, arXiv:1910.03581): silos train on the mean of all probabilities, then on their records."""

    name: ClassVar[str] = "fedmd"
    title: ClassVar[str] = "FedMD"

    @property
    def others_weight(self) -> float:
        return 0.0

    def consensus(self, num_classes: int, decide: Decide = plurality) -> Consensus:
        """The mean of all probabilities (Li & Wang, arXiv:1910.03581, Alg. 1)."""
        return consensus.prediction_consensus(num_classes, consensus.naive())

    def check_silos(self, config: "RunConfig", dataset: "FederatedDataset | None", learners: list["Learner"]) -> None:
        """Raise ConfigError for learners that do not go on learning."""
        # First, as it wants more: a user told of all that know probabilities would next be refused a tree.
        for learner in learners:
            check_in_turn(learner)
        super().check_silos(config, dataset, learners)
