"""SCAFFOLD: FedAvg with every silo's gradients corrected by how its own differ from those of all silos.

Karimireddy, Kale, Mohri, Reddi, Stich, Suresh, "SCAFFOLD: stochastic controlled averaging for federated learning",
arXiv:1910.06378, Algorithm 1 with option II and a global step size of 1. The silos' part is
``silo.weights.control_variates``. The paper minimizes the plain mean of the silos' losses; here, as in FedAvg, each
weighs as its number of records, so what is minimized is the loss on all records.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid

from fedct_flwr.baselines.averaging import Averaging, share
from fedct_flwr.baselines.weight_sharing import WeightSharing, network, num_records
from fedct_flwr.config import RunConfig
from fedct_flwr.coordinator.roster import Roster
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.silo.weights import CONTROL_VARIATES
from fedct_flwr.types import ConfigError
from fedct_flwr.wire.messages import to_arrays, to_weights, with_control, without_control


class ControlledAveraging(Averaging):
    """Averages weights, and keeps the average of the silos' control variates, which goes out with the weights.

    ``parameters`` are the weights that have one, ``num_records`` those of all silos: an absent silo keeps its part.
    With a reply that comes too late, its change is lost, as in the paper's algorithm.
    """

    def __init__(self, roster: Roster, *, parameters: Sequence[str], num_records: int, **options: Any) -> None:
        super().__init__(roster, **options)
        self._parameters = parameters
        self._num_records = num_records
        self._control: dict[str, Any] = {}

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Weights and control variates for every silo that is there and not busy."""
        config[CONTROL_VARIATES] = True
        return super().configure_train(server_round, arrays, config, grid)

    def _outgoing(self, arrays: ArrayRecord) -> ArrayRecord:
        weights = to_weights(arrays)
        self._control = self._control or {name: np.zeros_like(weights[name]) for name in self._parameters}
        return to_arrays(with_control(weights, self._control))

    def _average(self, server_round: int, replies: list[Message]) -> tuple[ArrayRecord | None, MetricRecord | None]:
        arrays, metrics = super()._average(server_round, replies)
        if arrays is None:
            return None, metrics
        weights, change = without_control(to_weights(arrays))
        part = share(replies, self._num_records)
        self._control = {name: value + part * change[name] for name, value in self._control.items()}
        return to_arrays(weights), metrics


@dataclass(frozen=True)
class Scaffold(WeightSharing):
    """FedAvg with control variates (Karimireddy et al., arXiv:1910.06378).

    Needs ``optimizer = "sgd"``, as control variates are means of gradients that steps were made of.
    """

    name: ClassVar[str] = "scaffold"
    title: ClassVar[str] = "SCAFFOLD"
    strategy: ClassVar[type[Averaging]] = ControlledAveraging
    leaves: ClassVar[str] = "the weights of its network and its control variate, which is of their size"

    def _options(self, config: RunConfig, dataset: FederatedDataset) -> dict[str, Any]:
        first = network(config, dataset, 0)
        if first.reach is None:
            raise ConfigError(
                f"algorithm {self.name!r} needs steps that are the same multiples of gradients: set "
                "optimizer = 'sgd', a learning-rate for it, such as 0.1, and decay-steps = 0"
            )
        return {"parameters": first.parameters, "num_records": num_records(config, dataset)}
