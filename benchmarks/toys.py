"""The two toy problems of prediction consensus: a bad silo among four, and polynomials that agree.

D. Fan, C. Mendler-Dünner, M. Jaggi, arXiv:2305.18497, §5.1 (Figure 2), §3.4 (Figure 1) and Appendix A. The text at hand
gives neither the means of the Gaussians nor the cubic function and where the silos' points lie: those here are ours.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import NDArray

from benchmarks.declared import tables
from benchmarks.harness import Settings
from benchmarks.methods import SETTINGS
from benchmarks.prediction_consensus import consensus
from benchmarks.variants import shifted
from fedct_flwr.config.run import RunConfig
from fedct_flwr.consensus.prediction import dynamic, naive, similarity_of_values, targets_of
from fedct_flwr.datasets.federated import FederatedDataset, SiloData
from fedct_flwr.datasets.partition import split_over_silos
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.learners.soft import weighted_values
from fedct_flwr.types import LABEL_DTYPE, Examples, generator

MEANS: Final = np.array([[-2.0, -2.0], [-2.0, 2.0], [2.0, -2.0], [2.0, 2.0]])
FLIPPED: Final = 0.1
"""Share of every silo's labels that is wrong; of the bad silo's all are shifted, right or wrong."""
CENTERS: Final = (-2.0, 0.0, 2.0)
_POINTS: Final = np.linspace(-3, 3, 50)
_RULES: Final = {"local only": None, "naive": naive(), "dynamic": dynamic(similarity_of_values)}


def small_network(num_features: int, num_classes: int) -> Any:
    """Three layers with 5, 10 and as many neurons as classes (§5.1)."""
    from torch import nn

    layers = (nn.Linear(num_features, 5), nn.ReLU(), nn.Linear(5, 10), nn.ReLU(), nn.Linear(10, num_classes))
    return nn.Sequential(*layers)


def four_gaussians(config: RunConfig) -> FederatedDataset:
    """Four silos with even mixtures of four Gaussians, a tenth of their labels wrong, and silo 4's shifted."""
    rng = generator(config.seed, "gaussians")
    y = (np.arange(2400) % len(MEANS)).astype(LABEL_DTYPE)
    X = (MEANS[y] + rng.normal(size=(len(y), 2))).astype(np.float32)
    schema = Schema.numeric(("a", "b", "c", "d"), ("x1", "x2"))
    dataset = split_over_silos(
        "four-gaussians", schema, Examples(X, y), private=200, public=200, silos=4, config=config
    )

    def noisy(silo: SiloData) -> SiloData:
        own = silo.private
        wrong = rng.random(own.size) < FLIPPED
        other = (own.y + rng.integers(1, len(MEANS), own.size)) % len(MEANS)
        return replace(silo, private=Examples(own.X, np.where(wrong, other, own.y).astype(LABEL_DTYPE)))

    return shifted(replace(dataset, silos=tuple(map(noisy, dataset.silos))), ["silo-4"])


def true_function(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The cubic function that all silos see parts of."""
    return x**3 - 3 * x


def _polynomials(rule: str, settings: Settings) -> dict[str, float]:
    """Squared errors of strong and weak silos after the rounds, each round solved exactly (equation 3, lambda 1)."""
    degrees: Sequence[int] = settings["degrees"]
    rng, trust = np.random.default_rng(settings["seed"]), _RULES[rule]
    own: list[tuple[Any, Any]] = []
    for center in (*CENTERS, 0.0)[: len(degrees)]:
        x = rng.normal(center, 1.0, 50)
        own.append((x, true_function(x) + rng.normal(size=50)))
    models = [Polynomial.fit(*points, degree) for points, degree in zip(own, degrees, strict=True)]
    for _ in range(settings["rounds"] if trust else 0):
        values = np.stack([model(_POINTS) for model in models])
        assert trust is not None
        targets = targets_of(trust.apply([str(n) for n in range(len(degrees))], values, {})[0], values)
        for n, (points, degree) in enumerate(zip(own, degrees, strict=True)):
            together = weighted_values(*points, _POINTS, targets[n], 1.0)
            # Polynomial.fit weighs residuals before they are squared.
            models[n] = Polynomial.fit(
                together.X, np.asarray(together.y, dtype=np.float64), degree, w=np.sqrt(together.weights)
            )
    errors = ((np.stack([model(_POINTS) for model in models]) - true_function(_POINTS)) ** 2).mean(axis=1)
    weak = {"weak silo": float(errors[3])} if len(degrees) > len(CENTERS) else {}
    return {"strong silos": float(errors[:3].mean()), **weak}


def _either(rule: str, settings: Settings) -> dict[str, float]:
    if "degrees" in settings:
        return _polynomials(rule, settings)
    found = consensus(rule, settings)
    return {"good silos": found["accuracy"], "bad silo": found["bad silos"]}


TABLES: Final = tables(
    __file__,
    {rule: partial(_either, rule) for rule in _RULES},
    {"network": SETTINGS},
    {"four-gaussians": four_gaussians},
)
