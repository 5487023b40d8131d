"""A data set of your own: two rings around the origin."""

from pathlib import Path

import numpy as np

from client_app.main import app as client_app
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets import LOADERS
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.datasets.partition import split_over_silos
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.flower.loopback import run_loopback, simulated_nodes
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.types import LABEL_DTYPE, Examples, generator
from server_app.main import app as server_app


def load(config: RunConfig) -> FederatedDataset:
    """Two rings around the origin, one in the other, 600 points each."""
    rng = generator(config.seed, "rings")
    y = np.repeat(np.array([0, 1], dtype=LABEL_DTYPE), 600)
    angle, radius = rng.uniform(0, 2 * np.pi, len(y)), rng.normal(1.0 + y, 0.2)
    X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    schema = Schema.numeric(("inner", "outer"), ("x", "y"))
    return split_over_silos("rings", schema, Examples(X, y), private=100, public=700, silos=5, config=config)


LOADERS["rings"] = load

settings = {
    "study": "rings",
    "data": "rings",
    "learner": "decision-tree",
    "report-scores": True,
    "run-dir": str(Path("rings").absolute()),
}
run_loopback(server_app, client_app, settings, simulated_nodes(5))
for silo, told in RunFolder(Path("rings")).rounds()[-1]["silos"].items():
    print(f"{silo}: {told['scores']['pooled_accuracy']:.2f}")
