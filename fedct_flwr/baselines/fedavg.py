"""FedAvg: the baseline that FedCT is compared with.

McMahan et al., "Communication-efficient learning of deep networks from decentralized data", arXiv:1602.05629.
"""

from dataclasses import dataclass
from typing import ClassVar

from fedct_flwr.baselines.weight_sharing import WeightSharing


@dataclass(frozen=True)
class FedAvg(WeightSharing):
    """The mean of all networks (McMahan et al., arXiv:1602.05629)."""

    name: ClassVar[str] = "fedavg"
    title: ClassVar[str] = "FedAvg"
