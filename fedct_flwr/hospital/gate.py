"""The only way out of a silo: requests and replies pass here, or are refused for one of a fixed set of reasons.

Formal guarantee: what ``release`` returns is one record with one bytes field, which the gate itself encoded from
labels, counts of votes or probabilities that answer the request under the approved terms and are of a kind that the
policy lets out, or the silo's name and the number of a refusal. The line of the log that says so is on disk before it
returns. Anything that goes wrong in here is a refusal, never an exception and never a pass; if the log cannot be
written, nothing leaves but the fixed refusal that says so.

A question counts when ``admit`` lets it in: the log has its SHA-256, and its round and labels are used up, before a
model is trained. So whether it counts does not depend on the records, and nothing is learned for free. The same
question in the same round of the same run counts once; other contents in that round are refused, for as long as there
is a log. All bytes count that leave, those of refusals too: where the total has no room for a refusal, nothing is sent.

A round is a round of one run of Flower's. The same question in another run gets the same answer, which the client app
sees to; a new run that asks the same round with other labels is a new question, and only the policy's totals cap how
many of those are answered.

The gate keeps no record but the egress log: totals, answered rounds and the approval are what its lines add up to.
Where several studies share limits for the same records, each step is also counted in their shared usage file,
before it is taken.
"""

import hashlib
import re
import threading
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from flwr.app import RecordDict

from fedct_flwr import wire
from fedct_flwr.hospital.egress_log import EgressLog, keep
from fedct_flwr.hospital.log_entry import TOTALS, Event, LogEntry, Used, digest_in
from fedct_flwr.secure_sum.messages import Header, Step
from fedct_flwr.secure_sum.terms import Fault, Shape
from fedct_flwr.text.printable import logger
from fedct_flwr.types import Refusal, Refused, SiloName
from fedct_flwr.wire.codec import decode_instruction, decode_reply, encode_refusal, encode_reply, longest_reply
from fedct_flwr.wire.content import Instruction, Joint, Reply, Terms
from fedct_flwr.wire.kinds import Kind, kind_of
from fedct_flwr.wire.messages import asks_for_weights, from_record, to_record

if TYPE_CHECKING:
    from fedct_flwr.config.silo import Policy
    from fedct_flwr.hospital.shared_usage import SharedUsage
    from fedct_flwr.secure_sum.silo import Contribution, SumClient

_HASH: Final = re.compile(r"[0-9a-fA-F]{0,128}")


@dataclass(frozen=True)
class AdmittedQuestion:
    """The last question of a run that was admitted; ``answer``: SHA-256 of the reply that left, or nothing yet."""

    round: int
    request: str
    answer: str = ""


class Usage:
    """Totals of the log's lines: ``spent`` for one study and public set, all else over all studies.

    No run is ever forgotten.
    """

    def __init__(self, terms: Terms) -> None:
        self._study = terms.study
        self._public = terms.public_fingerprint.hex()
        self.spent = Used()
        self.answers = 0
        """How many messages with labels, or steps of a sum, left; repeated ones too."""
        self.approved: bytes | None = None
        """Digest of the terms that are approved."""
        self.ready: set[str] = set()
        """SHA-256 of questions that were answered with "ready" for a secure sum."""
        self.added: set[str] = set()
        """Those that a sum was added to."""
        self._last: dict[int, AdmittedQuestion] = {}

    def add(self, entry: LogEntry) -> None:
        """Add one line."""
        if entry.event in (Event.APPROVED, Event.REVOKED):
            before, self.approved = self.approved, digest_in(entry)
            if self.approved != before:
                # Ready summands have the noise of the former terms.
                self.ready.clear()
        elif entry.event is Event.ADMITTED:
            self._last[entry.run] = AdmittedQuestion(entry.round, entry.request)
        elif entry.event in (Event.RELEASED, Event.REPEATED):
            self._last[entry.run] = AdmittedQuestion(entry.round, entry.request, entry.payload)
            self.answers += 1
            if entry.kind in wire.ADDED:
                self.ready.add(entry.request)
        elif entry.event is Event.ADDED:
            self.added |= {entry.request} - {""}
            self.answers += bool(entry.bytes) and not entry.reason
        if (entry.study, entry.public) == (self._study, self._public):
            self.spent = self.spent.plus(entry)

    def admitted(self, run: int, number: int, request: str) -> AdmittedQuestion | None:
        """The question of this round of a run, if it was admitted before; None for a later round than any before.

        ``request`` is its SHA-256. Raises Refused (ROUND) for an earlier round, and for a round that was asked with
        other contents: neither depends on the silo's records.
        """
        last = self._last.get(run)
        if last is None or number > last.round:
            return None
        if (number, request) != (last.round, last.request):
            raise Refused(Refusal.ROUND)
        return last


