"""Baselines in which silos share weights: the same silos, data, networks and steps as in co-training.

FedAvg is Flower's, with this project's roster, quorum and run folder: McMahan et al., "Communication-Efficient Learning
of Deep Networks from Decentralized Data", arXiv:1602.05629.
"""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg as FlowerFedAvg
from numpy.typing import NDArray

from fedct_flwr import learners
from fedct_flwr.config.settings import Uses, uses
from fedct_flwr.coordinator.algorithm import Algorithm
from fedct_flwr.coordinator.questions import Questions
from fedct_flwr.learners import Correctable, Learner, Saveable
from fedct_flwr.scoring import both_accuracies
from fedct_flwr.types import LABEL_DTYPE, ConfigError, DataError, Refusal, RunError, SiloName
from fedct_flwr.wire.codec import decode_reply
from fedct_flwr.wire.content import NO_TERMS, Instruction, Query
from fedct_flwr.wire.kinds import Kind
from fedct_flwr.wire.messages import (
    ARRAYS,
    NUM_EXAMPLES,
    Weights,
    from_record,
    num_bytes,
    read_reply,
    to_arrays,
    to_question,
    to_weights,
)

if TYPE_CHECKING:
    from fedct_flwr.config.run import RunConfig
    from fedct_flwr.coordinator.study import Roster, Study
    from fedct_flwr.datasets.federated import FederatedDataset
    from fedct_flwr.runs.run_folder import RunFolder


