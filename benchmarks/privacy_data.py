"""Data for measuring label quality: silos, a public set with its labels, models of their own."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
from sklearn.decomposition import PCA

from fedct_flwr import datasets
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets.federated import pool
from fedct_flwr.datasets.partition import iid
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.labelers.public_features import PublicFeatures
from fedct_flwr.learners.catalog import make
from fedct_flwr.learners.preprocessing import standard
from fedct_flwr.learners.sklearn import SklearnLearner, prepare
from fedct_flwr.scoring import accuracy
from fedct_flwr.types import Examples, Features, HardLabels, generator

MODEL: Final[dict[str, Any]] = {"C": 0.1, "tol": 1e-3, "max_iter": 1000}
"""Logistic regression of the personal models, on features of the public set."""
_FITTED_ON: Final = 10_000


class Setting(NamedTuple):
    """A data set, and how much of it lies where."""

    title: str
    data: str
    silos: int
    private: int
    public: int
    components: int
    """Principal components that personal models take of images; 0: a table's columns, encoded."""
    mechanisms: tuple[str, ...] = ()

    def small(self) -> "Setting":
        """The smallest size, which shows only that all works."""
        return self._replace(silos=4, private=800, public=1_000, components=self.components and 10)


FEW_LARGE: Final = Setting("FashionMNIST, 5 silos x 2,000 records", "fashion-mnist", 5, 10_000, 50_000, 60)
MANY_SMALL: Final = Setting("FashionMNIST, 50 silos x 200 records", "fashion-mnist", 50, 10_000, 50_000, 60)
ADULT: Final = Setting("Adult, 20 silos x 1,553 records", "adult", 20, 31_073, 10_000, 0)


class Sizes(NamedTuple):
    """How much is measured."""

    public: int
    """Examples of the public set that are labeled where labels cost nothing: the accuracy of all is that of these."""
    paid: int
    models: int
    """Silos whose personal models are trained."""


class Federation(NamedTuple):
    """Silos' records, and public ones with the labels that only a benchmark knows; raw, and as models take them."""

    schema: Schema
    raw_silos: list[Examples]
    raw_public: Examples
    features: PublicFeatures
    """The linear labeler's features of raw examples."""
    silos: list[Examples]
    public: Examples
    test: Examples
    own_votes: list[HardLabels]
    """The labels of each silo's own model for the public examples."""
    local: float
    """Mean accuracy of the silos' own models on the test set."""


def load(setting: Setting, sizes: Sizes, seed: int) -> Federation:
    """Split the data; learn features of the public set alone; train every silo's own model."""
    # A data set's public examples come without their labels: take all but one as private.
    sizes_of = {"private-size": setting.private + setting.public - 1, "public-size": 1}
    config = RunConfig.from_flower({"study": "benchmark", "data": setting.data, "seed": seed, **sizes_of})
    dataset = datasets.load(config)
    everything = pool([silo.private for silo in dataset.silos])
    rng = generator(seed, "privacy benchmark")
    own, others = np.split(rng.permutation(everything.size), [setting.private])
    X, y = everything
    public = Examples(X[others], y[others])
    transform = _features(setting, dataset.schema, public.X)
    features = PublicFeatures(public.X, dataset.schema, seed=seed)
    public = Examples(public.X[: sizes.public], public.y[: sizes.public])
    raw = [Examples(X[own[part]], y[own[part]]) for part in iid(len(own), setting.silos, rng)]
    silos = [Examples(transform(part.X), part.y) for part in raw]
    ready, test = (Examples(transform(part.X), part.y) for part in (public, dataset.test))
    models = [learner_of(seed).fit(*part) for part in silos]
    votes = [model.predict(ready.X) for model in models]
    alone = float(np.mean([accuracy(model, test) for model in models]))
    return Federation(dataset.schema, raw, public, features, silos, ready, test, votes, alone)


def _features(setting: Setting, schema: Schema, public: Features) -> Callable[[Features], Features]:
    """For models: principal components of images, or a table's columns encoded; learned of public examples."""
    if setting.components:
        components = PCA(setting.components, random_state=0).fit(public[:_FITTED_ON])
        return lambda X: components.transform(X).astype(np.float32)
    encoder = standard(schema, public)
    return lambda X: encoder.transform(X.astype(np.float64)).astype(np.float32)


def learner_of(seed: int) -> SklearnLearner:
    """Logistic regression, untrained."""
    return SklearnLearner(prepare(make("logistic-regression", MODEL), "logistic-regression", seed))