class Held(Refused):
    """A request that the gate refused, which the log says. ``record`` goes back as it is; None: nothing is sent."""

    def __init__(self, reason: Refusal, record: RecordDict | None) -> None:
        super().__init__(reason)
        self.record = record


@dataclass
class _Wrong:
    """Why a message is refused, and what is known of it: the ``number`` of its round, the digest of what is asked.

    As a context it notes what goes wrong in there, ``at`` which kind of message, and no exception leaves it.
    """

    silo: SiloName
    at: str = ""
    reason: Refusal = Refusal.INTERNAL
    number: int = 0
    asked: str = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, Refused):
            self.reason = error.reason
        elif isinstance(error, Exception):
            logger.error("The gate of %s: an unexpected error %s", self.silo, self.at, exc_info=error)
        return isinstance(error, Exception)


@dataclass(frozen=True)
class Bounds:
    """Bounds of what one silo lets out in one study.

    ``kinds`` are those that the policy lets out; ``joint`` is the agreed labeler, or None; ``approving``
    is the digest that approves all this; ``added`` is the log's name for messages of secure sums.
    """

    silo: SiloName
    terms: Terms
    policy: "Policy"
    kinds: tuple[Kind, ...]
    joint: Joint | None
    approving: bytes
    added: str


Adding: TypeAlias = Callable[[Set[str], Set[str], Callable[[Shape], None]], "tuple[SumClient, Contribution] | None"]
"""Makes the silo's part in sums of the questions that were answered and those that were added, by their SHA-256."""


