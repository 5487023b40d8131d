"""Instructions and replies to bytes and back, refusing whatever both sides have not agreed upon.

Formal guarantee: there is exactly one encoding of a message. A payload is accepted only if encoding what was
read from it gives the same bytes, so a reply carries its labels, counts of votes, probabilities or values, the scores
if it has any, and nothing else.
"""

import math
from functools import lru_cache
from typing import Final, TypeVar

import numpy as np
from google.protobuf.message import DecodeError

from fedct_flwr import wire
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, Refusal, Refused, SiloName, Votes
from fedct_flwr.wire import content, labels_pb2
from fedct_flwr.wire.content import MAX_VALUE, NO_TERMS, Fit, Instruction, Query, Reply, Scores, Terms
from fedct_flwr.wire.kinds import kind_by, kind_of, kind_of_votes, labels_message, packed_size, read_labels

_MOST_FEATURES: Final = 4096
_LONGEST_NUMBER: Final = 4
"""Bytes of a probability or a value, at most."""
VERSION: Final = 1
"""Version of the messages. Each change of a message's bytes, or of the bytes accepted, raises it. Both
sides must have the same; what differs is refused with VERSION before anything else is looked at. So four things are the
same in all versions: fields 1 of Instruction, Reply and Terms, and the reply with which a silo refuses."""
_LONGEST_OF_ANOTHER: Final = 1 << 24
"""Bytes of a message that is looked into only to tell whether it is of another version."""
MAX_NAME_BYTES: Final = 256

_SCORES: Final[dict[type[Scores] | type[Fit], tuple[str, float]]] = {Scores: ("scores", 0.0), Fit: ("fit", -MAX_VALUE)}
"""Which field of a reply holds test scores, and the least that any can be."""

_Payload = TypeVar("_Payload", labels_pb2.Instruction, labels_pb2.Reply)


def encode_instruction(instruction: Instruction, terms: Terms) -> bytes:
    """The one encoding of an instruction. Raises Refused: QUERY, or PROBABILITIES or VALUES for wrong soft targets."""
    kind = kind_of(instruction, terms)
    if not kind.can_answer(instruction.votes, terms):
        raise Refused(Refusal.QUERY)
    message = labels_pb2.Instruction(
        terms=_terms_message(terms),
        round=instruction.round,
        query=labels_pb2.Query(seed=instruction.query.seed, size=instruction.query.size),
        votes=instruction.votes,
        summed=instruction.summed,
        noise=instruction.noise,
        answer=instruction.answer,
    )
    if (instruction.targets != ABSTAIN).any():
        message.targets.CopyFrom(labels_message(instruction.targets, terms))
    kind.put_question(instruction, message, terms)
    return message.SerializeToString(deterministic=True)


def decode_instruction(payload: bytes, terms: Terms) -> Instruction:
    """Read an instruction, with read-only targets, under the silo's own terms. Raises Refused."""
    return _decoded(payload, terms)


@lru_cache(maxsize=1)
def _decoded(payload: bytes, terms: Terms) -> Instruction:
    learning = max(_LONGEST_NUMBER * terms.num_public * terms.width, 8 * _MOST_FEATURES * terms.num_classes)
    targets_size = packed_size(terms.num_public, terms.num_classes, abstentions=True)
    message = _parse(labels_pb2.Instruction, payload, _fixed(terms) + targets_size + learning)
    _check_terms(message.terms, terms)
    if message.round < 1:
        raise Refused(Refusal.ROUND)
    if not 1 <= message.query.size <= terms.num_public:
        raise Refused(Refusal.QUERY)
    if message.HasField("targets"):
        targets = read_labels(message.targets, terms.num_public, terms)
    else:
        targets = np.full(terms.num_public, ABSTAIN, dtype=LABEL_DTYPE)
    targets.flags.writeable = False
    asked = message.votes, message.HasField("soft"), terms
    soft = kind_by(*asked, answer=message.answer).take_soft(message, terms)
    query = Query(message.query.seed, message.query.size)
    joint = wire.take_joint(message, terms) if message.HasField("joint") else None
    histograms = wire.take_histograms(message) if message.HasField("histograms") else None
    # No noise takes no bytes; noise outside the limits or without a sum is malformed.
    if message.noise and not (message.summed and content.LEAST_NOISE <= message.noise <= content.LARGEST_NOISE):
        raise Refused(Refusal.MALFORMED)
    asks = message.votes, soft, message.summed, joint, message.noise, message.answer, histograms
    instruction = Instruction(message.round, query, targets, *asks)
    _check_canonical(payload, encode_instruction(instruction, terms))
    return instruction