class Averaging(FlowerFedAvg):
    """FedAvg over all silos that answer, weighed by their numbers of records, in the order of the silos' names.

    A line goes to the run folder when a round is over, with the global model's scores if there is a ``score``. Raises
    RunError where fewer than ``min_silos`` silos answer a round or the run folder cannot be written.
    """

    def __init__(
        self,
        roster: "Roster",
        *,
        min_silos: int,
        deadline: float,
        folder: "RunFolder",
        score: Callable[[ArrayRecord], dict[str, float]] | None = None,
    ) -> None:
        super().__init__(
            fraction_evaluate=0.0,
            weighted_by_key=NUM_EXAMPLES,
        )
        self._questions = Questions(roster, min_silos)
        self._deadline = deadline
        self._folder = folder
        self._score = score
        self._sent = ArrayRecord()
        self._record: dict[str, Any] = {}

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The global weights for every silo that is there and not busy with an earlier round."""
        # As Flower's own does; a silo knows by it that it is asked another question, whatever the weights.
        config["server-round"] = server_round
        self._sent = self._outgoing(arrays)
        return self._questions.ask(grid, lambda silo: to_question(self._sent, config), server_round, self._deadline)

    def _outgoing(self, arrays: ArrayRecord) -> ArrayRecord:
        """The part of the global weights that silos get; replies have its names and shapes."""
        return arrays

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The average of the replies that hold weights of the kind that was sent."""
        valid, absent = self._questions.sort(server_round, replies, self._read)
        silos = {
            silo: {"bytes_sent": num_bytes(message.content.array_records[ARRAYS]), "seconds": round(seconds, 3)}
            for silo, (message, seconds) in valid.items()
        }
        self._record = {
            "round": server_round,
            "seconds": round(time.time() - self._questions.asked_at, 3),
            "instruction_bytes": num_bytes(self._sent),
            "bytes_sent": sum(sent["bytes_sent"] for sent in silos.values()),
            "silos": silos,
            "absent": absent,
        }
        return self._average(server_round, [message for message, _ in valid.values()])

    def _average(self, server_round: int, replies: list[Message]) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Average the replies, ordered by the silos' names, into new global weights."""
        return super().aggregate_train(server_round, replies)

    def evaluate(self, server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
        """Score the global weights and write the round's line: Flower's ``evaluate_fn``, when a round is over."""
        scores = self._score(arrays) if self._score else None
        if self._record:
            self._folder.append_round({**self._record, "scores": scores})
        return MetricRecord(dict(scores)) if scores else None

    def _read(self, message: Message) -> tuple[SiloName, Message | Refusal]:
        """The silo and its message, if that holds good weights. Raises Refused."""
        if message.content.array_records:
            return read_reply(message.content, self._sent), message
        nothing = Instruction(0, Query(0, 0), np.zeros(0, dtype=LABEL_DTYPE))
        # Weights are no part of the protocol; only a refusal is read under it.
        reply = decode_reply(from_record(message.content), NO_TERMS, nothing)
        return reply.silo, reply.outcome if isinstance(reply.outcome, Refusal) else Refusal.MALFORMED


def share(replies: Iterable[Message], num_records: int) -> float:
    """Share of ``num_records`` at the silos that replied; 1 for all."""
    there = [reply.content.metric_records["metrics"][NUM_EXAMPLES] for reply in replies]
    return float(np.sum(there)) / num_records


@runtime_checkable
class Network(Correctable, Saveable, Learner, Protocol):
    """A network that predicts, trains from given weights, and can be written to a file."""


@dataclass(frozen=True)
class WeightSharing(Algorithm):
    """``strategy`` averages. For simulation only: real silos hand out no weights."""

    strategy: ClassVar[type[Averaging]] = Averaging
    kind: ClassVar[Kind | None] = None
    leaves: ClassVar[str] = "the weights of its network"
    used: ClassVar[Uses] = uses("report-scores")

    initial_model: str = field(default="", kw_only=True)
    """File of a model that the first round begins with, absolute."""

    def check(self, config: "RunConfig", dataset: "FederatedDataset | None") -> None:
        """Raise ConfigError unless every silo is simulated and trains a network with the same weights, in a new run."""
        dataset = _simulated(config, dataset)
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

    def _initial_weights(self, config: "RunConfig", dataset: "FederatedDataset") -> Weights:
        """Weights before the first round. Raises ConfigError for an initial model that does not fit this network."""
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

    def _check_weights(self, config: "RunConfig", weights: Weights) -> None:
        """Raise ConfigError for weights that the strategy cannot work with."""

    def _options(self, config: "RunConfig", dataset: "FederatedDataset") -> dict[str, Any]:
        """Further arguments of the strategy. Raises ConfigError."""
        return {}

    def model_path(self, folder: "RunFolder", silo: SiloName, suffix: str) -> Path:
        """All silos end with the same model."""
        return folder.global_model(suffix)

    def run(self, study: "Study", grid: Grid) -> dict[str, Any]:
        """Average, keep the global model, and return what ``result.json`` tells. Raises RunError.

        All begin with ``initial-model``, or with the first silo's fresh network. Its preprocessing is that of the
        global model.
        """
        config, dataset = study.config, _simulated(study.config, study.dataset)
        test = dataset.test
        model = network(config, dataset, 0)

        def score(arrays: ArrayRecord) -> dict[str, float]:
            model.set_weights(to_weights(arrays))
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
        if config.save_models:
            model.set_weights(to_weights(result.arrays))
            _save(model, study.folder.global_model(model.suffix))
        return {}


@dataclass(frozen=True)
class FedAvg(WeightSharing):
    """The mean of the networks of the silos that answer, by their numbers of records (McMahan, arXiv:1602.05629)."""

    name: ClassVar[str] = "fedavg"
    title: ClassVar[str] = "FedAvg"


def _simulated(config: "RunConfig", dataset: "FederatedDataset | None") -> "FederatedDataset":
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


def network(config: "RunConfig", dataset: "FederatedDataset", position: int) -> Network:
    """The untrained network of the silo at this position. Raises ConfigError for a learner without weights."""
    learner = learners.build_learner(config, dataset, position, dataset.silos[position].private.X)
    if not isinstance(learner, Network):
        name = config.learner[position % len(config.learner)]
        raise ConfigError(
            f"algorithm {config.algorithm!r} averages weights but learner {name!r} has none: use a network, such as "
            "mlp for tables, or an algorithm that shares labels"
        )
    return learner


def num_records(config: "RunConfig", dataset: "FederatedDataset") -> int:
    """Private records of all silos on the roster."""
    return sum(silo.private.size for silo in dataset.silos if not config.roster or silo.name in config.roster)
