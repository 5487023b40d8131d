"""Federated co-training on Flower: silos share class labels on a public set, never their data or models.

What is here is the public API. Each name is imported when it is first asked for, so that ``import fedct_flwr`` takes a
moment only, and nobody waits for a learner that is not used.
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from fedct_flwr.text.printable import PrintableLogs

if TYPE_CHECKING:
    from fedct_flwr.algorithms.methods import (
        PATE,
        PFNM,
        Agreement,
        DawidSkene,
        DistributedDistillation,
        FedAvg,
        FedCT,
        FedDF,
        FedDyn,
        FedKT,
        FedMD,
        FedProx,
        Plurality,
        PredictionConsensus,
        PrivateFedAvg,
        PrivatePATE,
        Qualified,
        Scaffold,
    )
    from fedct_flwr.datasets import FederatedDataset
    from fedct_flwr.privacy.budget import PrivacyWarning
    from fedct_flwr.simulation.repeats import Repeats, repeat
    from fedct_flwr.simulation.run import Comparison, Run, read_run
    from fedct_flwr.simulation.silo_model import SiloModel
    from fedct_flwr.simulation.simulate import simulate
    from fedct_flwr.types import ConfigError, DataError, DataWarning, FedctError, LearnerError, RunError, TrainingError

__version__ = "0.1.0"

_WHERE: Final = {
    "datasets": ("FederatedDataset",),
    "algorithms.methods": (
        "PATE",
        "PFNM",
        "Agreement",
        "DawidSkene",
        "DistributedDistillation",
        "FedAvg",
        "FedCT",
        "FedDF",
        "FedDyn",
        "FedKT",
        "FedMD",
        "FedProx",
        "Plurality",
        "PredictionConsensus",
        "PrivateFedAvg",
        "PrivatePATE",
        "Qualified",
        "Scaffold",
    ),
    "privacy.budget": ("PrivacyWarning",),
    "simulation.repeats": ("Repeats", "repeat"),
    "simulation.run": ("Comparison", "Run", "read_run"),
    "simulation.silo_model": ("SiloModel",),
    "simulation.simulate": ("simulate",),
    "types": ("ConfigError", "DataError", "DataWarning", "FedctError", "LearnerError", "RunError", "TrainingError"),
}
"""The public names by module."""

_MODULES: Final = {name: f"{__name__}.{module}" for module, names in _WHERE.items() for name in names}

__all__ = [
    "PATE",
    "PFNM",
    "Agreement",
    "Comparison",
    "ConfigError",
    "DataError",
    "DataWarning",
    "DawidSkene",
    "DistributedDistillation",
    "FedAvg",
    "FedCT",
    "FedDF",
    "FedDyn",
    "FedKT",
    "FedMD",
    "FedProx",
    "FedctError",
    "FederatedDataset",
    "LearnerError",
    "Plurality",
    "PredictionConsensus",
    "PrivacyWarning",
    "PrivateFedAvg",
    "PrivatePATE",
    "Qualified",
    "Repeats",
    "Run",
    "RunError",
    "Scaffold",
    "SiloModel",
    "TrainingError",
    "read_run",
    "repeat",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Next time nobody has to ask.
    found = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


# Here, as no module can log before this: there is no way past it.
logging.getLogger("flwr.fedct").addFilter(PrintableLogs())
