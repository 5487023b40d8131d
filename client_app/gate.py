"""The only way out of a silo: requests and replies pass here, or are refused for one of a fixed set of reasons.

Formal guarantee: what ``release`` returns is one record with one bytes field, which the gate itself encoded from
labels, counts of votes or probabilities that answer the request under the approved terms and are of a kind that the
policy lets out, or the silo's name and the number of a refusal. The line of the log that says so is on disk before it
returns. Anything that goes wrong in here is a refusal, never an exception and never a pass; if the log cannot be
written, nothing leaves but the fixed refusal that says so.

A round is a round of one run of Flower's. The same question in another run gets the same answer, which the client app
sees to; a new run that asks the same round with other labels is a new question, and only the policy's totals cap how
many of those are answered.

The gate keeps no record but the egress log: totals, answered rounds and the approval are what its lines add up to.
"""

import hashlib
import logging
import re
import threading
from collections.abc import Callable
from typing import Final

from flwr.app import RecordDict

from client_app.approval import approval_in, approving_digests
from client_app.books import Spent
from client_app.egress_log import EgressLog
from client_app.log_entry import Event, LogEntry
from client_app.site import terms_of
from fedct_flwr.config import Policy, SiloConfig
from fedct_flwr.datasets.study_folder import StudyFolder
from fedct_flwr.wire.codec import (
    Instruction,
    Reply,
    decode_instruction,
    decode_reply,
    encode_refusal,
    encode_reply,
    longest_reply,
)
from fedct_flwr.wire.messages import from_record, to_record
from fedct_flwr.wire.refusal import Refusal, Refused
from fedct_flwr.wire.weights import asks_for_weights

logger = logging.getLogger("flwr.fedct")

_IN_TURN: Final = 1.0
"""What targets of weight 0 count: they are learned alone, in as many steps as the records after them."""
_HASH: Final = re.compile(r"[0-9a-fA-F]{0,128}")


class Held(Refused):
    """A request that the gate refused. The refusal is logged: ``record`` goes back as it is."""

    def __init__(self, reason: Refusal, record: RecordDict) -> None:
        super().__init__(reason)
        self.record = record


class Books:
    """What the lines of an egress log add up to, for one study and public set."""

    def __init__(self, study: StudyFolder) -> None:
        self._study = study.name
        self._public = study.public.fingerprint.hex()
        self.spent = Spent()
        self.approved: bytes | None = None
        """Digest of the terms that are approved."""
        self._last_answers: dict[int, tuple[int, str]] = {}

    def add(self, entry: LogEntry) -> None:
        """Add one line."""
        if entry.event in (Event.APPROVED, Event.REVOKED):
            approval = approval_in(entry)
            self.approved = approval.digest if approval else None
        elif entry.event in (Event.RELEASED, Event.REPEATED):
            self._last_answers[entry.run] = (entry.round, entry.payload)
            if (entry.study, entry.public) == (self._study, self._public):
                self.spent = self.spent.plus(entry)

    def answer(self, run: int, number: int) -> str | None:
        """SHA-256 of the answer that left in this round of a run; None if none has. Raises Refused (ROUND).

        Of all rounds but the last that was answered, no answer can be had any more: neither a new one nor the same.
        """
        last, digest = self._last_answers.get(run, (0, ""))
        if number < last:
            raise Refused(Refusal.ROUND)
        return digest if number == last else None


