"""Data sets: records of silos and a public set, from files, tables in memory or by name."""

from typing import TYPE_CHECKING

from fedct_flwr import importing

if TYPE_CHECKING:
    from fedct_flwr.datasets.federated import FederatedDataset, SiloData
    from fedct_flwr.datasets.loading import LOADERS, load

__all__ = ["LOADERS", "FederatedDataset", "SiloData", "load"]

__getattr__ = importing(__name__, {"loading": ("LOADERS", "load"), "federated": ("FederatedDataset", "SiloData")})