class Gate:
    """Decides what may leave one silo in one study.

    ``unchanged`` says whether the files behind the approved terms are still those that this process has read; it is
    asked before each decision.
    """

    def __init__(
        self,
        bounds: Bounds,
        log: EgressLog,
        unchanged: Callable[[], bool],
        shared: "SharedUsage | None" = None,
        adding: Adding = lambda answered, added, charge: None,
    ) -> None:
        """``shared``: limits over several studies. ``adding`` makes the silo's part in secure sums, if it has one."""
        self._bounds, self._silo, self._terms = bounds, bounds.silo, bounds.terms
        self._policy = bounds.policy
        self._log = log
        self._unchanged = unchanged
        self._usage = Usage(bounds.terms)
        self._one_at_a_time = threading.Lock()
        self._not_logged = encode_refusal(self._silo, Refusal.NOT_LOGGED)
        log.follow(self._usage.add)
        self._shared = shared
        self._adding = adding(self._usage.ready, self._usage.added, self._use_up)
        self._run = 0

    def admit(self, content: RecordDict, run_id: int, code_hash: str) -> bytes:
        """The payload of a request that may be answered. Raises Held, whose record goes back instead of an answer.

        Refuses a question that would exceed a limit of the policy, before a model is trained in vain, or for too long.
        A question that is let in counts from here on.
        """
        with self._one_at_a_time:
            with _Wrong(self._silo, "at a request") as wrong:
                self._check_approved()
                if asks_for_weights(content):
                    raise Refused(Refusal.WEIGHTS)
                payload = from_record(content)
                instruction = decode_instruction(payload, self._terms)
                wrong.number, wrong.asked = instruction.round, _digest(payload)
                self._check_asked(instruction)
                longest = longest_reply(instruction, self._silo, self._terms, scores=self._policy.metrics)
                known = self._usage.admitted(run_id, wrong.number, wrong.asked) is not None
                entry = self._entry(Event.ADMITTED, run_id, instruction, wrong.asked, code_hash)
                self._check_limits((Used() if known else Used().plus(entry))._replace(bytes=longest))
                if not known:
                    self._put_down(entry)
                return payload
            raise Held(wrong.reason, self._refuse(wrong, run_id, code_hash))

    def release(self, content: RecordDict, request_payload: bytes, run_id: int, code_hash: str) -> RecordDict | None:
        """The message to send: the reply, if it may leave, or else a refusal; None: nothing is sent. Never raises.

        ``request_payload`` is what ``admit`` returned. The same answer to the last round may leave again, and counts
        towards the bytes; another answer to a round that was answered may not.
        """
        with self._one_at_a_time:
            with _Wrong(self._silo, "at a reply") as wrong:
                self._check_approved()
                instruction = decode_instruction(request_payload, self._terms)
                wrong.number, wrong.asked = instruction.round, _digest(request_payload)
                self._check_asked(instruction)
                payload = self._checked_reply(content, instruction)
                entry = self._released(payload, instruction, run_id, wrong.asked, code_hash)
                self._put_down(entry, partial(keep, self._log.path.parent, entry, payload, request_payload))
                return to_record(payload)
            return self._refuse(wrong, run_id, code_hash)

    def add(self, content: RecordDict, run_id: int, code_hash: str) -> RecordDict | None:
        """The answer to a message of a secure sum, or else a refusal; None: nothing is sent. Never raises.

        It is the gate's own message in the sum, byte for byte: masked numbers, keys and shares, or the number
        of a fault. Its size counts towards the bytes.
        """
        with self._one_at_a_time:
            with _Wrong(self._silo, "in a secure sum") as wrong:
                self._check_approved()
                if self._adding is None:
                    raise Refused(Refusal.POLICY)
                client, summands = self._adding
                self._run = run_id
                reply = client.answer(from_record(content), summands)
                fault = Fault.from_number(reply[-2]).name if Header.of(reply).step is Step.REFUSED else ""
                entry = self._line(
                    Event.ADDED, run_id, code_hash,
                    kind=self._bounds.added, bytes=len(reply), payload=_digest(reply), reason=fault,
                )  # fmt: skip
                self._check_limits(Used().plus(entry))
                self._put_down(entry)
                return to_record(reply)
            return self._refuse(wrong, run_id, code_hash)

    def _use_up(self, shape: Shape) -> None:
        """Write that the silo adds to the sum of a question, before it does. Raises Refused (NOT_LOGGED)."""
        self._put_down(self._line(Event.ADDED, self._run, kind=self._bounds.added, request=shape.subject.hex()))

    def refuse(self, reason: Refusal, run_id: int, code_hash: str, *, send: bool = True) -> RecordDict | None:
        """A logged refusal, for the agent's own reasons; None: nothing is sent. Never raises.

        ``send``: whether the asker still waits for it; otherwise the log says that nothing left.
        """
        with self._one_at_a_time:
            return self._refuse(_Wrong(self._silo, reason=reason), run_id, code_hash, send=send)

    def spent(self) -> Used:
        """Usage of the limits so far, over all approvals of this study and public set."""
        return self._usage.spent

    def answers(self) -> int:
        """How many messages with labels left so far, repeated ones too, over all studies."""
        return self._usage.answers

    def _check_approved(self) -> None:
        if self._usage.approved != self._bounds.approving or self._unchanged() is not True:
            raise Refused(Refusal.NOT_APPROVED)

    def _check_asked(self, instruction: Instruction) -> None:
        kind, agreed = kind_of(instruction, self._terms), self._bounds.joint
        if kind not in self._bounds.kinds:
            raise Refused(Refusal.POLICY)
        # The noise follows from these numbers.
        if instruction.joint is not None and (agreed is None or not instruction.joint.same_labeler(agreed)):
            raise Refused(Refusal.POLICY)
        asked, limit = kind.cost(instruction, self._terms).weight, self._policy.max_consensus_weight
        if asked > limit:
            logger.warning("Silo %s is asked for %g, and its max-consensus-weight is %g", self._silo, asked, limit)
            raise Refused(Refusal.LIMIT)

    def _check_limits(self, step: Used) -> None:
        if any(used + more > limit for used, more, limit in self._totals(step)):
            raise Refused(Refusal.LIMIT)
        if self._shared:
            self._shared.charge(step, dry=True)

    def _totals(self, step: Used) -> Iterator[tuple[int, int, int]]:
        """For each total: what is used, what this step adds, and the limit."""
        for field, cap in TOTALS.items():
            yield cap.of(self._usage.spent), cap.of(step), getattr(self._policy, field)

    def _checked_reply(self, content: RecordDict, instruction: Instruction) -> bytes:
        """A reply with labels, re-encoded. Raises Refused; with a refusal's own reason if the reply is one."""
        reply = decode_reply(from_record(content), self._terms, instruction)
        if reply.silo != self._silo:
            raise Refused(Refusal.SILO)
        if isinstance(reply.outcome, Refusal):
            raise Refused(reply.outcome)
        if reply.scores is not None and not self._policy.metrics:
            raise Refused(Refusal.POLICY)
        return encode_reply(Reply(instruction.round, self._silo, reply.outcome, reply.scores), self._terms)

    def _released(self, payload: bytes, instruction: Instruction, run_id: int, asked: str, code_hash: str) -> LogEntry:
        """The line that lets a reply out. Raises Refused (ROUND, LIMIT)."""
        question, answer = self._usage.admitted(run_id, instruction.round, asked), _digest(payload)
        if question is None or question.answer not in ("", answer):
            raise Refused(Refusal.ROUND)
        event = Event.REPEATED if question.answer else Event.RELEASED
        entry = self._entry(event, run_id, instruction, asked, code_hash)
        entry = replace(entry, bytes=len(payload), payload=answer)
        # Its round and labels have counted since it was admitted.
        self._check_limits(Used().plus(entry))
        return entry

    def _entry(self, event: Event, run_id: int, instruction: Instruction, asked: str, code_hash: str) -> LogEntry:
        kind = kind_of(instruction, self._terms)
        labels = kind.cost(instruction, self._terms).labels
        return self._line(
            event, run_id, code_hash, round=instruction.round, kind=kind.policy, queries=labels, request=asked
        )

    def _line(self, event: Event, run_id: int, code_hash: str = "", **fields: Any) -> LogEntry:
        public = self._terms.public_fingerprint.hex()
        # It comes from the coordinator: what is no hash has no place in the log.
        code = code_hash.lower() if _HASH.fullmatch(code_hash) else "not a hash"
        return LogEntry(event, self._terms.study, public, run_id, code=code, **fields)

    def _put_down(self, entry: LogEntry, before: Callable[[], None] = lambda: None) -> None:
        """Write a line, counted first where other studies share a limit. Raises Refused (NOT_LOGGED, LIMIT, LEDGER).

        ``before`` writes what the line is about.
        """
        if self._shared and any(step := Used().plus(entry)):
            self._shared.charge(step)
        try:
            before()
            self._log.append(entry)
        except OSError:
            logger.exception("Silo %s cannot write its egress log", self._silo)
            raise Refused(Refusal.NOT_LOGGED) from None

    def _refuse(self, wrong: _Wrong, run_id: int, code_hash: str, *, send: bool = True) -> RecordDict | None:
        payload = encode_refusal(self._silo, wrong.reason)
        # Only totals that a refusal adds to keep it back.
        step = Used().plus(LogEntry(Event.REFUSED, bytes=len(payload)))
        send = send and all(used + more <= limit for used, more, limit in self._totals(step) if more)
        if send and self._shared:
            # A message that cannot be counted does not leave.
            try:
                self._shared.charge(step)
            except Exception:
                logger.exception("Silo %s counts no more in the shared usage of its records", self._silo)
                send = False
        record = to_record(payload)
        try:
            entry = self._line(
                Event.REFUSED,
                run_id,
                code_hash,
                round=wrong.number,
                bytes=len(payload) if send else 0,
                payload=_digest(payload) if send else "",
                reason=wrong.reason.name,
                request=wrong.asked,
            )
            self._log.append(entry)
        except Exception:
            logger.exception("Silo %s cannot write its egress log", self._silo)
            record = to_record(self._not_logged)
        logger.warning("Silo %s sends no labels: %s", self._silo, wrong.reason.sentence)
        return record if send else None


def _digest(payload: bytes) -> str:
    return hashlib.sha256(payload).hexdigest()
