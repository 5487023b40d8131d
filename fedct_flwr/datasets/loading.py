"""The data set that a run config names, as a federation of silos with a public set."""

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from fedct_flwr.config.run import MEMORY, STUDY, RunConfig
from fedct_flwr.config.settings import Needs, Uses, uses
from fedct_flwr.text.printable import suggest
from fedct_flwr.types import ConfigError

if TYPE_CHECKING:
    from fedct_flwr.datasets.federated import FederatedDataset


def _function(module: str, name: str) -> Any:
    """A function of this package, whose module is loaded when it is called."""
    return lambda *arguments: getattr(import_module(f"fedct_flwr.{module}"), name)(*arguments)


_NAMED: Final = ("heart-disease", "breast-cancer", "diabetes")
GONE: Final = (
    "wine-quality", "adult", "mushroom", "covertype", "fashion-mnist", "fashion-superclasses", "cifar10", "svhn",
)  # fmt: skip
"""Data sets by name that went, which only benchmarks have."""
LOADERS: Final[dict[str, Callable[[RunConfig], "FederatedDataset"]]] = {
    **{name: _function("datasets.partition", name.replace("-", "_")) for name in _NAMED},
    "files": _function("datasets.files", "load"),
}
_PARTITIONED: Final = uses("num-silos", "private-size", "public-size", "partition") | uses(
    "dirichlet-concentration",
    needs=Needs("partition = 'dirichlet' or 'dirichlet-by-silo'", lambda config: config.partition != "iid"),
)
_TABLES: Final = (
    "data-dir", "label-column", "text-columns", "group-column", "outcome", "event-column", "horizons", "accept",
    "inspect", "test-fraction",
)  # fmt: skip
_OWN: Final[dict[str, Uses]] = {
    # Hospitals, or the authors of the files, have split the records already.
    "heart-disease": uses("public-fraction", "test-fraction"),
    "files": uses(*_TABLES),
}
SETTINGS: Final[dict[str, Uses]] = {
    **_OWN,
    **{name: _PARTITIONED for name in LOADERS if name not in _OWN},
    MEMORY: uses(*_TABLES),
    STUDY: uses("data-dir"),
}
"""The settings of each data set. One that is not here may use all of them."""
OF_PUBLIC: Final[dict[str, Uses]] = {
    "given": {},
    "drawn": uses("draw-epsilon", "draw-dictionary", "draw-rows")
    | uses("draw-delta", needs=Needs("draw-epsilon above 0", lambda config: config.draw_epsilon > 0)),
}
"""The settings of a public set that is drawn."""


# A simulated silo's process is asked every round; it should read its data once.
@lru_cache(maxsize=1)
def load(config: RunConfig) -> "FederatedDataset":
    """The data set that the run config names. Raises ConfigError for an unknown name, DataError for bad data."""
    if config.data == STUDY:
        raise ConfigError(
            f"data = {STUDY!r} is for real silos, whose records are at the silos: run it on a SuperLink with "
            "`fedct coordinator run`, or name a data set"
        )
    if config.data in GONE and config.data not in LOADERS:
        raise ConfigError(
            f"data set {config.data!r} is no longer part of fedct: write its records to files and name their folder by "
            "data-dir, with data = 'files'; python -m benchmarks has the papers' experiments"
        )
    if config.data != MEMORY and config.data not in LOADERS:
        raise ConfigError(f"unknown data set {config.data!r}: {suggest(config.data, LOADERS)}")
    found = _function("datasets.from_tables", "load")(config) if config.data == MEMORY else LOADERS[config.data](config)
    if config.public == "drawn":
        # Its noise is accounted for above this layer.
        found = _function("drawing.simulated", "with_drawn")(found, config)
    return found
