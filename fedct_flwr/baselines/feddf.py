"""FedDF: FedAvg, and then the average learns on public examples what the silos' models say of them together.

Lin, Kong, Stich, Jaggi, "Ensemble distillation for robust model fusion in federated learning", arXiv:2006.07242,
Algorithm 1, for silos with the same network. Labels of the public set are not used, and none of the silos' records:
the paper stops by a validation set, here ``distillation-steps`` are taken.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord
from numpy.typing import NDArray
from pydantic import Field
from scipy.special import softmax

from fedct_flwr.baselines.weight_sharing import Averaging, WeightSharing, network
from fedct_flwr.config.settings import MAX_INT
from fedct_flwr.learners import Averageable, Distillable
from fedct_flwr.types import ConfigError, Features, generator
from fedct_flwr.wire.messages import ARRAYS, to_arrays, to_weights

if TYPE_CHECKING:
    from fedct_flwr.config.run import RunConfig
    from fedct_flwr.coordinator.study import Roster
    from fedct_flwr.datasets.federated import FederatedDataset


@runtime_checkable
class AveragedStudent(Averageable, Distillable, Protocol):
    """Takes the weights of each silo in turn, then the average's, and learns."""


class DistilledAveraging(Averaging):
    """The average of the weights, taught by the average of the silos' logits (each silo's counting the same).

    Each round draws ``num_examples`` of the ``public`` examples, as many as ``steps`` minibatches show.
    """

    def __init__(
        self,
        roster: "Roster",
        *,
        student: AveragedStudent,
        public: Features,
        num_examples: int,
        steps: int,
        seed: int,
        **options: Any,
    ) -> None:
        super().__init__(roster, **options)
        self._student = student
        self._public = public
        self._num_examples = num_examples
        self._steps = steps
        self._seed = seed

    def _average(self, server_round: int, replies: list[Message]) -> tuple[ArrayRecord | None, MetricRecord | None]:
        arrays, metrics = super()._average(server_round, replies)
        if arrays is None:
            return None, metrics
        order = generator(self._seed, "distillation", server_round).permutation(len(self._public))
        asked = self._public[order[: self._num_examples]]
        logits = []
        for reply in replies:
            self._student.set_weights(to_weights(reply.content.array_records[ARRAYS]))
            logits.append(self._student.logits(asked))
        targets: NDArray[np.float32] = softmax(np.mean(logits, axis=0), axis=1)
        self._student.set_weights(to_weights(arrays))
        self._student.distill(asked, targets, self._steps)
        return to_arrays(self._student.weights()), metrics


@dataclass(frozen=True)
class FedDF(WeightSharing):
    """The mean then learns from all networks on the public set (Lin et al., arXiv:2006.07242)."""

    name: ClassVar[str] = "feddf"
    title: ClassVar[str] = "FedDF"
    strategy: ClassVar[type[Averaging]] = DistilledAveraging

    distillation_steps: Annotated[int, Field(ge=1, le=MAX_INT)] = 50
    """Minibatch steps on ``batch-size`` public examples each, after every round."""

    def _options(self, config: "RunConfig", dataset: "FederatedDataset") -> dict[str, Any]:
        student = network(config, dataset, 0)
        if not isinstance(student, AveragedStudent):
            raise ConfigError(f"algorithm {self.name!r} teaches by probabilities: use a network")
        return {
            "student": student,
            "public": dataset.public.X,
            "num_examples": self.distillation_steps * config.batch_size,
            "steps": self.distillation_steps,
            "seed": config.seed,
        }
