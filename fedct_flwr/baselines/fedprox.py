"""FedProx: FedAvg with silos held near the global weights by a term in their losses.

Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith, "Federated optimization in heterogeneous networks", arXiv:1812.06127,
Algorithm 2, by Flower's strategy. Here all silos take the same steps, so the term is all there is of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from flwr.serverapp import strategy
from pydantic import Field

from fedct_flwr.baselines.averaging import Averaging
from fedct_flwr.baselines.weight_sharing import WeightSharing
from fedct_flwr.config import RunConfig
from fedct_flwr.coordinator.roster import Roster
from fedct_flwr.datasets.federated import FederatedDataset


class ProximalAveraging(strategy.FedProx, Averaging):
    """Flower's FedProx, which sends ``proximal_mu``; otherwise as ``Averaging``."""

    def __init__(self, roster: Roster, *, proximal_mu: float, **options: Any) -> None:
        # Not Flower's own, which takes FedAvg's options alone.
        Averaging.__init__(self, roster, **options)
        self.proximal_mu = proximal_mu


@dataclass(frozen=True)
class FedProx(WeightSharing):
    """FedAvg with a term ``mu`` that holds silos near the mean (Li et al., arXiv:1812.06127)."""

    name: ClassVar[str] = "fedprox"
    title: ClassVar[str] = "FedProx"
    written: ClassVar[Mapping[str, str]] = {"mu": "proximal-mu"}
    strategy: ClassVar[type[Averaging]] = ProximalAveraging

    mu: Annotated[float, Field(ge=0)] = 0.1
    """How much silos are held to the global weights; with 0 it is FedAvg."""

    def _options(self, config: RunConfig, dataset: FederatedDataset) -> dict[str, Any]:
        return {"proximal_mu": self.mu}
