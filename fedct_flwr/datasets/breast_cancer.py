"""Breast cancer (Wisconsin diagnostic, 569 x 30, from scikit-learn), split over silos with the paper's sizes.

Abourayya et al., arXiv:2310.05696, §5: 85 private records over 5 silos, 370 public, 114 test.
"""

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.datasets.pooled import split_over_silos
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.types import LABEL_DTYPE, Examples


def load(config: RunConfig) -> FederatedDataset:
    """``num-silos`` silos (default 5), IID or by Dirichlet."""
    # Here, as it takes seconds, and most who import the data sets do not want this one.
    from sklearn.datasets import load_breast_cancer

    raw = load_breast_cancer()
    return split_over_silos(
        "breast-cancer",
        Schema.numeric(tuple(map(str, raw.target_names)), tuple(map(str, raw.feature_names))),
        Examples(raw.data, raw.target.astype(LABEL_DTYPE)),
        private=85,
        public=370,
        silos=5,
        config=config,
    )
