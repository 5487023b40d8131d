"""Diabetes progression after a year (442 patients x 10, from scikit-learn), a number, split over silos.

B. Efron, T. Hastie, I. Johnstone, R. Tibshirani, "Least angle regression", Annals of Statistics 2004. The sizes of the
parts are ours: 150 private records over 5 silos, 180 public, 112 test.
"""

import numpy as np

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.datasets.pooled import split_over_silos
from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.types import Examples


def load(config: RunConfig) -> FederatedDataset:
    """``num-silos`` silos (default 5), IID."""
    # Here, as it takes seconds, and most who import the data sets do not want this one.
    from sklearn.datasets import load_diabetes

    raw = load_diabetes(scaled=False)
    columns = tuple(Column(str(name)) for name in raw.feature_names)
    return split_over_silos(
        "diabetes",
        Schema((), columns, quantity="progression"),
        Examples(raw.data, raw.target.astype(np.float64)),
        private=150,
        public=180,
        silos=5,
        config=config,
    )
