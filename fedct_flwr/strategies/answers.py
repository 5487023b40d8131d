"""The replies of one round, sorted by silo: those that count, and for the others the reason why not."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from flwr.app import Message
from flwr.common.constant import ErrorCode

from fedct_flwr.consensus import Ballot
from fedct_flwr.strategies.roster import Roster
from fedct_flwr.types import SiloName
from fedct_flwr.wire.codec import Instruction, Scores, Terms, decode_reply
from fedct_flwr.wire.messages import from_record
from fedct_flwr.wire.refusal import Refusal, Refused

# Flower passes an exception's text on verbatim, and that may quote data: only the codes are read.
_ERRORS: Final[dict[int, str]] = {
    ErrorCode.LOAD_CLIENT_APP_EXCEPTION: "the silo could not load its app; see the log at the silo",
    ErrorCode.CLIENT_APP_RAISED_EXCEPTION: "the silo's app failed; see the log at the silo",
    ErrorCode.MESSAGE_UNAVAILABLE: "the message expired before the silo replied",
    ErrorCode.REPLY_MESSAGE_UNAVAILABLE: "the message expired before the silo replied",
    ErrorCode.NODE_UNAVAILABLE: "the silo's node went offline",
}
_OTHER_ERROR: Final = "Flower could not deliver the message or its reply"
_SILENT: Final = "no reply within the deadline"
_BUSY: Final = "still busy with an earlier round"


@dataclass(frozen=True)
class Answer:
    """A reply that counts: its bytes, seconds since the instruction, and what the silo tells of its scores."""

    payload: bytes
    seconds: float
    scores: Scores | None


@dataclass
class Answers:
    """What came back of one instruction. Payloads stay packed; ``ballots`` unpacks them one at a time."""

    terms: Terms
    instruction: Instruction
    valid: dict[SiloName, Answer] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    @classmethod
    def collect(
        cls,
        replies: Iterable[Message],
        asked: Mapping[str, Message],
        busy: Collection[int],
        roster: Roster,
        terms: Terms,
        instruction: Instruction,
    ) -> "Answers":
        """Sort the replies to the messages ``asked``, by id, into valid ones and reasons.

        ``busy`` nodes were not asked, as they have not answered an earlier round yet.
        """
        answers = cls(terms, instruction)
        valid, reasons = {}, {}
        silent = {message.metadata.dst_node_id: _SILENT for message in asked.values()} | dict.fromkeys(busy, _BUSY)
        for message in replies:
            question = asked.get(message.metadata.reply_to_message_id)
            # Not by the sender: Flower reports that a node is gone under its own id.
            node = question.metadata.dst_node_id if question else None
            if question is None or node not in silent:
                continue
            del silent[node]
            if message.has_error():
                reasons[node] = _ERRORS.get(message.error.code, _OTHER_ERROR)
                continue
            try:
                payload = from_record(message.content)
                reply = decode_reply(payload, terms, instruction)
                if isinstance(reply.outcome, Refusal):
                    roster.introduce(node, reply.silo)
                    raise Refused(reply.outcome)
                roster.claim(node, reply.silo)
            except Refused as refused:
                reasons[node] = refused.reason.sentence
            else:
                seconds = max(0.0, message.metadata.created_at - question.metadata.created_at)
                valid[reply.silo] = Answer(payload, seconds, reply.scores)
        answers.valid = dict(sorted(valid.items()))
        absent = {roster.name(node): reason for node, reason in reasons.items()}
        absent |= roster.explain_silence(silent, heard_of={*valid, *absent})
        answers.absent = dict(sorted(absent.items()))
        return answers

    def ballots(self) -> Iterator[Ballot]:
        """The valid votes by silo name, unpacked as they are asked for."""
        for silo, answer in self.valid.items():
            outcome = decode_reply(answer.payload, self.terms, self.instruction).outcome
            if not isinstance(outcome, Refusal):
                yield silo, outcome
