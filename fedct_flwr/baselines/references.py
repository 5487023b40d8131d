"""What co-training is measured against: a silo alone, and all private records in one place."""

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset, pool
from fedct_flwr.learners.base import Learner
from fedct_flwr.learners.build import build_learner, named_learner


def local_only(config: RunConfig, dataset: FederatedDataset, position: int) -> Learner:
    """The learner of the silo at ``position`` trained on its private records alone. Raises TrainingError."""
    private = dataset.silos[position].private
    return build_learner(config, dataset, position, private.X).fit(*private)


def centralized(config: RunConfig, dataset: FederatedDataset, position: int) -> Learner:
    """The same learner trained on all silos' private records: what pooling the data would give.

    A silo that colludes has records like the others: it is the learner that it should have, not what it says instead.
    Raises TrainingError.
    """
    everything = pool([silo.private for silo in dataset.silos])
    return named_learner(config, dataset, position, everything.X).fit(*everything)
