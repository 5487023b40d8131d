"""Silos that are bad on purpose, to see what a consensus makes of them. For simulation only.

Shifted labels: D. Fan, C. Mendler-Dünner, M. Jaggi, "Collaborative learning via prediction consensus", NeurIPS 2023,
§5 ("low-quality" silos). Flipped ones: M. Fang, X. Cao, J. Jia, N. Gong, "Local model poisoning attacks to
Byzantine-robust federated learning", USENIX Security 2020.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np
from numpy.random import Generator

from fedct_flwr.config import RunConfig
from fedct_flwr.config.setting_rules import Uses, uses
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.seeding import generator
from fedct_flwr.types import LABEL_DTYPE, ConfigError, Examples, HardLabels

Corrupt: TypeAlias = Callable[[HardLabels, int, int, Generator], HardLabels]


def shifted(y: HardLabels, num_classes: int, by: int, rng: Generator) -> HardLabels:
    """Every label moved on by ``by`` classes, the last followed by the first.

    >>> shifted(np.int16([0, 1, 2]), 3, 1, np.random.default_rng(0))
    array([1, 2, 0], dtype=int16)
    """
    return ((y.astype(np.int64) + by) % num_classes).astype(LABEL_DTYPE)


def flipped(y: HardLabels, num_classes: int, by: int, rng: Generator) -> HardLabels:
    """The first class for the last, the second for the last but one, and so on.

    >>> flipped(np.int16([0, 1, 2, 3]), 4, 0, np.random.default_rng(0))
    array([3, 2, 1, 0], dtype=int16)
    """
    return (num_classes - 1 - y).astype(LABEL_DTYPE)


def random(y: HardLabels, num_classes: int, by: int, rng: Generator) -> HardLabels:
    """Labels drawn at random, each class as likely."""
    return rng.integers(0, num_classes, len(y)).astype(LABEL_DTYPE)


OF_LABELS: Final[dict[str, Corrupt]] = {"label-shift": shifted, "label-flip": flipped, "random-labels": random}
"""What ``corruption`` does to a bad silo's private labels; its test records stay as they are."""

OF_CORRUPTION: Final[dict[str, Uses]] = {
    "none": {},
    "label-shift": uses("corruption-number"),
    "label-flip": {},
    "random-labels": {},
    "collusion": uses("corruption-number"),
}
"""The settings of each: by how many classes labels are shifted, or for which class votes are cast."""


def corrupted(dataset: FederatedDataset, config: RunConfig) -> FederatedDataset:
    """The data set with the private labels of the run config's ``bad-silos`` as its ``corruption`` leaves them.

    Those of colluders stay as they are: their votes are bad (``learners.colluder``). Raises ConfigError for a number
    of classes that does not fit the data set, or a data set without classes.
    """
    classes = len(dataset.schema.classes)
    if config.corruption == "none":
        return dataset
    dataset.schema.outcome.check_settings(config, "corruption")
    if config.corruption_number >= classes or (config.corruption == "label-shift" and config.corruption_number == 0):
        least = 1 if config.corruption == "label-shift" else 0
        raise ConfigError(
            f"corruption-number is {config.corruption_number} but {config.data!r} has {classes} classes: set it to "
            f"{least}..{classes - 1}"
        )
    if config.corruption not in OF_LABELS:
        return dataset
    corrupt = OF_LABELS[config.corruption]
    silos = []
    for silo in dataset.silos:
        if silo.name in config.bad_silos:
            rng = generator(config.seed, "corruption", silo.name)
            y = corrupt(silo.private.y, classes, config.corruption_number, rng)
            silo = replace(silo, private=Examples(silo.private.X, y))
        silos.append(silo)
    return replace(dataset, silos=tuple(silos))
