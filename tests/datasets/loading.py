"""Data sets by name."""

from typing import Any

from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets import LOADERS, FederatedDataset


def load(name: str, **settings: Any) -> FederatedDataset:
    raw = {"study": "s", "data": name} | {key.replace("_", "-"): value for key, value in settings.items()}
    return LOADERS[name](RunConfig.from_flower(raw))


def small(name: str) -> FederatedDataset:
    """What the data folder of the tests holds of it."""
    return load(name, private_size=20, public_size=15)
