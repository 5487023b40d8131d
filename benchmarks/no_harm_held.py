"""Sites on which nothing was chosen: other columns as silos, values that go missing, and rules that only trees find.

Defaults are tuned on ``no_harm_rows``; whether they hold elsewhere, these tell. Do not choose by them.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import numpy as np
from numpy.random import Generator

from benchmarks.natural_silos import Source, load_source
from fedct_flwr.config import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset, SiloData, hold_out, pool, shuffled
from fedct_flwr.datasets.public_set import PublicSet
from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.seeding import generator
from fedct_flwr.types import LABEL_DTYPE, Examples

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

_LABS: Final = ("tsh", "t3", "tt4", "t4u", "fti", "tbg", "age")
_FLAGS: Final = 20
_SIZES: Final = (49, 110, 260, 600, 1200)
_SHARES: Final = (0.48, 0.13, 0.35, 0.20, 0.28)


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


def labs(name: str, config: RunConfig) -> FederatedDataset:
    """Five clinics of 49 to 1,200 patients: skewed laboratory values, flags, and thresholds that decide together.

    Nothing is linear in the values as they are. Which values are measured depends on the clinic; 28 columns in all.
    """
    rng = generator(config.seed, "held", name)
    unlabeled, silos = [], []
    for place, (size, share) in enumerate(zip(_SIZES, _SHARES, strict=True)):
        X, y = _patients(2 * size + 80, share, rng)
        often = np.zeros(X.shape[1], dtype=bool)
        often[rng.choice(np.arange(3, 6), 1)] = True
        public, test, private = hold_out(Examples(_gaps(X, often, rng), y), (0.25, 0.25), rng)
        unlabeled.append(public)
        silos.append(SiloData(f"clinic-{place + 1}", Examples(private.X[:size], private.y[:size]), test))
    public = shuffled(pool(unlabeled), generator(config.seed, "public order"))
    columns = (*map(Column, _LABS), *(Column(f"flag-{n}", ("no", "yes")) for n in range(_FLAGS)))
    source = Column("referred by", ("practice", "ward", "other"))
    return FederatedDataset(
        name=name,
        schema=Schema(("healthy", "ill"), (*columns, source)),
        public=PublicSet(public.X[: sum(_SIZES) // 3]),
        silos=tuple(silos),
        test=pool([silo.test for silo in silos]),
    )


def _patients(count: int, share: float, rng: Generator) -> tuple[np.ndarray, np.ndarray]:
    """Patients ``(count, 28)`` and whether they are ill, drawn from many so that ``share`` of them are."""
    many = 40 * count
    latent = rng.normal(size=many)
    tsh = np.exp(0.4 - 0.9 * latent + rng.normal(size=many) * 0.7 + (rng.random(many) < 0.06) * 2.5)
    tt4 = 105 + 22 * latent + 20 * rng.normal(size=many)
    t3 = np.exp(0.6 + 0.15 * latent + 0.2 * rng.normal(size=many) - (rng.random(many) < 0.08) * 0.9)
    t4u = rng.normal(1.0, 0.18, many)
    age = rng.gamma(9, 5.5, many)
    flags = rng.random((many, _FLAGS)) < rng.permutation(np.linspace(0.02, 0.35, _FLAGS))
    treated, pregnant = flags[:, 0], flags[:, 1]
    fti = tt4 / t4u
    low = (tsh > 6) & (fti < 105) & ~treated
    sick = (t3 < 1.2) & (tsh < 4.5) & ~pregnant
    bound = (t4u > 1.25) | (t4u < 0.78)
    ill = (low | sick | (bound & (tt4 > 118))) ^ (rng.random(many) < 0.03)
    chosen = np.concatenate(
        [
            rng.choice(np.flatnonzero(ill == hit), part, replace=False)
            for hit, part in ((True, round(count * share)), (False, count - round(count * share)))
        ]
    )
    rows = rng.permutation(chosen)
    tbg = np.exp(rng.normal(size=many) * 0.4 + 3)
    by = rng.integers(3, size=many)
    X = np.column_stack([tsh, t3, tt4, t4u, fti, tbg, age, flags, by]).astype(np.float64)
    return X[rows], ill[rows].astype(LABEL_DTYPE)


def _gaps(X: np.ndarray, often: np.ndarray, rng: Generator) -> np.ndarray:
    found = X.astype(np.float64)
    missing = rng.random(found.shape) < np.where(often, 0.7, 0.08)
    found[missing] = np.nan
    return found


ROWS: Final[Mapping[str, Callable[[RunConfig], FederatedDataset]]] = {
    **{name: partial(natural, name) for name in SOURCES},
    "held-labs": partial(labs, "held-labs"),
}
"""Loaders by name."""
