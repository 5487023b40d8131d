"""Heart disease at four real hospitals: predict whether angiography found a diseased vessel.

Source: A. Janosi, W. Steinbrunn, M. Pfisterer, R. Detrano, "Heart Disease", UCI Machine Learning Repository, 1989,
https://doi.org/10.24432/C52P4X (CC BY 4.0). 920 patients, 13 features, and what was measured differs much between
the hospitals: Budapest lacks ``ca`` for nearly everybody, Zurich all cholesterol values.
"""

import json
from importlib import resources
from typing import Final

import numpy as np

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset, SiloData, hold_out, pool, shuffled
from fedct_flwr.datasets.public_set import PublicSet
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.seeding import generator
from fedct_flwr.types import LABEL_DTYPE, Examples

CLASSES: Final = ("healthy", "diseased")
# Nobody has a cholesterol or a blood pressure of zero; the files write so where it was not measured.
_ZERO_IS_MISSING: Final = ("chol", "trestbps")


def load(config: RunConfig) -> FederatedDataset:
    """Each hospital gives ``public-fraction`` of its records, labels stripped, and holds ``test-fraction`` out."""
    raw = json.loads(resources.files(__package__).joinpath("heart_disease.json").read_text("utf-8"))
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
        schema=Schema.numeric(CLASSES, tuple(names)),
        public=PublicSet(public.X),
        silos=tuple(silos),
        test=pool([silo.test for silo in silos]),
        truth=public.y,
    )
