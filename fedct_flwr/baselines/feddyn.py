"""FedDyn: FedAvg with a term in every silo's loss that makes its optimum agree with that of all silos.

Acar, Zhao, Matas Navarro, Mattina, Whatmough, Saligrama, "Federated learning based on dynamic regularization",
arXiv:2111.04263, Algorithm 1. The silos' part is ``silo.weights.dynamic``. The paper minimizes the plain mean of the
silos' losses; here, as in FedAvg, each weighs as its number of records.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from pydantic import Field

from fedct_flwr.baselines.averaging import Averaging, share
from fedct_flwr.baselines.weight_sharing import WeightSharing, network, num_records
from fedct_flwr.config import RunConfig
from fedct_flwr.coordinator.roster import Roster
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.silo.weights import FEDDYN_ALPHA
from fedct_flwr.wire.messages import to_arrays, to_weights


class DynamicAveraging(Averaging):
    """The average, moved further by the sum over all rounds of what each moved it by: the paper's ``-h / alpha``.

    ``parameters`` are the weights that are moved. ``num_records`` are those of all silos: an absent one moved nothing.
    """

    def __init__(
        self, roster: Roster, *, alpha: float, parameters: Sequence[str], num_records: int, **options: Any
    ) -> None:
        super().__init__(roster, **options)
        self._alpha = alpha
        self._num_records = num_records
        self._moved: dict[str, Any] = dict.fromkeys(parameters, 0.0)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The global weights and ``alpha`` for every silo that is there and not busy."""
        config[FEDDYN_ALPHA] = self._alpha
        return super().configure_train(server_round, arrays, config, grid)

    def _average(self, server_round: int, replies: list[Message]) -> tuple[ArrayRecord | None, MetricRecord | None]:
        arrays, metrics = super()._average(server_round, replies)
        if arrays is None:
            return None, metrics
        weights, sent = to_weights(arrays), to_weights(self._sent)
        part = share(replies, self._num_records)
        for name, moved in self._moved.items():
            self._moved[name] = moved + part * (weights[name] - sent[name])
            weights[name] = weights[name] + self._moved[name]
        return to_arrays(weights), metrics


@dataclass(frozen=True)
class FedDyn(WeightSharing):
    """FedAvg with a term that changes from round to round (Acar et al., arXiv:2111.04263).

    Silos send what they send in FedAvg; they keep their own gradients' estimate.
    """

    name: ClassVar[str] = "feddyn"
    title: ClassVar[str] = "FedDyn"
    written: ClassVar[Mapping[str, str]] = {"alpha": "feddyn-alpha"}
    strategy: ClassVar[type[Averaging]] = DynamicAveraging

    alpha: Annotated[float, Field(gt=0)] = 0.1
    """How much silos are held to the global weights, and how slowly they learn where they disagree."""

    def _options(self, config: RunConfig, dataset: FederatedDataset) -> dict[str, Any]:
        return {
            "alpha": self.alpha,
            "parameters": network(config, dataset, 0).parameters,
            "num_records": num_records(config, dataset),
        }
