"""FashionMNIST as the experiments need it and no user would, and silos that are bad: data sets by name.

Shifted labels: D. Fan, C. Mendler-Dünner, M. Jaggi, arXiv:2305.18497, §5. Superclasses: D. Li, J. Wang, "FedMD",
arXiv:1910.03581, §4, who have CIFAR-100's, 10 silos and 5,000 public examples.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from benchmarks.data import AT_RANDOM, PIXELS, clothes, fashion_mnist
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets import FederatedDataset, SiloData
from fedct_flwr.datasets.federated import PublicSet, pool
from fedct_flwr.datasets.partition import dirichlet, iid, split_over_silos
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.types import LABEL_DTYPE, Examples, Features, HardLabels, SiloName, generator

BAD: Final = ("silo-2", "silo-9")

CONCENTRATIONS: Final = ((100.0, 2.0), (100.0, 0.01), (0.01, 0.01))
"""Of the two halves of the training data (arXiv:2310.05696, §5, "Heterogeneous Data Distributions")."""

NUM_DIGITS: Final = 1797
"""scikit-learn has no more digits, so every public set that they are compared with has this size too."""

_OF_THE_DATA: Final = (
    "data", "seed", "num-silos", "private-size", "public-size", "partition", "dirichlet-concentration",
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


_OF_TABLES: Final = frozenset({"length", "groups", "bad", "corruption", "rounds", "steps"})


def config_of(settings: Mapping[str, Any]) -> RunConfig:
    """The settings of a run, without those that only tables know; ``steps`` in all give its rounds."""
    given = {key: value for key, value in settings.items() if key not in _OF_TABLES}
    if "steps" in settings:
        given["num-server-rounds"] = max(1, settings["steps"] // settings.get("local-steps", 50))
    return RunConfig.from_flower(given)


def halves(concentrations: tuple[float, float]) -> str:
    """Name of the data set whose private records are split by one Dirichlet for each random half of them."""
    return f"fashion-mnist-{concentrations[0]:g}-{concentrations[1]:g}"


def _load_halves(concentrations: tuple[float, float], config: RunConfig) -> FederatedDataset:
    dataset = fashion_mnist(config)
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
    dataset = fashion_mnist(change(config, private_size=59_999, public_size=1))
    everything = pool([silo.private for silo in dataset.silos])
    rng = generator(config.seed, "public variants")
    own, others = np.split(rng.permutation(everything.size), [10_000])
    rows = [own[part] for part in iid(len(own), len(dataset.silos), rng)]
    public = choose(Examples(everything.X[others], everything.y[others]), rng)
    return replace(dataset, name=name, silos=_silos(everything, rows), public=PublicSet(public))


_SUPERCLASSES: Final = ("top", "trouser", "dress", "shoe", "bag")
_SUPERCLASS_OF: Final = np.array([0, 1, 0, 2, 0, 3, 0, 3, 4, 3], dtype=LABEL_DTYPE)
"""Superclass of each class: four are tops, three are shoes."""


def one_subclass_each(y: HardLabels, subclasses: HardLabels, num_silos: int, rng: Generator) -> list[NDArray[np.intp]]:
    """Positions of each silo's examples: of every class one subclass alone, split evenly among the silos that have it.

    Silo ``k`` has, of a class with ``n`` subclasses, the one that is number ``k mod n`` in a random order. All silos
    tell the same classes apart, and each has to learn from others what else belongs to them. Subclasses that no silo
    has are left out.
    """
    parts: list[list[NDArray[np.intp]]] = [[] for _ in range(num_silos)]
    for c in np.unique(y):
        order = rng.permutation(np.unique(subclasses[y == c]))
        for number, subclass in enumerate(order[:num_silos]):
            holders = parts[number :: len(order)]
            members = rng.permutation(np.flatnonzero((y == c) & (subclasses == subclass)))
            for part, piece in zip(holders, np.array_split(members, len(holders)), strict=True):
                part.append(piece)
    return [np.sort(np.concatenate(part)) for part in parts]


def _superclasses(name: str, config: RunConfig) -> FederatedDataset:
    """Kinds of clothes, of which each silo has one kind of tops and one of shoes, or the same records iid."""
    known, schema = clothes(), Schema.numeric(_SUPERCLASSES, PIXELS)
    train, test = (Examples(part.X, _SUPERCLASS_OF[part.y]) for part in known)
    how = {"private": config.private_size or 3000, "public": 5000, "silos": 10}
    dataset = split_over_silos(name, schema, train, **how, config=config, test=test)
    own = generator(config.seed, "split").permutation(train.size)[: how["private"]]
    rng, num_silos = generator(config.seed, "partition"), len(dataset.silos)
    parts = [own[part] for part in one_subclass_each(train.y[own], known[0].y[own], num_silos, rng)]
    if name.endswith("-iid"):
        everything = np.concatenate(parts)
        parts = [everything[part] for part in iid(len(everything), num_silos, generator(config.seed, "superclasses"))]
    return replace(dataset, silos=_silos(train, parts))


def _silos(records: Examples, rows: Sequence[np.ndarray[tuple[int], np.dtype[np.intp]]]) -> tuple[SiloData, ...]:
    nothing = Examples(records.X[:0], records.y[:0])
    return tuple(
        SiloData(f"silo-{number}", Examples(records.X[part], records.y[part]), nothing)
        for number, part in enumerate(rows, start=1)
    )


def shifted(dataset: FederatedDataset, silos: Collection[SiloName]) -> FederatedDataset:
    """The data set with all private labels of these silos moved on by a class, the last followed by the first."""
    return relabeled(dataset, silos, lambda y, silo: (y.astype(np.int64) + 1) % len(dataset.schema.classes))


def relabeled(
    dataset: FederatedDataset, silos: Collection[SiloName], labels: Callable[[HardLabels, SiloName], NDArray[Any]]
) -> FederatedDataset:
    """The data set with other private labels at these silos; their test records stay as they are."""

    def of(silo: SiloData) -> SiloData:
        own = silo.private
        return replace(silo, private=Examples(own.X, labels(own.y, silo.name).astype(LABEL_DTYPE)))

    return replace(dataset, silos=tuple(of(silo) if silo.name in silos else silo for silo in dataset.silos))


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


VARIANTS: Final[dict[str, Load]] = {
    **AT_RANDOM,
    "fashion-mnist": _remembered(fashion_mnist),
    "fashion-mnist-silos-2-and-9-shifted": _remembered(lambda config: shifted(fashion_mnist(config), BAD)),
    **{
        name: _remembered(partial(_superclasses, name)) for name in ("fashion-superclasses", "fashion-superclasses-iid")
    },
    **{halves(both): _remembered(partial(_load_halves, both)) for both in CONCENTRATIONS},
    **{name: _remembered(partial(_load_public, name, choose)) for name, choose in PUBLIC_SETS.items()},
}
