"""Flower's FedAvg with this project's roster, quorum and run folder: the baseline that shares weights.

McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data", arXiv:1602.05629.
"""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg

from fedct_flwr.public_set import Query
from fedct_flwr.run_folder import RunFolder, WeightsRecord, WeightsSent
from fedct_flwr.strategies.roster import Roster
from fedct_flwr.types import LABEL_DTYPE, RunError, SiloName
from fedct_flwr.wire.codec import Instruction, Terms, decode_reply
from fedct_flwr.wire.messages import from_record
from fedct_flwr.wire.refusal import Refusal, Refused
from fedct_flwr.wire.weights import ARRAYS, NUM_EXAMPLES, num_bytes, read_reply

logger = logging.getLogger("flwr.fedct")

_NO_REPLY: Final = "no reply within the deadline"
# Weights are no part of the protocol; only a refusal is read under it, and a refusal is bound to no terms.
_NO_TERMS: Final = Terms("", b"", 0, ())


class Averaging(FedAvg):
    """FedAvg over all silos that answer, weighed by their numbers of records.

    Replies are averaged in the order of the silos' names, so a run repeats exactly. A line goes to the run folder when
    a round is over, with the global model's scores if there is a ``score``. Raises RunError where fewer than
    ``min_silos`` silos answer a round or the run folder cannot be written.
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
            # Nobody is asked to evaluate; a node that comes late is no reason to wait for it forever.
            fraction_evaluate=0.0,
            min_train_nodes=min_silos,
            min_available_nodes=min_silos,
            weighted_by_key=NUM_EXAMPLES,
        )
        self._roster = roster
        self._min_silos = min_silos
        self._deadline = deadline
        self._folder = folder
        self._score = score
        self._sent = ArrayRecord()
        self._sent_at = 0.0
        self._record: WeightsRecord | None = None

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """The global weights for all nodes."""
        self._roster.nodes(grid)
        messages = list(super().configure_train(server_round, arrays, config, grid))
        for message in messages:
            message.metadata.ttl = self._deadline
        self._sent, self._sent_at = arrays, time.time()
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The average of the replies that hold weights of the kind that was sent."""
        valid: dict[SiloName, Message] = {}
        absent: dict[str, str] = {}
        for message in replies:
            node = message.metadata.src_node_id
            try:
                valid[self._accept(message)] = message
            except Refused as refused:
                absent[self._roster.name(node)] = refused.reason.sentence
                logger.warning("Round %s: no weights from %s: %s", server_round, self._roster.name(node), refused)
        absent |= {silo: _NO_REPLY for silo in self._roster.silos if silo not in valid and silo not in absent}
        if len(valid) < self._min_silos:
            raise RunError(
                f"round {server_round} has {len(valid)} valid replies but min-silos is {self._min_silos}: "
                + "; ".join(f"{name}: {reason}" for name, reason in absent.items())
            )
        silos = {
            silo: WeightsSent(
                bytes_sent=num_bytes(message.content.array_records[ARRAYS]),
                seconds=round(max(0.0, message.metadata.created_at - self._sent_at), 3),
            )
            for silo, message in sorted(valid.items())
        }
        self._record = WeightsRecord(
            round=server_round,
            seconds=round(time.time() - self._sent_at, 3),
            instruction_bytes=num_bytes(self._sent),
            bytes_sent=sum(sent.bytes_sent for sent in silos.values()),
            silos=silos,
            absent=absent,
        )
        return super().aggregate_train(server_round, [valid[silo] for silo in silos])

    def evaluate(self, server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
        """Score the global weights and write the round's line: Flower's ``evaluate_fn``, when a round is over."""
        scores = self._score(arrays) if self._score else None
        if self._record:
            self._folder.append_round(replace(self._record, scores=scores))
        return MetricRecord(dict(scores)) if scores else None

    def _accept(self, message: Message) -> SiloName:
        """The silo that sent good weights. Raises Refused."""
        if message.has_error():
            raise Refused(Refusal.INTERNAL)
        if not message.content.array_records:
            nothing = Instruction(0, Query(0, 0), np.zeros(0, dtype=LABEL_DTYPE))
            reply = decode_reply(from_record(message.content), _NO_TERMS, nothing)
            self._roster.introduce(message.metadata.src_node_id, reply.silo)
            raise Refused(reply.outcome if isinstance(reply.outcome, Refusal) else Refusal.MALFORMED)
        silo = read_reply(message.content, self._sent)
        self._roster.claim(message.metadata.src_node_id, silo)
        return silo
