"""Sites that differ, to judge defaults on: real ones with few records each, and made ones with one kind of shift."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from numpy.random import Generator

from benchmarks.data import federated
from benchmarks.natural_silos import NATURAL
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset, SiloData, pool, shuffled
from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.types import LABEL_DTYPE, Examples, generator

_MOST_TESTED: Final = 300
_NUMBERS, _CATEGORIES = 16, 12
_NO_PUBLIC: Final = 3
"""Records of all silos together for each public example of a real data set."""


def few_records(name: str, fewest: int, most: int, config: RunConfig) -> FederatedDataset:
    """A data set with silos of its own, each cut to between ``fewest`` and ``most`` records, as hospitals have."""
    whole = NATURAL[name](config)
    rng = generator(config.seed, "few records", name)
    silos = []
    for silo in whole.silos:
        count = min(silo.private.size, int(np.exp(rng.uniform(np.log(fewest), np.log(most)))))
        if count >= fewest // 2:
            rows = rng.permutation(silo.private.size)[:count]
            private = Examples(silo.private.X[rows], silo.private.y[rows])
            test = Examples(silo.test.X[:_MOST_TESTED], silo.test.y[:_MOST_TESTED])
            silos.append(SiloData(silo.name, private, test))
    public = rng.permutation(len(whole.public))[: sum(silo.private.size for silo in silos) // _NO_PUBLIC]
    return federated(whole.name, whole.schema, silos, whole.public.X[public])


@dataclass(frozen=True)
class Sites:
    """Made sites with mixed columns and missing values, of these ``sizes`` and shares of the ill.

    ``covariates`` and ``concept`` are how far sites differ in what they see, and in what it means. ``noisy`` and
    ``turned`` are the sites whose labels are wrong in 3 of 10 records, or in all.
    """

    sizes: tuple[int, ...] = (49, 90, 130, 300, 600)
    shares: tuple[float, ...] = (0.48, 0.13, 0.30, 0.20, 0.40)
    covariates: float = 0.15
    concept: float = 0.0
    noisy: int | None = None
    turned: int | None = None


MADE: Final = {
    "sites-prevalence": Sites(),
    "sites-concept": Sites(concept=0.8),
    "sites-noisy": Sites(noisy=2),
    "sites-turned": Sites(turned=3),
    "sites-tiny": Sites(sizes=(20, 30, 45, 60, 80, 120), shares=(0.5, 0.3, 0.35, 0.25, 0.4, 0.45)),
}


def made(name: str, config: RunConfig) -> FederatedDataset:
    """Sites whose classes depend on ranges of some columns, on a pair of others, and on categories."""
    sites, rng = MADE[name], generator(config.seed, "sites", name)
    mixing = rng.normal(size=(_NUMBERS, _NUMBERS)) * 0.3 + np.eye(_NUMBERS)
    slopes = rng.normal(size=_NUMBERS) * (rng.random(_NUMBERS) < 0.5)
    effects = [rng.normal(size=rng.integers(2, 6)) * 0.8 * (rng.random() < 0.5) for _ in range(_CATEGORIES)]
    ranges = rng.choice([-1, 1], 3) * rng.uniform(2.5, 5, 3)
    unlabeled, silos = [], []
    for place, (size, share) in enumerate(zip(sites.sizes, sites.shares, strict=True)):
        tested = max(12, size // 4)
        count = size + tested + size // 2
        shift = rng.normal(size=_NUMBERS) * sites.covariates
        numbers = rng.normal(size=(count, _NUMBERS)) @ mixing + shift
        categories = np.stack([rng.integers(0, len(effect), count) for effect in effects], axis=1)
        own = slopes + rng.normal(size=_NUMBERS) * sites.concept
        risk = numbers @ own * 0.3
        risk += 0.5 * sum(effect[categories[:, column]] for column, effect in enumerate(effects))
        risk += (ranges * (np.abs(numbers[:, :3]) > 0.9)).sum(axis=1)
        risk += 2.0 * (numbers[:, 6] > 0.3) * (numbers[:, 7] < 0.5)
        chance = 1 / (1 + np.exp(-2.5 * (risk - np.quantile(risk, 1 - share))))
        y = _wrong(rng.random(count) < chance, place, sites, rng).astype(LABEL_DTYPE)
        X = _with_gaps(numbers, categories, rng)
        cuts = np.split(np.arange(count), [size, size + tested])
        private, test, public = (Examples(X[part], y[part]) for part in cuts)
        unlabeled.append(public)
        silos.append(SiloData(f"site-{place + 1}", private, test))
    public = shuffled(pool(unlabeled), generator(config.seed, "public order"))
    columns = tuple(Column(f"number-{i}") for i in range(_NUMBERS))
    columns += tuple(
        Column(f"category-{i}", tuple(str(value) for value in range(len(effect)))) for i, effect in enumerate(effects)
    )
    return federated(name, Schema(("healthy", "ill"), columns), silos, public.X)


def _wrong(ill: np.ndarray, place: int, sites: Sites, rng: Generator) -> np.ndarray:
    if place == sites.turned:
        return ~ill
    return ill ^ (rng.random(len(ill)) < 0.3) if place == sites.noisy else ill


def _with_gaps(numbers: np.ndarray, categories: np.ndarray, rng: Generator) -> np.ndarray:
    """One table, one value of twenty missing, and most of a few columns that this site hardly ever measures."""
    X = np.concatenate([numbers, categories], axis=1).astype(np.float64)
    gaps = rng.random(X.shape) < 0.05
    for column in rng.choice(np.arange(8, _NUMBERS), 3, replace=False):
        gaps[:, column] |= rng.random(len(X)) < 0.8
    X[gaps] = np.nan
    return X


ROWS: Final[dict[str, Callable[[RunConfig], FederatedDataset]]] = {
    "few-adult-by-workclass": partial(few_records, "adult-by-workclass", 60, 600),
    "few-adult-by-education": partial(few_records, "adult-by-education", 60, 300),
    "few-mushroom-by-habitat": partial(few_records, "mushroom-by-habitat", 40, 150),
    "few-wine-by-type": partial(few_records, "wine-by-type", 60, 800),
    **{name: partial(made, name) for name in MADE},
}
"""Loaders by name, for this process's table of data sets."""
