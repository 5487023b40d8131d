"""What co-training is measured against: a silo alone, and all private records in one place."""

import json
from typing import Final
from weakref import WeakKeyDictionary

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset, pool
from fedct_flwr.learners.base import Learner
from fedct_flwr.learners.build import build_learner, named_learner

_TRAINED: Final[WeakKeyDictionary[FederatedDataset, dict[tuple[RunConfig, int], Learner]]] = WeakKeyDictionary()
"""Models of all data in one place, which know the records that they were trained on only as long as the data set."""


def local_only(config: RunConfig, dataset: FederatedDataset, position: int) -> Learner:
    """The learner of the silo at ``position`` trained on its private records alone. Raises TrainingError."""
    private = dataset.silos[position].private
    return build_learner(config, dataset, position, private.X).fit(*private)


def centralized(config: RunConfig, dataset: FederatedDataset, position: int) -> Learner:
    """The same learner trained on all silos' private records: what pooling the data would give.

    A silo that colludes has records like the others: it is the learner that it should have, not what it says instead.
    Silos with the same settings share one model, with the random state of the first of them. Raises TrainingError.
    """
    first = _first_alike(config, position)
    trained = _TRAINED.setdefault(dataset, {})
    if (config, first) not in trained:
        everything = pool([silo.private for silo in dataset.silos])
        trained[config, first] = named_learner(config, dataset, first, everything.X).fit(*everything)
    return trained[config, first]


def _first_alike(config: RunConfig, position: int) -> int:
    """Position of the first silo with the same learner."""
    if len(config.learner) == 1:
        return 0
    params = json.loads(config.learner_params)
    each = params if isinstance(params, list) else [params] * len(config.learner)
    learners = list(zip(config.learner, each, strict=True))
    return learners.index(learners[position])
