"""Algorithms in which silos share hard labels: co-training, with the algorithm's own consensus."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from flwr.serverapp import Grid

from fedct_flwr.config import RunConfig
from fedct_flwr.consensus import Consensus
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.learners.base import Learner, Resumable
from fedct_flwr.learners.build import build_learner
from fedct_flwr.learners.protect import check_protection
from fedct_flwr.public_set import queried
from fedct_flwr.run_folder import RunFolder
from fedct_flwr.strategies.cotraining import CoTraining, arrays_to_targets, no_targets, targets_to_arrays
from fedct_flwr.strategies.global_model import add_global_model
from fedct_flwr.strategies.study import Study
from fedct_flwr.types import ConfigError, SiloName


@dataclass(frozen=True)
class LabelSharing:
    """``consensus`` makes an algorithm's consensus from the run config and the number of classes."""

    title: str
    consensus: Callable[[RunConfig, int], Consensus]
    leaves: ClassVar[str] = "labels of public examples"

    def check(self, config: RunConfig, dataset: FederatedDataset | None) -> None:
        """Any learner can label examples; raise ConfigError for one that cannot be made, or cannot be protected.

        The smallest silo stands for all: what a protection asks of records is that there are enough.
        """
        if config.initial_model:
            raise ConfigError(
                f"initial-model has no effect on algorithm {config.algorithm!r}, in which silos share no weights: "
                "leave it out, or use one in which they do, such as 'fedprox'"
            )
        _learners(config, dataset)
        if dataset:
            privacy = config.privacy_settings(queried(config.query_size, len(dataset.public)))
            smallest = min(dataset.silos, key=lambda silo: silo.private.size)
            for position in range(len(config.learner)):
                learner = config.learner_settings(position, len(dataset.silos))
                check_protection(privacy, learner, smallest.name, dataset.schema, dataset.public, smallest.private.size)

    def model_path(self, folder: RunFolder, silo: SiloName, suffix: str) -> Path:
        """Every silo ends with a model of its own."""
        return folder.silo_model(silo, suffix)

    def run(self, study: Study, grid: Grid) -> dict[str, Any]:
        """Co-train, write the final labels, and return what ``result.json`` tells. Raises RunError."""
        config, terms, checkpoint = study.config, study.terms, study.checkpoint
        # Whoever refits gives the same labels for the same targets. Whoever trains on may yet change them. What real
        # silos do is theirs to know: there stop-at-fixed-point is taken at its word.
        can_be_fixed = not any(isinstance(learner, Resumable) for learner in _learners(config, study.dataset))
        strategy = CoTraining(
            terms,
            self.consensus(config, terms.num_classes),
            study.roster,
            min_silos=config.min_silos,
            query_size=config.query_size,
            stop_at_fixed_point=config.stop_at_fixed_point and can_be_fixed,
            seed=config.seed,
            folder=study.folder,
            checkpoint=checkpoint,
        )
        result = strategy.start(
            grid,
            targets_to_arrays(checkpoint.targets if checkpoint else no_targets(terms.num_public)),
            num_rounds=config.num_server_rounds,
            timeout=config.round_deadline,
        )
        targets = arrays_to_targets(result.arrays)
        study.folder.save_labels(targets, terms.classes)
        return {
            "fixed_point": strategy.fixed_point,
            **add_global_model(study, targets, self.title, self.model_path),
        }


def _learners(config: RunConfig, dataset: FederatedDataset | None) -> list[Learner]:
    """One of each that the run config names; none for real silos, which have their own."""
    if dataset is None:
        return []
    positions = range(len(config.learner))
    return [build_learner(config, dataset, position, dataset.silos[position].private.X) for position in positions]