def encode_reply(reply: Reply, terms: Terms) -> bytes:
    """The one encoding of a reply. Raises Refused: UNKNOWN_CLASS, PROBABILITIES or VALUES for wrong votes."""
    message = labels_pb2.Reply(round=reply.round, silo=reply.silo)
    if isinstance(reply.outcome, Refusal):
        # Without terms: a silo that refuses may hold other ones, which stay its own.
        message.refusal = reply.outcome.number  # type: ignore[assignment]  # enums are ints on the wire
    else:
        message.terms.CopyFrom(_terms_message(terms))
        kind_of_votes(reply.outcome, terms).put(reply.outcome, message, terms)
    if reply.scores is not None:
        field, _ = _SCORES[type(reply.scores)]
        part = getattr(message, field)
        # Zeros take no bytes, and a message of zeros is there all the same.
        part.SetInParent()
        for name, score in reply.scores._asdict().items():
            setattr(part, name, score)
    return message.SerializeToString(deterministic=True)


def encode_refusal(silo: SiloName, reason: Refusal) -> bytes:
    """The reply of a silo that sends no labels: its name and the number of the reason."""
    # No round: with a refusal it does not travel either.
    return encode_reply(Reply(0, silo, reason), NO_TERMS)


def longest_reply(instruction: Instruction, silo: SiloName, terms: Terms, *, scores: bool) -> int:
    """Most bytes that a reply with what was asked for can have."""
    kind = kind_of(instruction, terms)
    longest = kind.longest(instruction.query.size, instruction.votes, terms)
    # Any score but 0, which takes no bytes.
    some = kind.scores(*[1.0] * len(kind.scores._fields)) if scores else None
    return len(encode_reply(Reply(instruction.round, silo, longest, some), terms))


def decode_reply(payload: bytes, terms: Terms, instruction: Instruction) -> Reply:
    """Read the reply to an instruction. Raises Refused for anything that does not answer it."""
    kind = kind_of(instruction, terms)
    longest = _fixed(terms) + longest_reply(instruction, "", terms, scores=True)
    message = _parse(labels_pb2.Reply, payload, longest)
    outcome: Votes | Refusal
    if message.WhichOneof("outcome") == "refusal":
        outcome = Refusal.from_number(message.refusal)
        if message.round or message.HasField("scores") or message.HasField("fit"):
            raise Refused(Refusal.MALFORMED)
    else:
        _check_terms(message.terms, terms)
        if message.round != instruction.round:
            raise Refused(Refusal.ROUND)
        if message.WhichOneof("outcome") != kind.field:
            raise Refused(Refusal.MALFORMED)
        outcome = kind.take(message, instruction, terms)
    if not 1 <= len(message.silo.encode()) <= MAX_NAME_BYTES:
        raise Refused(Refusal.SILO)
    reply = Reply(message.round, message.silo, outcome, _read_scores(message, kind.scores))
    _check_canonical(payload, encode_reply(reply, terms))
    return reply


def _read_scores(message: labels_pb2.Reply, kind: type[Scores] | type[Fit]) -> Scores | Fit | None:
    field, least = _SCORES[kind]
    if not message.HasField(field):
        return None
    # One NaN and one zero: their spare bits could carry something else out.
    found = (getattr(getattr(message, field), name) for name in kind._fields)
    scores = kind(*(math.nan if math.isnan(score) else score + 0.0 for score in found))
    if any(not (math.isnan(score) or least <= score <= 1) for score in scores):
        raise Refused(Refusal.MALFORMED)
    return scores


def _terms_message(terms: Terms) -> labels_pb2.Terms:
    return labels_pb2.Terms(
        version=VERSION,
        study=terms.study,
        public_fingerprint=terms.public_fingerprint,
        classes=terms.classes,
        quantity=terms.quantity,
        grid=terms.grid,
    )


def _fixed(terms: Terms) -> int:
    """Most bytes of a message without answers and targets."""
    return 1024 + MAX_NAME_BYTES + _terms_message(terms).ByteSize()


def _parse(kind: type[_Payload], payload: bytes, max_size: int) -> _Payload:
    too_long = len(payload) > max_size
    if len(payload) > max(max_size, _LONGEST_OF_ANOTHER):
        raise Refused(Refusal.LENGTH)
    try:
        message = kind.FromString(payload)
    except DecodeError:
        raise Refused(Refusal.LENGTH if too_long else Refusal.MALFORMED) from None
    if too_long:
        # A newer version may say more.
        another = message.HasField("terms") and message.terms.version != VERSION
        raise Refused(Refusal.VERSION if another else Refusal.LENGTH)
    return message


def _check_terms(message: labels_pb2.Terms, terms: Terms) -> None:
    if message.version != VERSION:
        raise Refused(Refusal.VERSION)
    if message.study != terms.study:
        raise Refused(Refusal.STUDY)
    if message.public_fingerprint != terms.public_fingerprint:
        raise Refused(Refusal.FINGERPRINT)
    agreed = terms.classes, terms.quantity, terms.grid or ()
    if (tuple(message.classes), message.quantity, tuple(message.grid)) != agreed:
        raise Refused(Refusal.CLASSES)


def _check_canonical(payload: bytes, encoded: bytes) -> None:
    if payload != encoded:
        raise Refused(Refusal.MALFORMED)
