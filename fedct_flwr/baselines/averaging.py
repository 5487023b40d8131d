"""Flower's FedAvg with this project's roster, quorum and run folder: the baseline that shares weights.

McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data", arXiv:1602.05629.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result

from fedct_flwr.coordinator.questions import Questions
from fedct_flwr.coordinator.study import Roster
from fedct_flwr.datasets.federated import Query
from fedct_flwr.flower.grid import prompt
from fedct_flwr.runs.records import WeightsRecord, WeightsSent
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.types import LABEL_DTYPE, SiloName
from fedct_flwr.wire.codec import decode_reply
from fedct_flwr.wire.content import NO_TERMS, Instruction
from fedct_flwr.wire.messages import ARRAYS, NUM_EXAMPLES, from_record, num_bytes, read_reply, to_question
from fedct_flwr.wire.refusal import Refusal


class Averaging(FedAvg):
    """FedAvg over all silos that answer, weighed by their numbers of records, in the order of the silos' names.

    A line goes to the run folder when a round is over, with the global model's scores if there is a ``score``. Raises
    RunError where fewer than ``min_silos`` silos answer a round or the run folder cannot be written.
    """

    def __init__(
        self,
        roster: Roster,
        *,
        min_silos: int,
        deadline: float,
        folder: RunFolder,
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
        self._record: WeightsRecord | None = None

    def start(self, grid: Grid, *args: Any, **kwargs: Any) -> Result:
        """Run Flower's own loop, over a Grid that notices replies soon."""
        return super().start(prompt(grid), *args, **kwargs)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The global weights for every silo that is there and not busy with an earlier round."""
        # As Flower's own does; a silo knows by it that it is asked another question, whatever the weights.
        config["server-round"] = server_round
        self._sent = self._outgoing(arrays)
        return self._questions.ask(
            grid, lambda silo: to_question(self._outgoing_to(silo), config), server_round, self._deadline
        )

    def _outgoing(self, arrays: ArrayRecord) -> ArrayRecord:
        """What silos are sent, of the global weights; replies have its names and shapes."""
        return arrays

    def _outgoing_to(self, silo: SiloName) -> ArrayRecord:
        """What this silo is sent: what all are."""
        return self._sent

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The average of the replies that hold weights of the kind that was sent."""
        valid, absent = self._questions.sort(server_round, replies, self._read)
        silos = {
            silo: WeightsSent(num_bytes(message.content.array_records[ARRAYS]), round(seconds, 3))
            for silo, (message, seconds) in valid.items()
        }
        self._record = WeightsRecord(
            round=server_round,
            seconds=round(time.time() - self._questions.asked_at, 3),
            instruction_bytes=num_bytes(self._sent),
            bytes_sent=sum(sent.bytes_sent for sent in silos.values()),
            silos=silos,
            absent=absent,
        )
        return self._average(server_round, [message for message, _ in valid.values()])

    def _average(self, server_round: int, replies: list[Message]) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """What the global weights become, of replies in the order of the silos' names."""
        return super().aggregate_train(server_round, replies)

    def evaluate(self, server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
        """Score the global weights and write the round's line: Flower's ``evaluate_fn``, when a round is over."""
        scores = self._score(arrays) if self._score else None
        if self._record:
            self._folder.append_round(replace(self._record, scores=scores))
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
    """Of ``num_records``, how many are those of the silos that replied; 1 for all."""
    there = [reply.content.metric_records["metrics"][NUM_EXAMPLES] for reply in replies]
    return float(np.sum(there)) / num_records
