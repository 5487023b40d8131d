"""The replies of one round, sorted by silo: those that count, and for the others the reason why not."""

from collections.abc import Iterable, Iterator, Mapping
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
        asked: Mapping[int, float],
        roster: Roster,
        terms: Terms,
        instruction: Instruction,
    ) -> "Answers":
        """Sort the replies to ``asked`` nodes (id: seconds since the epoch) into valid ones and reasons."""
        answers = cls(terms, instruction)
        valid, reasons, heard = {}, {}, set()
        for message in replies:
            node = message.metadata.src_node_id
            if node not in asked or node in heard:
                # Flower itself reports some errors, under its own node id: those silos count as silent.
                continue
            heard.add(node)
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
                seconds = max(0.0, message.metadata.created_at - asked[node])
                valid[reply.silo] = Answer(payload, seconds, reply.scores)
        answers.valid = dict(sorted(valid.items()))
        absent = {roster.name(node): reason for node, reason in reasons.items()}
        silent = [node for node in asked if node not in heard]
        absent |= roster.explain_silence(silent, heard_of={*valid, *absent})
        answers.absent = dict(sorted(absent.items()))
        return answers

    def ballots(self) -> Iterator[Ballot]:
        """The valid votes by silo name, unpacked as they are asked for."""
        for silo, answer in self.valid.items():
            outcome = decode_reply(answer.payload, self.terms, self.instruction).outcome
            if not isinstance(outcome, Refusal):
                yield silo, outcome
