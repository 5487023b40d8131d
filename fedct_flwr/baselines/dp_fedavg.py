"""DP-FedAvg: averages of clipped updates with Gaussian noise, by Flower's own mechanism.

McMahan, Ramage, Talwar, Zhang, "Learning differentially private recurrent language models", arXiv:1710.06963, with all
silos in every round. It clips the silo's **update**, and the noise has ``noise_multiplier * clipping_norm /
silos`` as its standard deviation.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord
from flwr.serverapp import strategy

from fedct_flwr import privacy
from fedct_flwr.baselines.weight_sharing import Averaging, WeightSharing
from fedct_flwr.config.run import RunConfig, of_run
from fedct_flwr.types import ConfigError, random_state
from fedct_flwr.wire.messages import ARRAYS, NUM_EXAMPLES, Weights, to_arrays, to_weights

if TYPE_CHECKING:
    from fedct_flwr.coordinator.study import Roster
    from fedct_flwr.datasets.federated import FederatedDataset

_SEEDED: Final = "dp-fedavg"
_LEAST_NOISE: Final = 0.1
_MOST_NOISE: Final = 1e6


class PrivateAveraging(Averaging):
    """Every silo that answers counts the same: the average of their updates, each clipped to ``clipping_norm``.

    Flower averages and adds the noise, drawn for each round from ``seed``. Clipping is done here: Flower's own, at
    the coordinator, fails on an update that is exactly zero, and comes before replies are looked at.
    """

    def __init__(
        self, roster: "Roster", *, noise_multiplier: float, clipping_norm: float, seed: int, **options: Any
    ) -> None:
        super().__init__(roster, **options)
        self._noise_multiplier = noise_multiplier
        self._clipping_norm = clipping_norm
        self._seed = seed

    def _average(self, server_round: int, replies: list[Message]) -> tuple[ArrayRecord | None, MetricRecord | None]:
        sent = to_weights(self._sent)
        for reply in replies:
            weights = to_weights(reply.content.array_records[ARRAYS])
            reply.content[ARRAYS] = to_arrays(clipped(weights, sent, self._clipping_norm))
            # A silo with more records than others would move a weighted average by more than clipping allows.
            reply.content["metrics"] = MetricRecord({NUM_EXAMPLES: 1})
        flowers = strategy.DifferentialPrivacyClientSideFixedClipping(
            strategy.FedAvg(weighted_by_key=NUM_EXAMPLES), self._noise_multiplier, self._clipping_norm, len(replies)
        )
        with _numpy_seeded(random_state(self._seed, _SEEDED, server_round)):
            return flowers.aggregate_train(server_round, replies)


@dataclass(frozen=True)
class PrivateFedAvg(WeightSharing):
    """FedAvg whose global weights protect every **silo** as a whole: client-level differential privacy.

    Formal guarantees:
        The unit is a silo (``PrivacyUnit.SILO``): the global weights of all ``num-server-rounds`` rounds together are
        ``(epsilon, delta)``-DP, of the run config, for all records of one silo replaced by whatever else. One silo's
        clipped update is then replaced by another, which moves the sum by at most two clipping norms, so a round costs
        a Gaussian mechanism of half Flower's noise multiplier (the paper and Flower count a silo added or removed,
        which costs half as much noise). Which silos answer is public.

        It protects from readers of the global weights, **not from the coordinator**, who sees each silo's. And it is a
        baseline in simulation: noise comes from the run's seed, by numpy's generator in floating point, so the seed
        reveals it. Not covered: scores, the numbers of records on the wire, and the statistics of the first silo's
        preprocessing that test examples go through.
    """

    name: ClassVar[str] = "dp-fedavg"
    title: ClassVar[str] = "DP-FedAvg"
    strategy: ClassVar[type[Averaging]] = PrivateAveraging

    epsilon: float = of_run("epsilon")
    """In total over all rounds, for each silo."""
    delta: float = of_run("delta")
    clipping_norm: float = of_run("clipping_norm")
    """The longest that a silo's update may be."""

    @property
    def protects_silos(self) -> bool:
        """By noise on the weights."""
        return True

    def _check_weights(self, config: RunConfig, weights: Weights) -> None:
        for name, value in weights.items():
            if not np.issubdtype(value.dtype, np.floating):
                raise ConfigError(
                    f"algorithm {self.name!r} adds noise to all weights but {name!r} counts something, as batch "
                    "normalization does: use a network without it"
                )

    def _options(self, config: RunConfig, dataset: "FederatedDataset") -> dict[str, Any]:
        return {
            "noise_multiplier": self._noise_multiplier(config.num_server_rounds),
            "clipping_norm": self.clipping_norm,
            "seed": config.seed,
        }

    def _noise_multiplier(self, rounds: int) -> float:
        try:
            return _least_noise(rounds, self.epsilon, self.delta)
        except ImportError:
            raise ConfigError(
                f"algorithm {self.name!r} needs the extra 'privacy': pip install -c constraints.txt -e '.[privacy]'"
            ) from None


def clipped(weights: Weights, sent: Weights, norm: float) -> Weights:
    """The weights that lie in the direction of ``weights`` from those ``sent``, at most ``norm`` away."""
    updates = {name: value - sent[name] for name, value in weights.items()}
    length = math.sqrt(math.fsum(float(np.square(update, dtype=np.float64).sum()) for update in updates.values()))
    if length <= norm:
        return weights
    return {name: (sent[name] + update * (norm / length)).astype(update.dtype) for name, update in updates.items()}


@lru_cache(maxsize=64)
def _least_noise(rounds: int, epsilon: float, delta: float) -> float:
    """The least noise multiplier, in clipping norms, that keeps ``epsilon`` at ``delta`` over all ``rounds``.

    A replaced silo moves the sum by two norms, so the event has half of it. Cached, as it takes seconds.
    """
    from dp_accounting import GaussianDpEvent, SelfComposedDpEvent

    return privacy.calibrate(
        lambda noise: SelfComposedDpEvent(GaussianDpEvent(noise / 2), rounds), epsilon, delta, _LEAST_NOISE, _MOST_NOISE
    )


@contextmanager
def _numpy_seeded(seed: int) -> Iterator[None]:
    """Seed the generator that Flower draws its noise from, and put it back."""
    before = np.random.get_state()
    np.random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(before)
