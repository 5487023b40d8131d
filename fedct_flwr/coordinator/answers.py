"""What silos reply in a round."""

import math
from dataclasses import dataclass

from flwr.app import Message

from fedct_flwr.types import SiloName, Votes
from fedct_flwr.wire.codec import decode_reply
from fedct_flwr.wire.content import Fit, Instruction, Scores, Terms
from fedct_flwr.wire.messages import from_record
from fedct_flwr.wire.refusal import Refusal


@dataclass(frozen=True, eq=False)
class Answer:
    """A reply with votes: how many bytes it took, the votes, and what the silo tells of its scores."""

    size: int
    votes: Votes
    scores: Scores | Fit | None

    @property
    def known_scores(self) -> dict[str, float] | None:
        """Those that are numbers, as JSON has no other; None if the silo tells nothing of them."""
        if self.scores is None:
            return None
        return {name: value for name, value in self.scores._asdict().items() if not math.isnan(value)}


def read_answer(message: Message, terms: Terms, instruction: Instruction) -> tuple[SiloName, Answer | Refusal]:
    """The silo that replies to the instruction, and its votes or why it has none. Raises Refused."""
    payload = from_record(message.content)
    reply = decode_reply(payload, terms, instruction)
    if isinstance(reply.outcome, Refusal):
        return reply.silo, reply.outcome
    return reply.silo, Answer(len(payload), reply.outcome, reply.scores)
