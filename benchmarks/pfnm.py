"""PFNM: one round in which silos train apart, and then neurons that do the same are found and averaged.

Yurochkin, Agarwal, Ghosh, Greenewald, Hoang, Khazaeni, "Bayesian nonparametric federated learning of neural networks",
ICML 2019, arXiv:1905.12022, §3, with a single communication. A silo's neurons are noisy copies of global ones. How many
of these there are, and which of them a silo has, is up to a Beta-Bernoulli process; the most probable answer is looked
for silo by silo, as a linear assignment. A neuron is the vector of its incoming weights, its bias and its outgoing
weights. With several hidden layers the highest is matched first.

Unlike the published code, this counts the popularity of a global neuron in full, does not bound the width of a layer,
and does not weigh outgoing weights by records of each class, which silos here do not tell.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from fedct_flwr import datasets
from fedct_flwr.config.run import RunConfig
from fedct_flwr.learners import Averageable
from fedct_flwr.learners.build import build_learner
from fedct_flwr.types import generator

Matrix: TypeAlias = NDArray[np.float64]
Vector: TypeAlias = NDArray[np.float64]
Places: TypeAlias = NDArray[np.intp]
"""For each of a silo's neurons, the global neuron that it is a copy of."""

_SWEEPS: Final = 5
"""Passes in which all silos are matched again, as in the published code."""


class Layer(NamedTuple):
    """Weights ``(neurons, inputs)`` and biases ``(neurons,)``."""

    weights: NDArray[np.floating]
    biases: NDArray[np.floating]


@dataclass(frozen=True)
class Prior:
    """Prior distribution of the neurons; all parameters are 1 in the published code.

    Each weight of a global neuron is normal around zero with ``global_variance`` (sigma_0^2), each weight of a silo's
    copy is normal around it with ``silo_variance`` (sigma^2), and a silo is expected to have ``gamma`` neurons
    (gamma_0).
    """

    silo_variance: float = 1.0
    global_variance: float = 1.0
    gamma: float = 1.0

    @property
    def zeros(self) -> float:
        """Number of zero copies that the prior counts as: a global neuron is ``sum / (count + zeros)``."""
        return self.silo_variance / self.global_variance


class Matched(NamedTuple):
    """Global neurons ``(global, weights)``, and of each silo's own neurons which of these they are copies of."""

    neurons: Matrix
    places: list[Places]


def match_networks(networks: Sequence[Sequence[Layer]], prior: Prior, rng: np.random.Generator) -> list[Layer]:
    """One fully connected network from those of the silos, whose hidden layers may differ in width.

    Raises ValueError for networks without a hidden layer, or with different numbers of layers.
    """
    *hidden, last = zip(*networks, strict=True)
    if not hidden:
        raise ValueError("a network without a hidden layer has no neurons to match")
    biases: Vector = np.mean([layer.biases for layer in last], axis=0)
    outgoing = [layer.weights.T for layer in last]
    found: list[Layer] = []
    for depth in reversed(range(len(hidden))):
        silos = hidden[depth]
        num_inputs = silos[0].weights.shape[1] if depth == 0 else 0
        vectors = [
            np.column_stack([layer.weights[:, :num_inputs], layer.biases, out])
            for layer, out in zip(silos, outgoing, strict=True)
        ]
        neurons, places = match_neurons(vectors, prior, rng)
        found.insert(0, Layer(neurons[:, num_inputs + 1 :].T, biases))
        incoming, biases = neurons[:, :num_inputs], neurons[:, num_inputs]
        outgoing = [_spread(layer.weights.T, own, len(neurons)) for layer, own in zip(silos, places, strict=True)]
    return [Layer(incoming, biases), *found]


