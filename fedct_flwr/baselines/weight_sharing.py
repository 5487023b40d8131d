"""Baselines in which silos share weights: the same silos, data, networks and steps as in co-training."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

from flwr.app import ArrayRecord
from flwr.serverapp import Grid
from numpy.typing import NDArray

from fedct_flwr.baselines.averaging import Averaging
from fedct_flwr.config import RunConfig
from fedct_flwr.config.settings import Uses, uses
from fedct_flwr.coordinator.algorithm import Algorithm
from fedct_flwr.coordinator.study import Study
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.kinds.base import Kind
from fedct_flwr.learners.base import Correctable, Learner, Saveable
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.types import ConfigError, DataError, RunError, SiloName
from fedct_flwr.wire.messages import Weights, to_arrays, to_weights


@runtime_checkable
class Network(Correctable, Saveable, Learner, Protocol):
    """What is averaged: it predicts, trains from given weights, and can be written to a file."""


@dataclass(frozen=True)
class WeightSharing(Algorithm):
    """``strategy`` averages. For simulation only: real silos hand out no weights."""

    strategy: ClassVar[type[Averaging]] = Averaging
    kind: ClassVar[Kind | None] = None
    leaves: ClassVar[str] = "the weights of its network"
    used: ClassVar[Uses] = uses("report-scores")

    initial_model: str = field(default="", kw_only=True)
    """File of a model that the first round begins with, absolute."""

    def check(self, config: RunConfig, dataset: FederatedDataset | None) -> None:
        """Raise ConfigError unless every silo is simulated and trains a network with the same weights, in a new run."""
        dataset = _simulated(config, dataset)
        if config.corruption == "collusion":
            raise ConfigError(
                f"colluders vote for a class, and with algorithm {self.name!r} silos send weights: choose "
                "another corruption, such as 'label-shift'"
            )
        if config.protection != "none":
            raise ConfigError(
                f"algorithm {self.name!r} shares weights, which protection = {config.protection!r} does not "
                "cover: set protection = 'none', or an algorithm that shares labels"
            )
        if config.student:
            raise ConfigError(
                f"algorithm {self.name!r} ends with a global model of its own: leave student out, which learns "
                "from the labels of an algorithm that shares them"
            )
        if config.resume:
            raise ConfigError(f"algorithm {self.name!r} keeps no checkpoint to resume from: start a new run")
        shapes = set()
        first: dict[str, NDArray[Any]] = {}
        for position in range(len(dataset.silos)):
            weights = network(config, dataset, position).weights()
            first = first or weights
            shapes.add(tuple((name, value.shape) for name, value in weights.items()))
        if len(shapes) > 1:
            raise ConfigError(f"algorithm {self.name!r} averages weights: give all silos the same network")
        self._check_weights(config, first)
        self._options(config, dataset)
        self._initial_weights(config, dataset)

    def _initial_weights(self, config: RunConfig, dataset: FederatedDataset) -> Weights:
        """What the first round begins with. Raises ConfigError for an initial model that does not fit this network."""
        first = network(config, dataset, 0)
        if self.initial_model:
            try:
                first.load(Path(self.initial_model))
            except DataError as error:
                raise ConfigError(
                    f"initial-model = {self.initial_model!r} cannot be read as a model of learner "
                    f"{config.learner[0]!r}: give the absolute path of one that this learner has saved"
                ) from error
        return first.weights()

    def _check_weights(self, config: RunConfig, weights: Weights) -> None:
        """Raise ConfigError for weights that the strategy cannot work with."""

    def _options(self, config: RunConfig, dataset: FederatedDataset) -> dict[str, Any]:
        """What the strategy takes beyond what every average does. Raises ConfigError."""
        return {}

    def _take_over(self, model: Network, weights: Weights) -> None:
        """Make an untrained network of a silo the one that global weights are of."""
        model.set_weights(weights)

    def _facts(self, weights: Weights) -> dict[str, Any]:
        """What ``result.json`` tells of the global weights."""
        return {}

    def model_path(self, folder: RunFolder, silo: SiloName, suffix: str) -> Path:
        """All silos end with the same model."""
        return folder.global_model(suffix)

    def run(self, study: Study, grid: Grid) -> dict[str, Any]:
        """Average, keep the global model, and return what ``result.json`` tells. Raises RunError.

        All begin with ``initial-model``, or with the first silo's fresh network. Its preprocessing is that of the
        global model.
        """
        from fedct_flwr.scoring import both_accuracies

        config, dataset = study.config, _simulated(study.config, study.dataset)
        test = dataset.test
        model = network(config, dataset, 0)

        def score(arrays: ArrayRecord) -> dict[str, float]:
            self._take_over(model, to_weights(arrays))
            found = dict(zip(("accuracy", "balanced_accuracy"), both_accuracies(model, test), strict=True))
            # Of one class alone there is no balanced accuracy.
            return {name: value for name, value in found.items() if not math.isnan(value)}

        strategy = self.strategy(
            study.roster,
            min_silos=config.min_silos,
            deadline=config.round_deadline,
            folder=study.folder,
            score=score if config.report_scores and test.size else None,
            **self._options(config, dataset),
        )
        study.roster.wait(grid)
        result = strategy.start(
            grid,
            to_arrays(self._initial_weights(config, dataset)),
            num_rounds=config.rounds,
            timeout=config.round_deadline,
            evaluate_fn=strategy.evaluate,
        )
        weights = to_weights(result.arrays)
        if config.save_models:
            self._take_over(model, weights)
            _save(model, study.folder.global_model(model.suffix))
        return self._facts(weights)


@dataclass(frozen=True)
class FedAvg(WeightSharing):
    """The mean of all networks (McMahan et al., arXiv:1602.05629)."""

    name: ClassVar[str] = "fedavg"
    title: ClassVar[str] = "FedAvg"


def _simulated(config: RunConfig, dataset: FederatedDataset | None) -> FederatedDataset:
    if dataset is None:
        raise ConfigError(
            f"algorithm {config.algorithm!r} is for simulation, as real silos hand out no weights: use one that shares "
            "labels, such as 'fedct'"
        )
    return dataset


def _save(model: Saveable, path: Path) -> None:
    try:
        path.parent.mkdir(exist_ok=True)
        model.save(path)
    except OSError as error:
        raise RunError(
            f"cannot write the global model to {path}: {error.strerror}; fix that, then run again"
        ) from error


def network(config: RunConfig, dataset: FederatedDataset, position: int) -> Network:
    """The untrained network of the silo at this position. Raises ConfigError for a learner without weights."""
    # Takes a second, for which a run config does not wait.
    from fedct_flwr.learners.build import build_learner

    learner = build_learner(config, dataset, position, dataset.silos[position].private.X)
    if not isinstance(learner, Network):
        name = config.learner[position % len(config.learner)]
        raise ConfigError(
            f"algorithm {config.algorithm!r} averages weights but learner {name!r} has none: use a network, such as "
            "mlp for tables, or an algorithm that shares labels"
        )
    return learner


def num_records(config: RunConfig, dataset: FederatedDataset) -> int:
    """Private records of all silos on the roster."""
    return sum(silo.private.size for silo in dataset.silos if not config.roster or silo.name in config.roster)
