"""FedAvgM: FedAvg whose global weights move with momentum.

Hsu, Qi, Brown, "Measuring the effects of non-identical data distribution for federated visual classification",
arXiv:1909.06335, §4.3, by Flower's strategy.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from flwr.serverapp import strategy
from pydantic import Field

from fedct_flwr.baselines.averaging import Averaging
from fedct_flwr.baselines.weight_sharing import WeightSharing
from fedct_flwr.config import RunConfig
from fedct_flwr.coordinator.roster import Roster
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.types import ConfigError
from fedct_flwr.wire.weights import Weights


class MomentumAveraging(strategy.FedAvgM, Averaging):
    """Flower's FedAvgM, which takes a step from the global weights towards the mean, over ``Averaging``."""

    def __init__(self, roster: Roster, *, momentum: float, learning_rate: float, **options: Any) -> None:
        # Flower's own __init__ takes FedAvg's options, and not those of Averaging.
        Averaging.__init__(self, roster, **options)
        self.server_momentum = momentum
        self.server_learning_rate = learning_rate
        self.server_opt = momentum != 0 or learning_rate != 1
        self.current_arrays = None
        self.momentum_vector = None


@dataclass(frozen=True)
class FedAvgM(WeightSharing):
    """FedAvg with momentum at the coordinator (Hsu et al., arXiv:1909.06335)."""

    name: ClassVar[str] = "fedavgm"
    title: ClassVar[str] = "FedAvgM"
    written: ClassVar[Mapping[str, str]] = {"momentum": "server-momentum", "learning_rate": "server-learning-rate"}
    strategy: ClassVar[type[Averaging]] = MomentumAveraging

    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """How much of the last step is in the next one; with 0 and a learning rate of 1 it is FedAvg."""
    learning_rate: Annotated[float, Field(gt=0)] = 1.0
    """How far the global weights go towards the mean of the silos'."""

    def _check_weights(self, config: RunConfig, weights: Weights) -> None:
        for name, value in weights.items():
            if not np.issubdtype(value.dtype, np.floating):
                raise ConfigError(
                    f"algorithm {self.name!r} moves all weights in steps, but {name!r} counts something, as batch "
                    "normalization does: use a network without it"
                )

    def _options(self, config: RunConfig, dataset: FederatedDataset) -> dict[str, Any]:
        return {"momentum": self.momentum, "learning_rate": self.learning_rate}
