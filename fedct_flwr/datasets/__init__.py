"""Data sets by name, each as a federation of silos with a public set."""

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from fedct_flwr.config import MEMORY, STUDY, RunConfig
from fedct_flwr.config.uses import Needs, Uses, uses
from fedct_flwr.datasets import (
    adult,
    breast_cancer,
    cifar10,
    covertype,
    diabetes,
    fashion_mnist,
    files,
    heart_disease,
    memory,
    mushroom,
    svhn,
    wine_quality,
)
from fedct_flwr.datasets.corruption import corrupted
from fedct_flwr.datasets.federated import FederatedDataset, SiloData
from fedct_flwr.text.suggest import suggest
from fedct_flwr.types import ConfigError

LOADERS: Final[dict[str, Callable[[RunConfig], FederatedDataset]]] = {
    "heart-disease": heart_disease.load,
    "breast-cancer": breast_cancer.load,
    "diabetes": diabetes.load,
    "wine-quality": wine_quality.load,
    "adult": adult.load,
    "mushroom": mushroom.load,
    "covertype": covertype.load,
    "fashion-mnist": fashion_mnist.load,
    "fashion-superclasses": fashion_mnist.load_superclasses,
    "cifar10": cifar10.load,
    "svhn": svhn.load,
    "files": files.load,
}

_SPLIT: Final = uses("num-silos", "private-size", "public-size")
_PARTITIONED: Final = (
    _SPLIT
    | uses("partition")
    | uses(
        "dirichlet-concentration",
        needs=Needs("partition = 'dirichlet' or 'dirichlet-by-silo'", lambda config: config.partition != "iid"),
    )
)

SETTINGS: Final[dict[str, Uses]] = {
    # Hospitals, or whoever wrote the files, have split the records already.
    "heart-disease": uses("public-fraction", "test-fraction"),
    "files": uses("data-dir", "label-column", "text-columns", "group-column", "outcome", "accept", "test-fraction"),
    # Silos differ by the subclasses that they have, which a partition would mix.
    "fashion-superclasses": _SPLIT,
    "breast-cancer": _PARTITIONED,
    "diabetes": _PARTITIONED,
    "wine-quality": _PARTITIONED,
    "adult": _PARTITIONED,
    "mushroom": _PARTITIONED,
    "covertype": _PARTITIONED,
    "fashion-mnist": _PARTITIONED,
    "cifar10": _PARTITIONED,
    "svhn": _PARTITIONED,
    MEMORY: uses("data-dir", "label-column", "text-columns", "group-column", "outcome", "accept", "test-fraction"),
    STUDY: uses("data-dir"),
}
"""The settings of each data set. One that is not here may use all of them."""


# A simulated silo's process is asked every round; it should read its data once.
@lru_cache(maxsize=2)
def load(config: RunConfig) -> FederatedDataset:
    """The data set that the run config names. Raises ConfigError for an unknown name, DataError for bad data."""
    if config.data == STUDY:
        raise ConfigError(
            f"data = {STUDY!r} is for real silos, whose records are at the silos: run it on a SuperLink with "
            "`fedct coordinator run`, or name a data set"
        )
    if config.data == MEMORY:
        return corrupted(memory.load(config), config)
    if config.data not in LOADERS:
        raise ConfigError(f"unknown data set {config.data!r}: {suggest(config.data, LOADERS)}")
    return corrupted(LOADERS[config.data](config), config)


__all__ = ["LOADERS", "FederatedDataset", "SiloData", "load"]
