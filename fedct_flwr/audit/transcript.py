"""What travelled in one run, as it stood in the messages: the attacker's view, taken at the door of each silo."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from numpy.typing import NDArray

from fedct_flwr.kinds import kind_of
from fedct_flwr.kinds.summed import Summed
from fedct_flwr.silo.summing import ACTION, Ready
from fedct_flwr.silo.workplace import open_workplace, silo_named
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, HardLabels, SiloName, Votes
from fedct_flwr.wire.codec import decode_instruction, decode_reply, encode_instruction
from fedct_flwr.wire.content import Instruction, Joint, Terms
from fedct_flwr.wire.messages import from_record, to_record
from fedct_flwr.wire.refusal import Refusal, Refused
from fedct_flwr.wire.weights import ARRAYS, asks_for_weights, to_weights, without_control

Forge = Callable[[SiloName, Instruction], Instruction]
"""What a coordinator that lies sends in place of an instruction."""

_SOFT_AXES: Final = 2


class InSum(NamedTuple):
    """What a silo adds to a secure sum with noise: ``vector`` ``(examples * classes,)``, its share of the noise in it.

    No attack may read it but as a part of the sum. ``honest``: silos that it counts on when it draws its share.
    """

    asked: Instruction
    vector: NDArray[np.uint64]
    honest: int


@dataclass
class OfSilo:
    """What one silo was told and what it said, a row for each round in which it answered.

    ``labels`` and ``told`` are ``(num_public,)``, ``probabilities`` ``(num_public, classes)`` with NaN for what was not
    asked. ``weights`` are the silo's, ``told_weights`` the global ones that it began with. ``steps`` are those of the
    joint labeler's training: what silos add to them is masked, and each step's weights tell the sum of the one before.
    ``in_sums`` is what it adds to sums with noise, where ``labels`` has no row.
    """

    labels: list[HardLabels] = field(default_factory=list)
    probabilities: list[NDArray[np.float64]] = field(default_factory=list)
    told: list[HardLabels] = field(default_factory=list)
    told_probabilities: list[NDArray[np.float64]] = field(default_factory=list)
    weights: list[Mapping[str, NDArray[Any]]] = field(default_factory=list)
    told_weights: list[Mapping[str, NDArray[Any]]] = field(default_factory=list)
    steps: list[Joint] = field(default_factory=list)
    in_sums: list[InSum] = field(default_factory=list)


class Transcript:
    """Listens at ``app``; ``self.app`` is to be run in its place. ``forge`` changes what each silo is asked."""

    def __init__(self, app: ClientApp, terms: Terms, forge: Forge | None = None) -> None:
        self.silos: dict[SiloName, OfSilo] = {}
        self.terms, self._inner, self._forge = terms, app, forge
        self.app = ClientApp()
        self.app.train()(self._train)
        # What passes in a secure sum looks random.
        self.app.query(ACTION)(app)

    def _train(self, message: Message, context: Context) -> Message:
        silo = silo_named(context)
        if asks_for_weights(message.content):
            begun = without_control(to_weights(message.content.array_records[ARRAYS]))[0]
            reply = self._inner(message, context)
            if reply.has_content() and ARRAYS in reply.content.array_records:
                kept = self.silos.setdefault(silo, OfSilo())
                kept.told_weights.append(begun)
                kept.weights.append(without_control(to_weights(reply.content.array_records[ARRAYS]))[0])
            return reply
        try:
            instruction = decode_instruction(from_record(message.content), self.terms)
        except Refused:  # the message by which a coordinator gets to know the silos' names
            return self._inner(message, context)
        asked = self._forge(silo, instruction) if self._forge else instruction
        if asked is not instruction:
            message.content = to_record(encode_instruction(asked, self.terms))
        reply = self._inner(message, context)
        if reply.has_content():
            answer = decode_reply(from_record(reply.content), self.terms, asked).outcome
            if isinstance(answer, Refusal):
                return reply
            if asked.noise:
                self._keep_summand(silo, asked, context)
            else:
                self._keep(silo, asked, answer)
        return reply

    def _keep_summand(self, silo: SiloName, asked: Instruction, context: Context) -> None:
        """Read it where the silo keeps it for the sum: what passes there is masked."""
        workplace, kind = open_workplace(context), kind_of(asked, self.terms)
        if not isinstance(kind, Summed) or workplace.noise_adder_of is None:
            raise TypeError("noise is in sums of votes alone")
        shape = kind.shape(asked, self.terms, hashlib.sha256(encode_instruction(asked, self.terms)).digest())
        kept = self.silos.setdefault(silo, OfSilo())
        kept.told.append(asked.targets)
        kept.in_sums.append(InSum(asked, Ready(workplace.state).vector(shape), workplace.noise_adder_of().honest))

    def _keep(self, silo: SiloName, asked: Instruction, answer: Votes) -> None:
        kept, terms = self.silos.setdefault(silo, OfSilo()), self.terms
        positions = asked.query.positions(terms.num_public)
        kept.told.append(asked.targets)
        if asked.joint is not None:
            kept.steps.append(asked.joint)
            return
        if targets := kind_of(asked, terms).soft_targets(asked):
            told = _nobody(terms)
            told[targets.query.positions(terms.num_public)] = targets.votes
            kept.told_probabilities.append(told)
        if answer.ndim == _SOFT_AXES:
            said = _nobody(terms)
            said[positions] = answer / np.maximum(answer.sum(axis=1, keepdims=True), 1e-12)
            kept.probabilities.append(said)
            answer = answer.argmax(axis=1)
        labels = np.full(terms.num_public, ABSTAIN, dtype=LABEL_DTYPE)
        labels[positions] = answer
        kept.labels.append(labels)


def _nobody(terms: Terms) -> NDArray[np.float64]:
    return np.full((terms.num_public, terms.num_classes), np.nan)
