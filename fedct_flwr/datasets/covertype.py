"""Covertype: which of seven kinds of forest covers a patch of 30 x 30 m in Colorado (581,012 x 54).

Source: J. Blackard, "Covertype", UCI Machine Learning Repository, 1998, https://doi.org/10.24432/C50K5N (CC BY 4.0),
through scikit-learn. Abourayya et al., arXiv:2310.05696, App. E.3: 414,810 private records over 5 silos, 50,000 public,
116,202 test. Never run here on the real data.
"""

from typing import Final

import numpy as np

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets.cache import data_folder
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.datasets.pooled import split_over_silos
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.types import LABEL_DTYPE, DataError, Examples

CLASSES: Final = (
    "spruce or fir", "lodgepole pine", "ponderosa pine", "cottonwood or willow", "aspen", "Douglas fir", "krummholz",
)  # fmt: skip


def load(config: RunConfig) -> FederatedDataset:
    """Ten measurements and 44 indicators. Raises DataError if scikit-learn has not fetched it into the data folder.

    It is not fetched here: silos that are simulated at the same time would all do so. scikit-learn keeps what it has
    fetched and checked as pickles, so let nobody else write to the data folder.
    """
    from sklearn.datasets import fetch_covtype

    folder = data_folder()
    try:
        raw = fetch_covtype(data_home=folder, download_if_missing=False)
    except Exception as error:  # joblib raises many types on damaged files
        raise DataError(
            f"data set 'covertype' is not in {folder / 'covertype'}, or damaged: fetch it with "
            f"python -c \"from sklearn.datasets import fetch_covtype; fetch_covtype(data_home='{folder}')\""
        ) from error
    # All values are whole numbers below 2**24: half the memory holds them exactly.
    records = Examples(raw.data.astype(np.float32), (raw.target - 1).astype(LABEL_DTYPE))
    schema = Schema.numeric(CLASSES, tuple(raw.feature_names))
    return split_over_silos("covertype", schema, records, private=414_810, public=50_000, silos=5, config=config)
