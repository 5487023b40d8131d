"""Data sets: records of silos and a public set, from files, tables in memory or by name."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fedct_flwr.datasets.federated import FederatedDataset, SiloData
    from fedct_flwr.datasets.loading import LOADERS, load

__all__ = ["LOADERS", "FederatedDataset", "SiloData", "load"]

_WHERE: Final = {"LOADERS": "loading", "load": "loading"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_WHERE.get(name, 'federated')}"), name)
    return found
