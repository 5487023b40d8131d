"""PFNM: one round in which silos train apart, and then neurons that do the same are found and averaged.

Yurochkin, Agarwal, Ghosh, Greenewald, Hoang, Khazaeni, "Bayesian nonparametric federated learning of neural networks",
ICML 2019, arXiv:1905.12022, with a single communication. The matching is ``matching.match_networks``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeAlias, cast

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from pydantic import Field

from fedct_flwr.baselines.averaging import Averaging
from fedct_flwr.baselines.matching import Layer, Prior, match_networks
from fedct_flwr.baselines.weight_sharing import Network, WeightSharing, network
from fedct_flwr.config import RunConfig
from fedct_flwr.coordinator.roster import Roster, introduce
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.learners.base import Layered
from fedct_flwr.seeding import generator
from fedct_flwr.types import ConfigError, SiloName
from fedct_flwr.wire.weights import ARRAYS, Weights, to_arrays, to_weights

Number: TypeAlias = Annotated[float, Field(gt=0, le=1e9)]


class MatchedAveraging(Averaging):
    """The global network is as wide as it takes to hold all neurons that silos do not share.

    ``begin`` are the weights that silos train from, by name; ``layers`` names each layer's weights and biases.
    """

    def __init__(
        self,
        roster: Roster,
        *,
        begin: Mapping[SiloName, Weights],
        layers: Sequence[tuple[str, str]],
        prior: Prior,
        seed: int,
        **options: Any,
    ) -> None:
        super().__init__(roster, **options)
        self._known = roster
        self._begin = begin
        self._layers = layers
        self._prior = prior
        self._seed = seed

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The weights that each silo which is there begins with."""
        introduce(grid, self._known, self._deadline)
        return super().configure_train(server_round, arrays, config, grid)

    def _outgoing_to(self, silo: SiloName) -> ArrayRecord:
        return to_arrays(self._begin[silo]) if silo in self._begin else self._sent

    def _average(self, server_round: int, replies: list[Message]) -> tuple[ArrayRecord | None, MetricRecord | None]:
        networks = []
        for reply in replies:
            weights = to_weights(reply.content.array_records[ARRAYS])
            networks.append([Layer(weights[matrix], weights[biases]) for matrix, biases in self._layers])
        found = match_networks(networks, self._prior, generator(self._seed, "matching"))
        names = [name for pair in self._layers for name in pair]
        values = [value.astype(np.float32) for layer in found for value in layer]
        return to_arrays(dict(zip(names, values, strict=True))), None


@dataclass(frozen=True)
class PFNM(WeightSharing):
    """Neurons that do the same are found and averaged, once (Yurochkin et al., arXiv:1905.12022).

    Each silo begins with a fresh network of its own, as what is matched may have been trained without the others in
    mind; or all with ``initial-model``. ``result.json`` tells how wide the global model's hidden layers are.
    """

    name: ClassVar[str] = "pfnm"
    title: ClassVar[str] = "PFNM"
    written: ClassVar[Mapping[str, str]] = {
        "silo_variance": "pfnm-silo-variance",
        "global_variance": "pfnm-global-variance",
        "gamma": "pfnm-gamma",
    }
    asks_once: ClassVar[bool] = True
    one_architecture: ClassVar[bool] = False
    strategy: ClassVar[type[Averaging]] = MatchedAveraging

    silo_variance: Number = 1.0
    """Assumed variance of a silo's neurons around the global ones that they are copies of: the less, the fewer are
    matched, and the wider the global model."""
    global_variance: Number = 1.0
    """Assumed variance of global neurons around zero."""
    gamma: Number = 1.0
    """How many neurons a silo is expected to have: the more, the fewer are matched."""

    def _options(self, config: RunConfig, dataset: FederatedDataset) -> dict[str, Any]:
        begin = {}
        if not self.initial_model:
            begin = {silo.name: network(config, dataset, n).weights() for n, silo in enumerate(dataset.silos)}
        return {
            "begin": begin,
            "layers": _layered(config, network(config, dataset, 0)).layers,
            "prior": Prior(self.silo_variance, self.global_variance, self.gamma),
            "seed": config.seed,
        }

    def _take_over(self, model: Network, weights: Weights) -> None:
        # Checked before the run began.
        cast(Layered, model).widen(weights)

    def _facts(self, weights: Weights) -> dict[str, Any]:
        *hidden, _ = (len(value) for value in weights.values() if value.ndim == 1)
        return {"hidden_widths": hidden}


def _layered(config: RunConfig, model: Network) -> Layered:
    if isinstance(model, Layered) and model.layers:
        return model
    raise ConfigError(
        f"algorithm {config.algorithm!r} matches neurons of fully connected layers, and learner {config.learner[0]!r} "
        "has others, or none that is hidden: use fashion-mnist-mlp, or an nn.Sequential of several nn.Linear with "
        "biases, and nothing but activations, nn.Dropout and nn.Flatten between them"
    )
