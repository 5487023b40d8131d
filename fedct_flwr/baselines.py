"""What co-training is measured against: every silo alone, and all private records in one place."""

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset, pool
from fedct_flwr.learners.base import Learner
from fedct_flwr.learners.build import build_learner


def local_only(config: RunConfig, dataset: FederatedDataset) -> list[Learner]:
    """Each silo's learner trained on its private records alone, in the data set's order."""
    return [
        build_learner(config, dataset, position, silo.private.X).fit(*silo.private)
        for position, silo in enumerate(dataset.silos)
    ]


def centralized(config: RunConfig, dataset: FederatedDataset) -> list[Learner]:
    """Each silo's learner trained on all silos' private records: what pooling the data would give."""
    everything = pool([silo.private for silo in dataset.silos])
    return [
        build_learner(config, dataset, position, everything.X).fit(*everything)
        for position in range(len(dataset.silos))
    ]
