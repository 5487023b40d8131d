"""Tables that scikit-learn has or fetches, split over silos.

Breast cancer (Wisconsin diagnostic, 569 x 30) and Covertype (which of seven kinds of forest covers a patch of 30 x 30 m
in Colorado, 581,012 x 54; J. Blackard, UCI Machine Learning Repository, 1998, https://doi.org/10.24432/C50K5N, CC BY
4.0) with the sizes of Abourayya et al., arXiv:2310.05696, §5 and App. E.3. Covertype was never run here on the real
data. Diabetes progression after a year, a number (442 patients x 10; B. Efron, T. Hastie, I. Johnstone, R. Tibshirani,
"Least angle regression", Annals of Statistics 2004), with sizes of ours.
"""

from typing import Final

import numpy as np

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets.cache import data_folder
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.datasets.pooled import split_over_silos
from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.types import LABEL_DTYPE, DataError, Examples

FORESTS: Final = (
    "spruce or fir", "lodgepole pine", "ponderosa pine", "cottonwood or willow", "aspen", "Douglas fir", "krummholz",
)  # fmt: skip


# scikit-learn's data sets take seconds to import, and most who import ours do not want these.
def breast_cancer(config: RunConfig) -> FederatedDataset:
    """``num-silos`` silos (default 5), IID or by Dirichlet."""
    from sklearn.datasets import load_breast_cancer

    raw = load_breast_cancer()
    schema = Schema.numeric(tuple(map(str, raw.target_names)), tuple(map(str, raw.feature_names)))
    records = Examples(raw.data, raw.target.astype(LABEL_DTYPE))
    return split_over_silos("breast-cancer", schema, records, private=85, public=370, silos=5, config=config)


def diabetes(config: RunConfig) -> FederatedDataset:
    """``num-silos`` silos (default 5), IID."""
    from sklearn.datasets import load_diabetes

    raw = load_diabetes(scaled=False)
    schema = Schema((), tuple(Column(str(name)) for name in raw.feature_names), quantity="progression")
    records = Examples(raw.data, raw.target.astype(np.float64))
    return split_over_silos("diabetes", schema, records, private=150, public=180, silos=5, config=config)


def covertype(config: RunConfig) -> FederatedDataset:
    """Ten measurements and 44 indicators. Raises DataError if scikit-learn has not fetched it into the data folder.

    It is not fetched here: silos that are simulated at the same time would all do so. scikit-learn keeps what it has
    fetched and checked as pickles, so let only yourself write to the data folder.
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
    schema = Schema.numeric(FORESTS, tuple(raw.feature_names))
    return split_over_silos("covertype", schema, records, private=414_810, public=50_000, silos=5, config=config)
