"""Algorithms in which silos share hard labels: co-training, with the algorithm's own consensus."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flwr.serverapp import Grid

from fedct_flwr.config import RunConfig
from fedct_flwr.consensus import Consensus
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.strategies.cotraining import CoTraining, arrays_to_targets, no_targets, targets_to_arrays
from fedct_flwr.strategies.study import Study


@dataclass(frozen=True)
class LabelSharing:
    """``consensus`` makes an algorithm's consensus from the run config and the number of classes."""

    consensus: Callable[[RunConfig, int], Consensus]

    def check(self, config: RunConfig, dataset: FederatedDataset) -> None:
        """Any learner can label examples."""

    def run(self, study: Study, grid: Grid) -> dict[str, Any]:
        """Co-train, write the final labels, and return what ``result.json`` tells. Raises RunError."""
        config, terms, checkpoint = study.config, study.terms, study.checkpoint
        strategy = CoTraining(
            terms,
            self.consensus(config, terms.num_classes),
            study.roster,
            min_silos=config.min_silos,
            query_size=config.query_size,
            stop_at_fixed_point=config.stop_at_fixed_point,
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
        study.folder.save_labels(arrays_to_targets(result.arrays), terms.classes)
        return {"fixed_point": strategy.fixed_point}
