"""FedCT with other targets than the decided class: shares of the votes, or grades of risk.

Silos whose records tell the time to an event share how they rank the public set. A grade is a hard label. The
consensus is the mean of the grades, or their median, cut into as many parts again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from fedct_flwr.algorithms.fedct import LabelSharing, Summable
from fedct_flwr.config.settings import Uses, uses
from fedct_flwr.consensus.counting import Consensus, Decide, plurality, shares_of_votes
from fedct_flwr.consensus.grades import consensus_of_grades
from fedct_flwr.coordinator.algorithm import IN_SUMS
from fedct_flwr.wire.kinds import Kind
from fedct_flwr.wire.numbers import SHARES

_USED: Final[Uses] = uses("query-size", "stop-at-fixed-point", "protection")


@dataclass(frozen=True)
class SharesOfVotes(LabelSharing):
    """Silos send labels, and learn each class's share of the votes instead of the class with the most."""

    name: ClassVar[str] = "fedct-shares"
    title: ClassVar[str] = "FedCT"
    rule: ClassVar[str] = "shares of votes"
    kind: ClassVar[Kind] = SHARES

    @property
    def others_weight(self) -> float:
        return 1.0

    def consensus(self, num_classes: int, decide: Decide = plurality) -> Consensus:
        """Every silo's hard label counts, and shares are learned (arXiv:2310.05696; soft targets: arXiv:1503.02531)."""
        return shares_of_votes(num_classes)


@dataclass(frozen=True)
class MeanGrade(Summable):
    """All silos' grades count the same; ``secure``: in sums that open no silo's grades."""

    name: ClassVar[str] = "fedct-grades"
    title: ClassVar[str] = "FedCT"
    rule: ClassVar[str] = "mean grade"
    used: ClassVar[Uses] = _USED | IN_SUMS
    grades_risks: ClassVar[bool] = True

    def consensus(self, num_classes: int, decide: Decide = plurality) -> Consensus:
        """The mean of all grades, which are hard labels (Abourayya et al., arXiv:2310.05696) of times to an event."""
        return consensus_of_grades(num_classes)


@dataclass(frozen=True)
class MedianGrade(LabelSharing):
    """The median of all silos' grades, which one silo that lies moves little."""

    name: ClassVar[str] = "fedct-median-grades"
    title: ClassVar[str] = "FedCT"
    rule: ClassVar[str] = "median grade"
    used: ClassVar[Uses] = _USED
    grades_risks: ClassVar[bool] = True
    refused: ClassVar[Mapping[str, str]] = {
        "secure": "secure = true adds grades, and a median is not made of a sum: set algorithm to 'fedct-grades', or "
        "leave secure out"
    }

    def consensus(self, num_classes: int, decide: Decide = plurality) -> Consensus:
        """The median of all grades (D. Yin et al., "Byzantine-robust distributed learning", arXiv:1803.01498)."""
        return consensus_of_grades(num_classes, median=True)
