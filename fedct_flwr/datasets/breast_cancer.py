"""Breast cancer (Wisconsin diagnostic, 569 x 30, from scikit-learn), split over silos with the paper's sizes.

Abourayya et al., arXiv:2310.05696, §5: 85 private records over 5 silos, 370 public, 114 test.
"""

from typing import Final

import numpy as np
from sklearn.datasets import load_breast_cancer

from fedct_flwr import partition
from fedct_flwr.config import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset, SiloData
from fedct_flwr.public_set import PublicSet
from fedct_flwr.schema import Schema
from fedct_flwr.seeding import generator
from fedct_flwr.types import LABEL_DTYPE, Examples

_PRIVATE: Final = 85
_PUBLIC: Final = 370
_SILOS: Final = 5


def load(config: RunConfig) -> FederatedDataset:
    """``num-silos`` silos (default 5), IID or by Dirichlet; one test set for all, as in the paper."""
    raw = load_breast_cancer()
    X, y = raw.data, raw.target.astype(LABEL_DTYPE)
    order = generator(config.seed, "split").permutation(len(y))
    private, public, test = np.split(order, [_PRIVATE, _PRIVATE + _PUBLIC])
    num_silos = config.num_silos or _SILOS
    rng = generator(config.seed, "partition")
    if config.partition == "iid":
        parts = partition.iid(len(private), num_silos, rng)
    else:
        parts = partition.dirichlet(y[private], num_silos, config.dirichlet_concentration, rng, min_examples=5)
    nothing = Examples(X[:0], y[:0])
    return FederatedDataset(
        name="breast-cancer",
        schema=Schema.numeric(tuple(map(str, raw.target_names)), tuple(map(str, raw.feature_names))),
        public=PublicSet(X[public]),
        silos=tuple(
            SiloData(f"silo-{number}", Examples(X[private[part]], y[private[part]]), nothing)
            for number, part in enumerate(parts, start=1)
        ),
        test=Examples(X[test], y[test]),
    )
