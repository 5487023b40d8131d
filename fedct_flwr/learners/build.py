"""From the run config to a learner that is ready for one silo."""

import numpy as np

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.learners import preprocessing
from fedct_flwr.learners.base import Learner
from fedct_flwr.learners.sklearn import SklearnLearner, make_estimator
from fedct_flwr.seeding import random_state
from fedct_flwr.types import Features


def build_learner(config: RunConfig, dataset: FederatedDataset, position: int, private: Features) -> Learner:
    """The learner of the silo at ``position``, untrained.

    Statistics for preprocessing come from the public set and ``private`` ``(n, ...)``. Its random state does not
    depend on the round: with the same data and targets a silo gives the same labels, so fixed points exist.
    Raises ConfigError for an unknown learner or parameter, DataError for features it cannot take.
    """
    name, params = config.learner_spec(position)
    estimator = make_estimator(name, params, random_state(config.seed, "learner", dataset.silos[position].name))
    if config.preprocessing == "none":
        return SklearnLearner(estimator)
    reference = np.concatenate([dataset.public.X, private])
    return SklearnLearner(estimator, preprocessing.standard(dataset.schema, reference))
