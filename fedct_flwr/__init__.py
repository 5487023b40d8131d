"""Federated co-training on Flower: silos share class labels on a public set, never their data or models.

This is the public API. Each name is imported when it is first asked for, so importing takes a moment.
"""

from typing import TYPE_CHECKING

from fedct_flwr.front_door import importing

if TYPE_CHECKING:
    from fedct_flwr.algorithms.fedct import DawidSkene, FedCT, Plurality, Qualified
    from fedct_flwr.algorithms.fedkt import PATE, FedKT, PrivatePATE
    from fedct_flwr.algorithms.joint import JointLabeler
    from fedct_flwr.algorithms.prediction import DistributedDistillation, FedMD, PredictionConsensus
    from fedct_flwr.baselines.client_drift import FedDyn, FedProx, Scaffold
    from fedct_flwr.baselines.dp_fedavg import PrivateFedAvg
    from fedct_flwr.baselines.feddf import FedDF
    from fedct_flwr.baselines.weight_sharing import FedAvg
    from fedct_flwr.datasets import FederatedDataset
    from fedct_flwr.datasets.partition import IID, Dirichlet
    from fedct_flwr.drawing.simulated import Drawn
    from fedct_flwr.privacy.budget import PrivacyWarning
    from fedct_flwr.simulation.count import Count, count
    from fedct_flwr.simulation.repeats import Repeats, repeat
    from fedct_flwr.simulation.run import Run, read_run
    from fedct_flwr.simulation.silo_model import SiloModel
    from fedct_flwr.simulation.simulate import simulate
    from fedct_flwr.types import ConfigError, DataError, DataWarning, FedctError, LearnerError, RunError, TrainingError
    from fedct_flwr.version import __version__ as __version__

__all__ = [
    "IID", "PATE", "ConfigError", "Count", "DataError", "DataWarning", "DawidSkene", "Dirichlet",
    "DistributedDistillation", "Drawn", "FedAvg", "FedCT", "FedDF", "FedDyn", "FedKT", "FedMD", "FedProx",
    "FedctError", "FederatedDataset", "JointLabeler", "LearnerError", "Plurality", "PredictionConsensus",
    "PrivacyWarning", "PrivateFedAvg", "PrivatePATE", "Qualified", "Repeats", "Run", "RunError", "Scaffold",
    "SiloModel", "TrainingError", "count", "read_run", "repeat", "simulate",
]  # fmt: skip

__getattr__ = importing(__name__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
