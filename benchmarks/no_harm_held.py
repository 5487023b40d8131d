"""Sites on which nothing was chosen: other columns as silos, and values that go missing.

Defaults are tuned on ``no_harm_rows``; whether they hold elsewhere, these tell. Do not choose by them.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import numpy as np
from numpy.random import Generator

from benchmarks.natural_silos import Source, load_source
from fedct_flwr.config import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset, SiloData, pool
from fedct_flwr.datasets.public_set import PublicSet
from fedct_flwr.seeding import generator
from fedct_flwr.types import Examples

_INCOMES: Final = ("<=50K", ">50K")
SOURCES: Final = {
    "held-adult-by-occupation": Source(
        "adult", "adult.csv.gz", "occupation", "income", ">50K", _INCOMES, ["split", "fnlwgt"]
    ),
    "held-mushroom-by-population": Source(
        "mushroom", "mushroom.csv.gz", "population", "class", "poisonous", ("edible", "poisonous"), ["odor"]
    ),
    "held-pupils-by-authority": Source(
        "chem97", "chem97.csv.gz", "lea", "score", 8, ("below 8", "8 or more"), ["school", "student"]
    ),
}
_MOST_SILOS: Final = 8
_TESTED: Final = 300


def natural(name: str, config: RunConfig) -> FederatedDataset:
    """Up to eight silos of 50 to 1,200 records, a tenth of whose values is missing, in some columns of a silo more."""
    whole = load_source(name, SOURCES[name], config)
    rng = generator(config.seed, "held", name)
    large = sorted(whole.silos, key=lambda silo: -silo.private.size)
    kept = [large[place] for place in np.sort(rng.permutation(len(large))[:_MOST_SILOS])]
    silos = []
    for silo in kept:
        count = min(silo.private.size, int(np.exp(rng.uniform(np.log(50), np.log(1200)))))
        often = rng.random(len(whole.schema.columns)) < 0.15
        private, test = (
            Examples(_gaps(part.X[:most], often, rng), part.y[:most])
            for part, most in ((silo.private, count), (silo.test, _TESTED))
        )
        silos.append(SiloData(silo.name, private, test))
    some = rng.permutation(len(whole.public))[: sum(silo.private.size for silo in silos) // 3]
    return FederatedDataset(
        name=name,
        schema=whole.schema,
        public=PublicSet(_gaps(whole.public.X[some], np.zeros(len(whole.schema.columns), dtype=bool), rng)),
        silos=tuple(silos),
        test=pool([silo.test for silo in silos]),
    )


def _gaps(X: np.ndarray, often: np.ndarray, rng: Generator) -> np.ndarray:
    found = X.astype(np.float64)
    missing = rng.random(found.shape) < np.where(often, 0.7, 0.08)
    found[missing] = np.nan
    return found


ROWS: Final[Mapping[str, Callable[[RunConfig], FederatedDataset]]] = {name: partial(natural, name) for name in SOURCES}
"""Loaders by name."""