class Gate:
    """What may leave one silo in one study.

    ``unchanged`` says whether the files behind the approved terms are still those that this process has read; it is
    asked before each decision.
    """

    def __init__(self, config: SiloConfig, study: StudyFolder, log: EgressLog, unchanged: Callable[[], bool]) -> None:
        self._silo = config.silo
        self._policy: Policy = config.policy
        self._terms = terms_of(study)
        self._approving = approving_digests(config, study)
        self._log = log
        self._unchanged = unchanged
        self._books = Books(study)
        self._one_at_a_time = threading.Lock()
        self._not_logged = encode_refusal(self._silo, Refusal.NOT_LOGGED)
        log.follow(self._books.add)

    def admit(self, content: RecordDict, run_id: int, code_hash: str) -> bytes:
        """The payload of a request that may be answered. Raises Held, whose record goes back instead of an answer.

        Whatever would exceed a limit of the policy is refused here, before a model is trained in vain, or for too long.
        """
        with self._one_at_a_time:
            reason, number = Refusal.INTERNAL, 0
            try:
                self._check_approved()
                if asks_for_weights(content):
                    raise Refused(Refusal.WEIGHTS)
                payload = from_record(content)
                instruction = decode_instruction(payload, self._terms)
                number = instruction.round
                self._check_asked(instruction)
                longest = longest_reply(instruction, self._silo, self._terms, scores=self._policy.metrics)
                repeats = self._books.answer(run_id, number) is not None
                labels = 0 if repeats else instruction.labels(self._terms.num_classes)
                self._check_limits(labels, longest, new_round=not repeats)
            except Refused as refused:
                reason = refused.reason
            except Exception:
                logger.exception("The gate of %s: an unexpected error at a request", self._silo)
            else:
                return payload
            raise Held(reason, self._refuse(reason, run_id, code_hash, number))

    def release(self, content: RecordDict, request_payload: bytes, run_id: int, code_hash: str) -> RecordDict:
        """What goes back: the reply, if it may leave, or else a refusal. Never raises.

        ``request_payload`` is what ``admit`` returned. The same answer to the last round may leave again, and counts
        towards the bytes; another answer to a round that was answered may not.
        """
        with self._one_at_a_time:
            reason, number = Refusal.INTERNAL, 0
            try:
                self._check_approved()
                instruction = decode_instruction(request_payload, self._terms)
                number = instruction.round
                self._check_asked(instruction)
                payload = self._checked_reply(content, instruction)
                entry = self._entry_for(payload, instruction, run_id, code_hash)
                try:
                    self._log.append(entry)
                except OSError:
                    logger.exception("Silo %s cannot write its egress log", self._silo)
                    reason = Refusal.NOT_LOGGED
                else:
                    return to_record(payload)
            except Refused as refused:
                reason = refused.reason
            except Exception:
                logger.exception("The gate of %s: an unexpected error at a reply", self._silo)
            return self._refuse(reason, run_id, code_hash, number)

    def refuse(self, reason: Refusal, run_id: int, code_hash: str) -> RecordDict:
        """A logged refusal, for the agent's own reasons. Never raises."""
        with self._one_at_a_time:
            return self._refuse(reason, run_id, code_hash, 0)

    def spent(self) -> Spent:
        """What left so far, over all approvals of this study and public set."""
        return self._books.spent

    def _check_approved(self) -> None:
        if self._books.approved not in self._approving or self._unchanged() is not True:
            raise Refused(Refusal.NOT_APPROVED)

    def _check_asked(self, instruction: Instruction) -> None:
        policy, soft = self._policy, instruction.soft
        if instruction.kind not in policy.kinds:
            raise Refused(Refusal.POLICY)
        weight = (soft.targets.weight or _IN_TURN) if soft and soft.targets else 0.0
        if soft and (soft.rounds > policy.max_local_rounds or weight > policy.max_consensus_weight):
            logger.warning(
                "Silo %s is asked for %s rounds of training (max-local-rounds is %s), in which others' probabilities "
                "count %g (max-consensus-weight is %g)",
                self._silo, soft.rounds, policy.max_local_rounds, weight, policy.max_consensus_weight,
            )  # fmt: skip
            raise Refused(Refusal.LIMIT)

    def _check_limits(self, queries: int, size: int, *, new_round: bool) -> None:
        policy, (rounds, asked, sent) = self._policy, self._books.spent
        if (
            rounds + new_round > policy.max_rounds
            or asked + queries > policy.max_queries
            or sent + size > policy.max_bytes
        ):
            raise Refused(Refusal.LIMIT)

    def _checked_reply(self, content: RecordDict, instruction: Instruction) -> bytes:
        """A reply with labels, encoded anew. Raises Refused; with a refusal's own reason if the reply is one."""
        reply = decode_reply(from_record(content), self._terms, instruction)
        if reply.silo != self._silo:
            raise Refused(Refusal.SILO)
        if isinstance(reply.outcome, Refusal):
            raise Refused(reply.outcome)
        if reply.scores is not None and not self._policy.metrics:
            raise Refused(Refusal.POLICY)
        return encode_reply(Reply(instruction.round, self._silo, reply.outcome, reply.scores), self._terms)

    def _entry_for(self, payload: bytes, instruction: Instruction, run_id: int, code_hash: str) -> LogEntry:
        """The line that lets a reply out. Raises Refused (ROUND, LIMIT)."""
        digest, number = hashlib.sha256(payload).hexdigest(), instruction.round
        before = self._books.answer(run_id, number)
        if before is not None and before != digest:
            raise Refused(Refusal.ROUND)
        labels = instruction.labels(self._terms.num_classes)
        self._check_limits(0 if before else labels, len(payload), new_round=not before)
        return LogEntry(
            Event.REPEATED if before else Event.RELEASED,
            self._terms.study,
            self._terms.public_fingerprint.hex(),
            run_id,
            number,
            instruction.kind,
            labels,
            len(payload),
            digest,
            _hash_only(code_hash),
        )

    def _refuse(self, reason: Refusal, run_id: int, code_hash: str, number: int) -> RecordDict:
        try:
            payload = encode_refusal(self._silo, reason)
            entry = LogEntry(
                Event.REFUSED,
                self._terms.study,
                self._terms.public_fingerprint.hex(),
                run_id,
                number,
                bytes=len(payload),
                payload=hashlib.sha256(payload).hexdigest(),
                code=_hash_only(code_hash),
                reason=reason.name,
            )
            self._log.append(entry)
        except Exception:
            logger.exception("Silo %s cannot write its egress log", self._silo)
            return to_record(self._not_logged)
        logger.warning("Silo %s sends no labels: %s", self._silo, reason.sentence)
        return to_record(payload)


def _hash_only(code_hash: str) -> str:
    """The hash, which comes from the coordinator: anything that is none has no place in the log."""
    return code_hash.lower() if _HASH.fullmatch(code_hash) else "not a hash"
