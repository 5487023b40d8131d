"""FedProx: FedAvg with silos held near the global weights by a term in their losses.

Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith, "Federated optimization in heterogeneous networks", arXiv:1812.06127,
Algorithm 2, by Flower's strategy. Here all silos take the same steps, so the term is all there is of it.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from flwr.serverapp.strategy import FedProx

from fedct_flwr.baselines.fedavg import Averaging
from fedct_flwr.baselines.weight_sharing import AVERAGING, WeightSharing
from fedct_flwr.config import RunConfig
from fedct_flwr.config.uses import Uses, uses
from fedct_flwr.coordinator.roster import Roster
from fedct_flwr.datasets.federated import FederatedDataset


class ProximalAveraging(FedProx, Averaging):
    """Flower's FedProx, which sends ``proximal_mu``, over what is said of ``Averaging``."""

    def __init__(self, roster: Roster, *, proximal_mu: float, **options: Any) -> None:
        # Not Flower's own, which takes FedAvg's options alone.
        Averaging.__init__(self, roster, **options)
        self.proximal_mu = proximal_mu


@dataclass(frozen=True)
class ProximalWeightSharing(WeightSharing):
    """FedProx, with ``proximal-mu``."""

    strategy: type[Averaging] = ProximalAveraging
    settings: ClassVar[Uses] = AVERAGING | uses("proximal-mu")

    def _options(self, config: RunConfig, dataset: FederatedDataset) -> dict[str, Any]:
        return {"proximal_mu": config.proximal_mu}
