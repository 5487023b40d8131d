"""FedAvg against client drift: FedProx, FedDyn and SCAFFOLD. The silos' parts are in ``silo/weights.py``.

FedProx holds silos near the global weights by a term in their losses: Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith,
"Federated optimization in heterogeneous networks", arXiv:1812.06127, Algorithm 2, by Flower's strategy. Here all silos
take the same steps, so the term is all there is of it.

FedDyn has a term in every silo's loss that makes its optimum agree with that of all silos: Acar, Zhao, Matas Navarro,
Mattina, Whatmough, Saligrama, "Federated learning based on dynamic regularization", arXiv:2111.04263, Algorithm 1.

SCAFFOLD corrects every silo's gradients by how its own differ from those of all silos: Karimireddy, Kale, Mohri, Reddi,
Stich, Suresh, "SCAFFOLD: stochastic controlled averaging for federated learning", arXiv:1910.06378, Algorithm 1 with
option II and a global step size of 1.

The papers of FedDyn and SCAFFOLD minimize the plain mean of the silos' losses; here, as in FedAvg, each weighs as its
number of records.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid, strategy
from pydantic import Field

from fedct_flwr.baselines.weight_sharing import Averaging, WeightSharing, network, num_records, share
from fedct_flwr.types import ConfigError
from fedct_flwr.wire.messages import (
    CONTROL_VARIATES,
    FEDDYN_ALPHA,
    to_arrays,
    to_weights,
    with_control,
    without_control,
)

if TYPE_CHECKING:
    from fedct_flwr.config.run import RunConfig
    from fedct_flwr.coordinator.study import Roster
    from fedct_flwr.datasets.federated import FederatedDataset


class ProximalAveraging(strategy.FedProx, Averaging):
    """Flower's FedProx, which sends ``proximal_mu``; otherwise as ``Averaging``."""

    def __init__(self, roster: "Roster", *, proximal_mu: float, **options: Any) -> None:
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

    def _options(self, config: "RunConfig", dataset: "FederatedDataset") -> dict[str, Any]:
        return {"proximal_mu": self.mu}


class DynamicAveraging(Averaging):
    """The average, moved further by the sum over all rounds of what each moved it by: the paper's ``-h / alpha``.

    ``parameters`` are the weights that are moved. ``num_records`` are those of all silos: an absent one moved nothing.
    """

    def __init__(
        self, roster: "Roster", *, alpha: float, parameters: Sequence[str], num_records: int, **options: Any
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

    def _options(self, config: "RunConfig", dataset: "FederatedDataset") -> dict[str, Any]:
        return {
            "alpha": self.alpha,
            "parameters": network(config, dataset, 0).parameters,
            "num_records": num_records(config, dataset),
        }


class ControlledAveraging(Averaging):
    """Averages weights, and keeps the average of the silos' control variates, which goes out with the weights.

    ``parameters`` are the weights that have one, ``num_records`` those of all silos: an absent silo keeps its part.
    With a reply that comes too late, its change is lost, as in the paper's algorithm.
    """

    def __init__(self, roster: "Roster", *, parameters: Sequence[str], num_records: int, **options: Any) -> None:
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

    def _options(self, config: "RunConfig", dataset: "FederatedDataset") -> dict[str, Any]:
        first = network(config, dataset, 0)
        if first.reach is None:
            raise ConfigError(
                f"algorithm {self.name!r} needs steps that are the same multiples of gradients: set "
                "optimizer = 'sgd', a learning-rate for it, such as 0.1, and decay-steps = 0"
            )
        return {"parameters": first.parameters, "num_records": num_records(config, dataset)}
