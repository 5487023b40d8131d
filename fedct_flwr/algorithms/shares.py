"""FedCT whose silos learn each class's share of the votes."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedct_flwr import coordinator
from fedct_flwr.algorithms.fedct import LabelSharing
from fedct_flwr.consensus.counting import Consensus, Decide, plurality, shares_of_votes
from fedct_flwr.wire.kinds import Kind
from fedct_flwr.wire.numbers import SHARES

if TYPE_CHECKING:
    from fedct_flwr.coordinator.questions import Learning


@dataclass(frozen=True)
class SharesOfVotes(LabelSharing):
    """Silos send labels, and learn each class's share of the votes instead of the class with the most."""

    name: ClassVar[str] = "fedct-shares"
    title: ClassVar[str] = "FedCT"
    rule: ClassVar[str] = "shares of votes"
    kind: ClassVar[Kind] = SHARES

    @property
    def learning(self) -> "Learning":
        return coordinator.Learning(weight=1.0)

    def consensus(self, num_classes: int, decide: Decide = plurality) -> Consensus:
        """Every silo's hard label counts, and shares are learned (arXiv:2310.05696; soft targets: arXiv:1503.02531)."""
        return shares_of_votes(num_classes)
