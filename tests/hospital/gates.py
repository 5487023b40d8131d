"""A silo with an approved study, its gate and its log, on disk."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flwr.app import Context, Message, RecordDict

from client_app.main import app as client_app
from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.datasets.study_folder import StudyFolder, read_study
from fedct_flwr.hospital.approval import approve
from fedct_flwr.hospital.egress_log import EgressLog
from fedct_flwr.hospital.gate import Gate, Held
from fedct_flwr.hospital.log_entry import LogEntry, LogVerdict, verify_log
from fedct_flwr.hospital.opening import open_gate
from fedct_flwr.silo.round import gated
from fedct_flwr.types import ABSTAIN, Refusal
from fedct_flwr.wire.codec import encode_instruction, encode_refusal, encode_reply
from fedct_flwr.wire.content import Instruction, Query, Reply, Scores, Soft, SoftTargets, Terms
from fedct_flwr.wire.messages import ACTION, from_record, to_record
from tests.hospitals import write_silo_folder

RUN = 11
CODE = "c0de" * 16
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


@dataclass
class Silo:
    """One hospital. ``unchanged`` is what its gate is told of its files."""

    config: SiloConfig
    study: StudyFolder
    state: Path
    unchanged: bool = True

    @cached_property
    def terms(self) -> Terms:
        return self.study.terms

    @contextmanager
    def gate(self) -> Iterator[Gate]:
        with EgressLog.open(self.state, self.config.silo, KEY) as log:
            yield open_gate(self.config, self.study, log, lambda: self.unchanged)

    def instruction(self, number: int = 1, size: int = 5, label: int = ABSTAIN, votes: int = 0) -> Instruction:
        return Instruction(number, Query(3, size), np.full(self.terms.num_public, label, dtype=np.int16), votes)

    def request(self, number: int = 1, size: int = 5, label: int = ABSTAIN, votes: int = 0) -> bytes:
        return encode_instruction(self.instruction(number, size, label, votes), self.terms)

    def soft_request(self, number: int = 1, size: int = 5, weight: float = 0.5) -> bytes:
        """For probabilities: with targets for as many examples as are asked about."""
        learned = SoftTargets(Query(5, size), np.tile(np.float32([0.2, 0.8]), (size, 1)), weight)
        return self._soft_request(Soft(learned), number, size)

    def warm_up_request(self, number: int = 1, size: int = 5) -> bytes:
        """For probabilities, without targets."""
        return self._soft_request(Soft(), number, size)

    def _soft_request(self, soft: Soft, number: int, size: int) -> bytes:
        return encode_instruction(replace(self.instruction(number, size), soft=soft), self.terms)

    def probabilities(self, number: int = 1, size: int = 5, silo: str = "") -> bytes:
        rows = np.tile(np.float32([0.4, 0.6]), (size, 1))
        return encode_reply(Reply(number, silo or self.config.silo, rows), self.terms)

    def counts(self, number: int = 1, size: int = 5, votes: int = 2, silo: str = "") -> bytes:
        counts = np.tile(np.int32([1, votes - 1]), (size, 1))
        return encode_reply(Reply(number, silo or self.config.silo, counts), self.terms)

    def reply(
        self, number: int = 1, size: int = 5, silo: str = "", scores: Scores | None = None, first: int = 1
    ) -> bytes:
        votes = np.ones(size, dtype=np.int16)
        votes[0] = first
        return encode_reply(Reply(number, silo or self.config.silo, votes, scores), self.terms)

    def ask(self, gate: Gate, number: int = 1, size: int = 5, **changes: Any) -> Refusal | bytes:
        """A whole round through the gate: what leaves."""
        payload = gate.admit(to_record(self.request(number, size)), RUN, CODE)
        left = gate.release(to_record(self.reply(number, size, **changes)), payload, RUN, CODE)
        assert left is not None
        return outcome(from_record(left))

    def entries(self) -> list[LogEntry]:
        with EgressLog.open(self.state, self.config.silo, KEY) as log:
            return list(log.entries())

    def verify(self) -> LogVerdict:
        return verify_log(self.state, KEY.public_key(), self.config.silo)


def through(gate: Gate, message: Message, context: Context) -> RecordDict:
    """What leaves in reply: let in, answered by the client app, let out; and only then the personal model learns."""
    left: RecordDict | None
    if message.metadata.message_type.endswith(ACTION):
        left = gate.add(message.content, context.run_id, CODE)
    else:
        try:
            payload = gate.admit(message.content, context.run_id, CODE)
        except Held as held:
            left = held.record
        else:
            with gated() as afterwards:
                answer = client_app(message, context)
            left = gate.release(answer.content, payload, context.run_id, CODE)
            for work in afterwards:
                work()
    assert left is not None, "the gate let nothing out, not even a refusal"
    return left


def outcome(payload: bytes, silo: str = "cleveland") -> Refusal | bytes:
    """The reason if the payload is a refusal of this silo, and otherwise the payload."""
    reasons = {encode_refusal(silo, reason): reason for reason in Refusal}
    return reasons.get(payload, payload)


def open_silo(folder: Path, *, approved: bool = True, state: Path | None = None, **policy: Any) -> Silo:
    """A silo with this policy, whose study is approved."""
    config = SiloConfig.read_toml(write_silo_folder(folder, policy={k.replace("_", "-"): v for k, v in policy.items()}))
    silo = Silo(config, read_study(config.study), state or config.state)
    if approved:
        with EgressLog.open(silo.state, config.silo, KEY) as log:
            approve(log, config, silo.study)
    return silo
