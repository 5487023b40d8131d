"""PATE: every silo is a teacher, and is asked once.

Papernot et al., "Semi-supervised knowledge transfer for deep learning from private training data", arXiv:1610.05755,
and with noise "Scalable private learning with PATE", arXiv:1802.08908.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from fedct_flwr.config.privacy import NoisePlan, TallyNoise
from fedct_flwr.config.run import of_run
from fedct_flwr.config.setting_rules import Needs, Uses, uses
from fedct_flwr.consensus.counting import Consensus, Decide, counting, plurality
from fedct_flwr.coordinator.label_sharing import ASKING, IN_SUMS, Summable

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
        """LNMax of arXiv:1610.05755; GNMax of arXiv:1802.08908, §4."""
        return NoisePlan(self.mechanism or _GAUSSIAN, self.epsilon, self.delta, self.gamma)
