"""FashionMNIST as the experiments need it and no user would: data sets by name, for this process's table of them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np
from numpy.random import Generator
from sklearn.datasets import load_digits

from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets import FederatedDataset, SiloData, named
from fedct_flwr.datasets.federated import PublicSet, pool
from fedct_flwr.datasets.partition import dirichlet, iid
from fedct_flwr.seeding import generator
from fedct_flwr.types import Examples, Features

CONCENTRATIONS: Final = ((100.0, 2.0), (100.0, 0.01), (0.01, 0.01))
"""Of the two halves of the training data (arXiv:2310.05696, §5, "Heterogeneous Data Distributions")."""

NUM_DIGITS: Final = 1797
"""scikit-learn has no more digits, so every public set that they are compared with has this size too."""

_OF_THE_DATA: Final = (
    "data", "seed", "num-silos", "private-size", "public-size", "partition", "dirichlet-concentration", "bad-silos",
    "corruption",
)  # fmt: skip
"""Settings that decide which records are where: methods and rows that differ in others have the same data."""
_MIN_RECORDS: Final = 10
_ATTEMPTS: Final = 1000

Choose = Callable[[Examples, Generator], Features]
Load = Callable[[RunConfig], FederatedDataset]


def change(config: RunConfig, **settings: Any) -> RunConfig:
    """A run config with some settings changed (underscores for hyphens)."""
    return RunConfig.from_flower(
        {**config.to_flower(), **{name.replace("_", "-"): value for name, value in settings.items()}}
    )


def halves(concentrations: tuple[float, float]) -> str:
    """Name of the data set whose private records are split by one Dirichlet for each random half of them."""
    return f"fashion-mnist-{concentrations[0]:g}-{concentrations[1]:g}"


def _load_halves(concentrations: tuple[float, float], config: RunConfig) -> FederatedDataset:
    dataset = named.fashion_mnist(config)
    everything = pool([silo.private for silo in dataset.silos])
    rng = generator(config.seed, "halves")
    cut = np.array_split(rng.permutation(everything.size), 2)
    for _ in range(_ATTEMPTS):
        parts = [
            [half[part] for part in dirichlet(everything.y[half], len(dataset.silos), concentration, rng, 0)]
            for half, concentration in zip(cut, concentrations, strict=True)
        ]
        rows = [np.concatenate(both) for both in zip(*parts, strict=True)]
        if min(map(len, rows)) >= _MIN_RECORDS:
            return replace(dataset, name=halves(concentrations), silos=_silos(everything, rows))
    raise AssertionError(f"no split by {concentrations} leaves each silo {_MIN_RECORDS} records")


def _skewed(concentration: float, candidates: Examples, rng: Generator) -> Features:
    """Public images whose classes have shares drawn from Dirichlet(concentration)."""
    classes = np.unique(candidates.y)
    counts = rng.multinomial(NUM_DIGITS, rng.dirichlet(np.full(len(classes), concentration)))
    rows = [
        rng.choice(np.flatnonzero(candidates.y == c), count, replace=False)
        for c, count in zip(classes, counts, strict=True)
    ]
    chosen: Features = candidates.X[rng.permutation(np.concatenate(rows))]
    return chosen


def _from_the_same(candidates: Examples, rng: Generator) -> Features:
    chosen: Features = candidates.X[rng.permutation(candidates.size)[:NUM_DIGITS]]
    return chosen


def _digits(candidates: Examples, rng: Generator) -> Features:
    """Handwritten digits, 8 x 8, each pixel repeated until the images are 28 x 28: no class in common with clothes."""
    pixel = np.arange(28) * 8 // 28
    images = load_digits().images[:, pixel][:, :, pixel]
    flat: Features = (images.reshape(len(images), -1) / 16).astype(np.float32)
    return flat


PUBLIC_SETS: Final[dict[str, Choose]] = {
    "fashion-mnist-public-iid": _from_the_same,
    "fashion-mnist-public-1": partial(_skewed, 1.0),
    "fashion-mnist-public-0.5": partial(_skewed, 0.5),
    "fashion-mnist-public-digits": _digits,
}
"""10,000 private images over the silos, and how 1,797 public ones are chosen."""


def _load_public(name: str, choose: Choose, config: RunConfig) -> FederatedDataset:
    # All training images but one as private records: a data set's public examples come without their labels.
    dataset = named.fashion_mnist(change(config, private_size=59_999, public_size=1))
    everything = pool([silo.private for silo in dataset.silos])
    rng = generator(config.seed, "public variants")
    own, others = np.split(rng.permutation(everything.size), [10_000])
    rows = [own[part] for part in iid(len(own), len(dataset.silos), rng)]
    public = choose(Examples(everything.X[others], everything.y[others]), rng)
    return replace(dataset, name=name, silos=_silos(everything, rows), public=PublicSet(public))


def _load_superclasses_iid(config: RunConfig) -> FederatedDataset:
    """The same records as where silos have one subclass of each, so that pooled they are the same."""
    dataset = named.fashion_superclasses(config)
    everything = pool([silo.private for silo in dataset.silos])
    rows = iid(everything.size, len(dataset.silos), generator(config.seed, "superclasses"))
    return replace(dataset, name="fashion-superclasses-iid", silos=_silos(everything, rows))


def _silos(records: Examples, rows: Sequence[np.ndarray[tuple[int], np.dtype[np.intp]]]) -> tuple[SiloData, ...]:
    nothing = Examples(records.X[:0], records.y[:0])
    return tuple(
        SiloData(f"silo-{number}", Examples(records.X[part], records.y[part]), nothing)
        for number, part in enumerate(rows, start=1)
    )


@lru_cache(maxsize=1)
def _load_once(load: Load, config: RunConfig) -> FederatedDataset:
    return load(config)


def _remembered(load: Load) -> Load:
    """Read and split the images once for all methods of a row and seed: that takes seconds."""

    def loaded(config: RunConfig) -> FederatedDataset:
        given = config.to_flower()
        kept: dict[str, Any] = {name: given[name] for name in _OF_THE_DATA if name in given}
        return _load_once(load, RunConfig.from_flower({"study": "data", "algorithm": "fedct", **kept}))

    return loaded


named._images = lru_cache(maxsize=2)(named._images)
"""Unpacked once in this process: that takes seconds."""

VARIANTS: Final[dict[str, Load]] = {
    "fashion-mnist": _remembered(named.fashion_mnist),
    "fashion-superclasses": _remembered(named.fashion_superclasses),
    "fashion-superclasses-iid": _remembered(_load_superclasses_iid),
    **{halves(both): _remembered(partial(_load_halves, both)) for both in CONCENTRATIONS},
    **{name: _remembered(partial(_load_public, name, choose)) for name, choose in PUBLIC_SETS.items()},
}
