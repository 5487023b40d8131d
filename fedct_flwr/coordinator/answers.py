"""The votes of one round, still packed."""

from collections.abc import Iterator
from dataclasses import dataclass

from flwr.app import Message

from fedct_flwr.consensus.counting import Ballot
from fedct_flwr.types import SiloName
from fedct_flwr.wire.codec import Fit, Instruction, Scores, Terms, decode_reply
from fedct_flwr.wire.messages import from_record
from fedct_flwr.wire.refusal import Refusal


@dataclass(frozen=True)
class Answer:
    """A reply with votes: its bytes, and what the silo tells of its scores."""

    payload: bytes
    scores: Scores | Fit | None


def read_answer(message: Message, terms: Terms, instruction: Instruction) -> tuple[SiloName, Answer | Refusal]:
    """The silo that replies to the instruction, and its votes or why it has none. Raises Refused."""
    payload = from_record(message.content)
    reply = decode_reply(payload, terms, instruction)
    if isinstance(reply.outcome, Refusal):
        return reply.silo, reply.outcome
    return reply.silo, Answer(payload, reply.scores)


def ballots(answers: dict[SiloName, Answer], terms: Terms, instruction: Instruction) -> Iterator[Ballot]:
    """The votes by silo name, unpacked one at a time as they are asked for: memory is that of one silo's."""
    for silo, answer in answers.items():
        outcome = decode_reply(answer.payload, terms, instruction).outcome
        if not isinstance(outcome, Refusal):
            yield silo, outcome
