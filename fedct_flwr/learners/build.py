"""From the run config to a learner that is ready for one silo."""

import numpy as np

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.learners import preprocessing
from fedct_flwr.learners.base import Learner
from fedct_flwr.learners.sklearn import SklearnLearner, make_estimator
from fedct_flwr.seeding import random_state
from fedct_flwr.types import ConfigError, Features


def build_learner(config: RunConfig, dataset: FederatedDataset, position: int, private: Features) -> Learner:
    """The learner of the silo at ``position``, untrained.

    Statistics for preprocessing come from the public set and ``private`` ``(n, ...)``. Its random state does not
    depend on the round: with the same data and targets a silo gives the same labels, so fixed points exist.
    Raises ConfigError for an unknown learner or parameter, or one that takes no weights where pseudo-weight needs
    them; DataError for features that cannot be preprocessed.
    """
    if len(config.learner) not in (1, len(dataset.silos)):
        raise ConfigError(
            f"learner names {len(config.learner)} learners but the data set has {len(dataset.silos)} silos: "
            "name one learner for all, or one for each silo"
        )
    name, params = config.learner_spec(position)
    estimator = make_estimator(name, params, random_state(config.seed, "learner", dataset.silos[position].name))
    transformer = None
    if config.preprocessing == "standard":
        transformer = preprocessing.standard(dataset.schema, np.concatenate([dataset.public.X, private]))
    return SklearnLearner(estimator, transformer, weighted=config.pseudo_weight != 1.0)
