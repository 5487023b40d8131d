"""What co-training is measured against: a silo alone, and all private records in one place."""

import contextlib
from functools import partial
from typing import Final

import numpy as np

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset, pool
from fedct_flwr.learners.base import Choosing, Learner, Resumable
from fedct_flwr.learners.build import build_learner, named_learner
from fedct_flwr.learners.meeting import together
from fedct_flwr.types import Examples, Features, Groups, TrainingError

LOCAL: Final = "local"
CENTRALIZED: Final = "centralized"
_AT_ONCE: Final = 32
"""Silos whose networks are trained in one go, and held until they are scored."""


def local_only(config: RunConfig, dataset: FederatedDataset, position: int) -> Learner:
    """The learner of the silo at ``position`` trained on its private records alone. Raises TrainingError."""
    silo = dataset.silos[position]
    learner = build_learner(config, dataset, position, silo.private.X)
    _choose(learner, silo.private, silo.groups)
    learner.fit(*silo.private)
    return learner


def centralized(config: RunConfig, dataset: FederatedDataset, position: int) -> Learner:
    """The same learner trained on all silos' private records, as if none colluded. Raises TrainingError."""
    everything = pool([silo.private for silo in dataset.silos])
    learner = named_learner(config, dataset, position, everything.X)
    groups = _all_groups(dataset)
    _choose(learner, everything, groups)
    learner.fit(*everything)
    return learner


def _choose(learner: Learner, records: Examples, groups: Groups | None) -> None:
    if isinstance(learner, Choosing):
        learner.choose(records, groups)


def _all_groups(dataset: FederatedDataset) -> Groups | None:
    """The groups of all silos' records, of which none is in two silos."""
    if all(silo.groups is None for silo in dataset.silos):
        return None
    found: list[Groups] = []
    for silo in dataset.silos:
        own = np.arange(silo.private.size) if silo.groups is None else silo.groups
        found.append(np.unique(own, return_inverse=True)[1] + sum(map(len, found)))
    return np.concatenate(found)


def baselines_of(config: RunConfig) -> tuple[str, ...]:
    """Names of the baselines that a run is compared with."""
    return {"all": (LOCAL, CENTRALIZED), "local": (LOCAL,), "none": ()}[config.baselines]


class References:
    """The baselines of one run; pooled records are one model per learner, of the first silo's random state."""

    def __init__(self, config: RunConfig, dataset: FederatedDataset) -> None:
        self._config, self._dataset = config, dataset
        self._wanted = baselines_of(config)
        self._centralized: dict[str, Learner | None] = {}
        self._alone: dict[int, Learner | None] = {}

    def of(self, position: int) -> dict[str, Learner]:
        """Those of the silo at ``position`` by name; one whose training fails is left out."""
        models: dict[str, Learner] = {}
        # A learner that manages with pseudo-labels may fail without; what it says may quote data.
        if LOCAL in self._wanted and (alone := self._local(position)):
            models[LOCAL] = alone
        if CENTRALIZED in self._wanted and (pooled := self._pooled(position)):
            models[CENTRALIZED] = pooled
        return models

    def _local(self, position: int) -> Learner | None:
        """The silo's learner alone. Networks of the silos after it are trained along with it."""
        if position not in self._alone:
            every = range(position, min(position + _AT_ONCE, len(self._dataset.silos)))
            if isinstance(build_learner(self._config, self._dataset, position, self._private(position)), Resumable):
                from fedct_flwr.learners.stacked import Stacks  # needs torch

                train = Stacks(self._config.silos_at_once).train
                found = together([partial(self._fitted, each) for each in every], train)
                self._alone |= dict(zip(every, found, strict=True))
            else:
                self._alone[position] = self._fitted(position)
        return self._alone.pop(position)

    def _private(self, position: int) -> Features:
        return self._dataset.silos[position].private.X

    def _fitted(self, position: int) -> Learner | None:
        with contextlib.suppress(TrainingError):
            return local_only(self._config, self._dataset, position)
        return None

    def _pooled(self, position: int) -> Learner | None:
        learner = self._config.learner_settings(position, len(self._dataset.silos)).model_dump_json()
        if learner not in self._centralized:
            self._centralized[learner] = None
            with contextlib.suppress(TrainingError):
                self._centralized[learner] = centralized(self._config, self._dataset, position)
        return self._centralized[learner]
