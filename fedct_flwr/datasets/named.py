"""Data sets by name: records of four hospitals, and two tables of scikit-learn that are split over silos.

Sizes of breast cancer are those of Abourayya et al., arXiv:2310.05696, §5 and App. E.3, those of diabetes are ours.

- Heart disease at four real hospitals: did angiography find a diseased vessel (A. Janosi, W. Steinbrunn, M. Pfisterer,
  R. Detrano, UCI, 1989, https://doi.org/10.24432/C52P4X, CC BY 4.0; 920 patients x 13). Measurements differ widely
  between the hospitals: Budapest lacks ``ca`` for nearly everybody, Zurich all cholesterol values.
- Breast cancer (Wisconsin diagnostic, 569 x 30), of scikit-learn.
- Diabetes progression after a year, a number (442 x 10; B. Efron, T. Hastie, I. Johnstone, R. Tibshirani, "Least angle
  regression", Annals of Statistics 2004), of scikit-learn.
"""

import json
from importlib import resources
from typing import Final

import numpy as np

from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset, PublicSet, SiloData, hold_out, pool, shuffled
from fedct_flwr.datasets.partition import split_over_silos
from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.types import LABEL_DTYPE, Examples, generator

_HEALTH: Final = ("healthy", "diseased")
# A cholesterol or blood pressure of zero is impossible; the files write it where it was not measured.
_ZERO_IS_MISSING: Final = ("chol", "trestbps")


def heart_disease(config: RunConfig) -> FederatedDataset:
    """Each hospital gives ``public-fraction`` of its records, labels stripped, and holds ``test-fraction`` out."""
    raw = json.loads(resources.files("fedct_flwr.datasets").joinpath("heart_disease.json").read_text("utf-8"))
    names: list[str] = raw["columns"][:-1]
    unlabeled, silos = [], []
    for hospital, rows in raw["hospitals"].items():
        table = np.array(rows, dtype=np.float64)
        X, y = table[:, :-1], (table[:, -1] > 0).astype(LABEL_DTYPE)
        for name in _ZERO_IS_MISSING:
            column = X[:, names.index(name)]
            column[column == 0] = np.nan
        shares = (config.public_fraction, config.test_fraction)
        public, test, private = hold_out(Examples(X, y), shares, generator(config.seed, "split", hospital))
        unlabeled.append(public)
        silos.append(SiloData(hospital, private, test))
    public = shuffled(pool(unlabeled), generator(config.seed, "public order"))
    return FederatedDataset(
        name="heart-disease",
        # Chest pain, slope and the like are left as the ordinal codes of the files: one-hot columns did no better.
        schema=Schema.numeric(_HEALTH, tuple(names)),
        public=PublicSet(public.X),
        silos=tuple(silos),
        test=pool([silo.test for silo in silos]),
        truth=public.y,
    )


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
