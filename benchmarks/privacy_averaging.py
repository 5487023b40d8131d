"""DP-FedAvg on the data that label quality is measured on: what protects a whole silo, and shares weights."""

import logging
import math
import tempfile
from pathlib import Path
from typing import Any, Final

from benchmarks.methods import one_thread_per_silo
from benchmarks.privacy_data import Federation
from benchmarks.privacy_votes import DELTA
from client_app.main import app as client_app
from fedct_flwr.config import RunConfig
from fedct_flwr.datasets import LOADERS, FederatedDataset, SiloData
from fedct_flwr.datasets.public_set import PublicSet
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.flower.loopback import run_loopback, simulated_nodes
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.silo.site import simulated_site
from fedct_flwr.types import Examples
from server_app.main import app as server_app

TRAINING: Final[dict[str, Any]] = {
    "learner": f"{__name__}.softmax_regression",
    "num-server-rounds": 10,
    "local-steps": 20,
    "learning-rate": 3e-3,
    "clipping-norm": 1.0,
    "device": "cpu",
}
"""As the personal models, a linear one: of all networks it has the fewest weights that need noise."""
_DATA: Final = "label-quality"


def dp_fedavg(federation: Federation, epsilon: float, seed: int) -> float:
    """Accuracy of the global model on the test set, at a total epsilon per silo; plain FedAvg where it is infinite.

    Silos have the records and features that other models have too.
    """
    one_thread_per_silo()
    logging.getLogger("flwr").setLevel(logging.ERROR)
    private = {} if math.isinf(epsilon) else {"epsilon": epsilon, "delta": DELTA}
    LOADERS[_DATA] = lambda config: _dataset(federation)
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "run"
        config = RunConfig.from_flower(
            {
                **TRAINING,
                **private,
                "algorithm": "dp-fedavg" if private else "fedavg",
                "study": "benchmark",
                "data": _DATA,
                "preprocessing": "none",
                "seed": seed,
                "run-dir": str(path),
                "report-scores": True,
                "save-models": False,
            }
        )
        run_loopback(server_app, client_app, config.to_flower(), simulated_nodes(len(federation.silos)))
        simulated_site.cache_clear()
        return float(RunFolder(path).rounds()[-1]["scores"]["accuracy"])


def _dataset(federation: Federation) -> FederatedDataset:
    nothing = Examples(federation.test.X[:0], federation.test.y[:0])
    return FederatedDataset(
        _DATA,
        Schema(federation.schema.classes),
        PublicSet(federation.public.X),
        tuple(SiloData(f"silo-{number}", private, nothing) for number, private in enumerate(federation.silos, 1)),
        federation.test,
    )


def softmax_regression(num_features: int, num_classes: int) -> Any:
    """One layer."""
    from torch import nn  # not at the top: only this needs torch

    return nn.Linear(num_features, num_classes)