def match_neurons(silos: Sequence[NDArray[np.floating]], prior: Prior, rng: np.random.Generator) -> Matched:
    """The global neurons that silos' neurons ``(neurons, weights)`` are copies of, no two of one silo of the same one.

    Those of the silo with most neurons come first. The others are matched to what there is, then all silos in random
    order again, given what the rest has (§3, Algorithm 1). A global neuron is the sum of its copies over their number
    and what the prior counts for (Proposition 1).
    """
    order = sorted(range(len(silos)), key=lambda silo: -len(silos[silo]))
    sums: Matrix = np.zeros((0, silos[0].shape[1]))
    counts: Vector = np.zeros(0)
    places: list[Places] = [np.zeros(0, dtype=np.intp)] * len(silos)
    for silo in [*order, *(number for _ in range(_SWEEPS) for number in rng.permutation(len(silos)))]:
        neurons = silos[silo].astype(np.float64)
        sums[places[silo]] -= neurons[: len(places[silo])]
        counts[places[silo]] -= 1
        left = counts > 0
        sums, counts, places = sums[left], counts[left], [(np.cumsum(left) - 1)[own] for own in places]
        own = linear_sum_assignment(costs(neurons, sums, counts, len(silos), prior))[1]
        new = np.flatnonzero(own >= len(sums))
        own[new] = len(sums) + np.arange(len(new))
        sums = np.concatenate([sums, np.zeros((len(new), sums.shape[1]))])
        counts = np.concatenate([counts, np.zeros(len(new))])
        sums[own] += neurons
        counts[own] += 1
        places[silo] = own
    return Matched(sums / (counts + prior.zeros)[:, None], places)


def costs(neurons: Matrix, sums: Matrix, counts: Vector, num_silos: int, prior: Prior) -> Matrix:
    """Cost of matching a silo's ``neurons`` ``(n, weights)`` with global neurons, or with new ones.

    ``sums`` ``(global, weights)`` and ``counts`` ``(global,)`` are those of the other silos' copies. Returns ``(n,
    global + n)``, logarithms of probabilities times -2 (Proposition 2): of a global neuron by the density at its mean
    and the odds of one more copy; of the k-th new one by the density at its mean and ``gamma / num_silos / k``.
    """
    squares, others = (neurons**2).sum(axis=1)[:, None], (sums**2).sum(axis=1)
    joined = (others + 2 * neurons @ sums.T + squares) / (counts + 1 + prior.zeros)
    gained = (joined - others / (counts + prior.zeros)) / prior.silo_variance
    known = gained + 2 * np.log(counts / (num_silos - counts))
    alone = squares / (1 + prior.zeros) / prior.silo_variance
    ranks = np.arange(1, len(neurons) + 1)
    return -np.concatenate([known, alone + 2 * np.log(prior.gamma / num_silos / ranks)], axis=1)


def _spread(outgoing: NDArray[np.floating], places: Places, width: int) -> NDArray[np.floating]:
    """Weights ``(neurons, next neurons)`` as those to all ``width`` global next neurons."""
    spread = np.zeros((len(outgoing), width))
    spread[:, places] = outgoing
    return spread


def matched(config: RunConfig, gamma: float) -> tuple[float, int]:
    """Accuracy of the network that is matched from those that silos train alone, and bytes of one of theirs.

    Between their layers there is nothing but ReLU, as in ``mlp``.
    """
    dataset = datasets.load(config)
    networks, size = [], 0
    for position, silo in enumerate(dataset.silos):
        learner = build_learner(config, dataset, position, silo.private.X).fit(*silo.private)
        assert isinstance(learner, Averageable)
        weights = [*learner.weights().values()]
        networks.append([Layer(*both) for both in zip(weights[::2], weights[1::2], strict=True)])
        size = sum(value.nbytes for value in weights)
    *hidden, last = match_networks(networks, Prior(gamma=gamma), generator(config.seed, "matching"))
    X = dataset.test.X.reshape(len(dataset.test.X), -1)
    for layer in hidden:
        X = np.maximum(X @ layer.weights.T + layer.biases, 0)
    found = (X @ last.weights.T + last.biases).argmax(axis=1)
    return float((found == dataset.test.y).mean()), size
