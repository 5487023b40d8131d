"""Data sets that come in silos of their own: by workplace, schooling, habitat, kind of wine, hospital or clinic.

Real shift in what silos see and how often, for judging defaults. Files are those of the data sets in ``FEDCT_DATA``.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import resources
from typing import Any, Final

import numpy as np
from sklearn.model_selection import train_test_split

from benchmarks.data import ADULT, MUSHROOM, Source, federated
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset, SiloData, hold_out, pool, shuffled, take
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.types import LABEL_DTYPE, Examples, generator

SOURCES: Final = {
    "adult-by-workclass": replace(ADULT, by="workclass", unused=["split", "fnlwgt"]),
    # Education is there as a number, too.
    "adult-by-education": replace(ADULT, by="education", unused=["split", "fnlwgt", "education-num"]),
    "mushroom-by-habitat": replace(MUSHROOM, by="habitat"),
    "wine-by-type": Source("wine-quality", "wine_quality.csv.gz", "type", "quality", 6, ("5 or less", "6 or more")),
    "fractures": Source("sites", "glow500.csv.gz", "site", "fracture", "Yes", ("No", "Yes")),
    "burns": Source("sites", "burn1000.csv.gz", "site", "death", "Dead", ("Alive", "Dead")),
    "covid-tests": Source("sites", "covid_clinics.csv.gz", "site", "result", "positive", ("negative", "positive")),
    "transplants": Source("sites", "bmt.csv.gz", "site", "relapse_or_death", "yes", ("no", "yes")),
}


_MOST: Final = 1_500


def load(name: str, config: RunConfig) -> FederatedDataset:
    """Each silo gives ``public-fraction`` of its records, labels stripped, and holds ``test-fraction`` out.

    Fractions round down: a silo of a few records gives none and tests on none. Records without the silo's column are a
    silo of their own, and rows that repeat are left out of wines. Of silos with more than 1,500 records a random part
    is taken, so that no silo is the data set. Raises DataError if the file is not there.
    """
    source = SOURCES[name]
    schema, (X, y), where = source.read()
    unlabeled, silos = [], []
    shares = (config.public_fraction, config.test_fraction)
    for silo in np.unique(where).tolist():
        rows, rng = np.flatnonzero(where == silo), generator(config.seed, "split", silo)
        kept = rows if len(rows) <= _MOST else rng.choice(rows, _MOST, replace=False)
        public, test, private = hold_out(Examples(X[kept], y[kept]), shares, rng)
        unlabeled.append(public)
        silos.append(SiloData(f"{source.by}-{silo}", private, test))
    public = shuffled(pool(unlabeled), generator(config.seed, "public order"))
    return federated(name, schema, silos, public.X, public.y)


def load_flamby(config: RunConfig) -> FederatedDataset:
    """The four hospitals as FLamby splits them, by ``seed``; the incomplete rows that it drops are the public set.

    J. O. du Terrail et al., "FLamby", NeurIPS 2022: without slope, vessels and thal, 34% of each centre for testing.
    """
    raw = json.loads(resources.files("fedct_flwr.datasets").joinpath("heart_disease.json").read_text("utf-8"))
    names = [name for name in raw["columns"] if name not in ("slope", "ca", "thal")]
    unlabeled, silos = [], []
    for centre, rows in raw["hospitals"].items():
        table = np.array(rows, dtype=np.float64)[:, [raw["columns"].index(name) for name in names]]
        complete: Any = ~np.isnan(table).any(axis=1)
        records = Examples(table[:, :-1], (table[:, -1] > 0).astype(LABEL_DTYPE))
        y = records.y[complete]
        # One row of a class cannot be on both sides.
        by_class = y if np.bincount(y).min() > 1 else None
        halves = train_test_split(np.flatnonzero(complete), test_size=0.34, random_state=config.seed, stratify=by_class)
        private, test = (take(records, half) for half in halves)
        silos.append(SiloData(centre, private, test))
        unlabeled.append(take(records, ~complete))
    public = shuffled(pool(unlabeled), generator(config.seed, "public order"))
    return federated("flamby", Schema.numeric(("healthy", "diseased"), tuple(names[:-1])), silos, public.X, public.y)


NATURAL: Final[dict[str, Callable[[RunConfig], FederatedDataset]]] = {name: partial(load, name) for name in SOURCES}
"""Loaders by the data set's name: ``datasets.LOADERS.update(NATURAL)``, then ``data = "adult-by-workclass"``."""
