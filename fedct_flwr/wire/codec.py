"""Instructions and replies to bytes and back, refusing whatever both sides have not agreed upon.

Formal guarantee: there is exactly one encoding of a message. A payload is accepted only if encoding what was
read from it gives the same bytes, so a reply carries its labels, counts of votes, probabilities or values, the scores
if it has any, and nothing beside them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Self, TypeVar

import numpy as np
from google.protobuf.message import DecodeError

from fedct_flwr.datasets.public_set import PublicSet, Query
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, HardLabels, SiloName, SoftVotes, VoteCounts, Votes
from fedct_flwr.wire import labels_pb2
from fedct_flwr.wire.counts import can_count, counts_size, pack_counts, unpack_counts
from fedct_flwr.wire.packing import pack, packed_size, unpack
from fedct_flwr.wire.probabilities import pack_probabilities, probabilities_size, unpack_probabilities
from fedct_flwr.wire.refusal import Refusal, Refused
from fedct_flwr.wire.values import MAX_VALUE, pack_values, unpack_values, values_size

VERSION: Final = 1
MAX_NAME_BYTES: Final = 256
MAX_ROUNDS_AT_ONCE: Final = 1000
MAX_WEIGHT: Final = 1e6

_OUTCOMES: Final = {"hard": "votes", "counts": "counts"}
"""Which field of a reply answers what kind of question; of soft ones, see ``_Form``."""

_Payload = TypeVar("_Payload", labels_pb2.Instruction, labels_pb2.Reply)


@dataclass(frozen=True)
class Terms:
    """What coordinator and silos have agreed upon before the first message."""

    study: str
    public_fingerprint: bytes
    num_public: int
    classes: tuple[str, ...]
    quantity: str = ""

    @classmethod
    def of(cls, study: str, public: PublicSet, schema: Schema) -> Self:
        """The terms of a study with this public set and these classes, or this quantity."""
        return cls(study, public.fingerprint, len(public), schema.classes, schema.quantity)

    @property
    def num_classes(self) -> int:
        """Size of the label space; 0 where a quantity is predicted."""
        return len(self.classes)

    @property
    def width(self) -> int:
        """Numbers that a soft vote on an example has: one for each class, or the value of the quantity."""
        return self.num_classes or 1


NO_TERMS: Final = Terms("", b"", 0, ())
"""Where nothing was agreed upon, and nothing but a refusal can travel."""


class SoftTargets(NamedTuple):
    """What a silo shall learn of the examples of ``query``: probabilities ``(query.size, classes)``, or values.

    ``weight`` is what the loss on them counts beside that on private records; 0: first they are learned alone, and then
    the records.
    """

    query: Query
    votes: SoftVotes
    weight: float


@dataclass(frozen=True, eq=False)
class Soft:
    """How to train where soft votes are asked for: so many ``rounds``, with ``targets`` if there are any yet."""

    rounds: int = 1
    targets: SoftTargets | None = None


@dataclass(frozen=True, eq=False)
class Instruction:
    """Coordinator to silo: train on ``targets``, then label the examples of ``query``.

    ``round`` counts from 1. ``targets``: ``(num_public,)``, ABSTAIN where there is none. ``votes``: 0 asks for one
    class of each example, a number above for how many of that many votes each class has. ``soft`` asks for
    probabilities instead, or for values where a quantity is predicted, and has targets of its own.
    """

    round: int
    query: Query
    targets: HardLabels
    votes: int = 0
    soft: Soft | None = None

    @property
    def kind(self) -> Literal["hard", "soft", "counts"]:
        """What is asked for, as a silo's policy calls it."""
        if self.soft:
            return "soft"
        return "counts" if self.votes else "hard"

    def labels(self, num_classes: int) -> int:
        """Labels that an answer tells: each vote is one, and so is each class's probability."""
        return self.query.size * max(1, num_classes if self.soft else self.votes)


class Scores(NamedTuple):
    """How good a silo's model is on its own and on the pooled test set, in 0..1; NaN where it has no such data."""

    own_accuracy: float
    own_balanced_accuracy: float
    pooled_accuracy: float
    pooled_balanced_accuracy: float


class Fit(NamedTuple):
    """The same where a quantity is predicted: R², at most 1; NaN where it has no such data."""

    own_r_squared: float
    pooled_r_squared: float


@dataclass(frozen=True, eq=False)
class Reply:
    """Silo to coordinator: what was asked of the queried examples, or why there is nothing.

    Labels are ``(query.size,)``, counts of votes and probabilities ``(query.size, classes)``, values
    ``(query.size, 1)``.
    """

    round: int
    silo: SiloName
    outcome: Votes | Refusal
    scores: Scores | Fit | None = None


def encode_instruction(instruction: Instruction, terms: Terms) -> bytes:
    """The one encoding of an instruction.

    Raises Refused: QUERY for votes that no reply could hold, or labels where there are no classes; PROBABILITIES or
    VALUES for soft targets that are none.
    """
    if not (instruction.soft or terms.classes):
        raise Refused(Refusal.QUERY)
    if instruction.votes and not can_count(terms.num_classes, instruction.votes):
        raise Refused(Refusal.QUERY)
    message = labels_pb2.Instruction(
        terms=_terms_message(terms),
        round=instruction.round,
        query=labels_pb2.Query(seed=instruction.query.seed, size=instruction.query.size),
        votes=instruction.votes,
    )
    if (instruction.targets != ABSTAIN).any():
        message.targets.CopyFrom(_labels_message(instruction.targets, terms))
    if instruction.soft:
        message.soft.CopyFrom(_soft_message(instruction.soft, terms))
    return message.SerializeToString(deterministic=True)


def decode_instruction(payload: bytes, terms: Terms) -> Instruction:
    """Read an instruction under the silo's own terms. Raises Refused for anything not agreed upon."""
    longest = _max_size(terms, terms.num_public) + _form(terms).size(terms.num_public, terms.num_classes)
    message = _parse(labels_pb2.Instruction, payload, longest)
    _check_terms(message.terms, terms)
    if message.round < 1:
        raise Refused(Refusal.ROUND)
    if not 1 <= message.query.size <= terms.num_public:
        raise Refused(Refusal.QUERY)
    if message.HasField("targets"):
        targets = _read_labels(message.targets, terms.num_public, terms)
    else:
        targets = np.full(terms.num_public, ABSTAIN, dtype=LABEL_DTYPE)
    soft = _read_soft(message, terms) if message.HasField("soft") else None
    query = Query(message.query.seed, message.query.size)
    instruction = Instruction(message.round, query, targets, message.votes, soft)
    _check_canonical(payload, encode_instruction(instruction, terms))
    return instruction


def encode_reply(reply: Reply, terms: Terms) -> bytes:
    """The one encoding of a reply.

    Raises Refused: UNKNOWN_CLASS for votes outside the label space, or not as many on each example; PROBABILITIES for
    rows that do not sum to 1, VALUES for what is not finite.
    """
    message = labels_pb2.Reply(round=reply.round, silo=reply.silo)
    if isinstance(reply.outcome, Refusal):
        # Without terms: a silo that refuses may hold other ones, and they are nobody else's business.
        message.refusal = reply.outcome.number  # type: ignore[assignment]  # enums are ints on the wire
    else:
        message.terms.CopyFrom(_terms_message(terms))
        if reply.outcome.ndim == 1:
            message.votes.CopyFrom(_labels_message(reply.outcome, terms))
        elif reply.outcome.shape[1] != terms.width:
            raise Refused(Refusal.UNKNOWN_CLASS)
        elif reply.outcome.dtype.kind == "f":
            _put(reply.outcome, message, _form(terms).reply_field, terms)
        else:
            message.counts.CopyFrom(labels_pb2.Counts(count=len(reply.outcome), packed=pack_counts(reply.outcome)))
    if isinstance(reply.scores, Fit):
        message.fit.CopyFrom(labels_pb2.Fit(**reply.scores._asdict()))
    elif reply.scores is not None:
        message.scores.CopyFrom(labels_pb2.Scores(**reply.scores._asdict()))
    return message.SerializeToString(deterministic=True)


def encode_refusal(silo: SiloName, reason: Refusal) -> bytes:
    """The reply of a silo that sends no labels: its name and the number of the reason."""
    # No round: with a refusal it does not travel either.
    return encode_reply(Reply(0, silo, reason), NO_TERMS)


def longest_reply(instruction: Instruction, silo: SiloName, terms: Terms, *, scores: bool) -> int:
    """Most bytes that a reply with what was asked for can have."""
    longest: Votes = np.full(instruction.query.size, ABSTAIN, dtype=LABEL_DTYPE)
    if instruction.votes:
        longest = np.zeros((instruction.query.size, terms.num_classes), dtype=np.int32)
        longest[:, 0] = instruction.votes
    elif instruction.soft:
        longest = np.zeros((instruction.query.size, terms.width), dtype=np.float32)
        longest[:, 0] = 1
    # Any score but 0, which takes no bytes.
    kind = Fit if terms.quantity else Scores
    some = kind(*[1.0] * len(kind._fields)) if scores else None
    return len(encode_reply(Reply(instruction.round, silo, longest, some), terms))


def decode_reply(payload: bytes, terms: Terms, instruction: Instruction) -> Reply:
    """Read the reply to an instruction. Raises Refused for anything that does not answer it."""
    asked = instruction.query.size
    message = _parse(labels_pb2.Reply, payload, _max_size(terms, asked, instruction.votes, soft=bool(instruction.soft)))
    outcome: Votes | Refusal
    if message.WhichOneof("outcome") == "refusal":
        outcome = Refusal.from_number(message.refusal)
        if message.round or message.HasField("scores") or message.HasField("fit"):
            raise Refused(Refusal.MALFORMED)
    else:
        _check_terms(message.terms, terms)
        if message.round != instruction.round:
            raise Refused(Refusal.ROUND)
        field = _form(terms).reply_field if instruction.soft else _OUTCOMES[instruction.kind]
        if message.WhichOneof("outcome") != field:
            raise Refused(Refusal.MALFORMED)
        if instruction.votes:
            outcome = _read_counts(message.counts, instruction, terms)
        elif instruction.soft:
            outcome = _take(message, field, asked, terms)
        else:
            outcome = _read_labels(message.votes, asked, terms)
    if not 1 <= len(message.silo.encode()) <= MAX_NAME_BYTES:
        raise Refused(Refusal.SILO)
    scores = _read_scores(message, terms)
    reply = Reply(message.round, message.silo, outcome, scores)
    _check_canonical(payload, encode_reply(reply, terms))
    return reply


def _read_scores(message: labels_pb2.Reply, terms: Terms) -> Scores | Fit | None:
    field, kind, least = ("fit", Fit, -MAX_VALUE) if terms.quantity else ("scores", Scores, 0.0)
    if not message.HasField(field):
        return None
    # One NaN and one zero: their spare bits could carry something else out.
    found = (getattr(getattr(message, field), name) for name in kind._fields)
    scores: Scores | Fit = kind(*(math.nan if math.isnan(score) else score + 0.0 for score in found))
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
    )


def _labels_message(labels: HardLabels, terms: Terms) -> labels_pb2.Labels:
    packed, abstentions = pack(labels, terms.num_classes)
    return labels_pb2.Labels(count=len(labels), abstentions=abstentions, packed=packed)


def _read_labels(message: labels_pb2.Labels, count: int, terms: Terms) -> HardLabels:
    # The count is only compared, never believed: memory follows what was asked for, not what a message claims.
    if message.count != count:
        raise Refused(Refusal.LENGTH)
    return unpack(message.packed, count, terms.num_classes, message.abstentions)


def _read_counts(message: labels_pb2.Counts, instruction: Instruction, terms: Terms) -> VoteCounts:
    if message.count != instruction.query.size:
        raise Refused(Refusal.LENGTH)
    return unpack_counts(message.packed, message.count, terms.num_classes, instruction.votes)


class _Form(NamedTuple):
    """How soft votes travel: in which field of a reply and of an instruction, and packed how.

    ``size`` and ``unpack`` take the number of examples and of classes, ``unpack`` after the bytes.
    """

    reply_field: str
    targets_field: str
    size: Callable[[int, int], int]
    pack: Callable[[SoftVotes], bytes]
    unpack: Callable[[bytes, int, int], SoftVotes]


_PROBABILITIES: Final = _Form("probabilities", "targets", probabilities_size, pack_probabilities, unpack_probabilities)
_VALUES: Final = _Form(
    "values", "values", lambda count, _: values_size(count), pack_values, lambda packed, n, _: unpack_values(packed, n)
)


def _form(terms: Terms) -> _Form:
    return _VALUES if terms.quantity else _PROBABILITIES


def _put(votes: SoftVotes, message: labels_pb2.Reply | labels_pb2.Soft, field: str, terms: Terms) -> None:
    getattr(message, field).packed = _form(terms).pack(votes)
    getattr(message, field).count = len(votes)


def _take(message: labels_pb2.Reply | labels_pb2.Soft, field: str, count: int, terms: Terms) -> SoftVotes:
    found = getattr(message, field)
    if found.count != count:
        raise Refused(Refusal.LENGTH)
    return _form(terms).unpack(found.packed, count, terms.num_classes)


def _soft_message(soft: Soft, terms: Terms) -> labels_pb2.Soft:
    message = labels_pb2.Soft(rounds=soft.rounds)
    if soft.targets:
        query, votes, message.weight = soft.targets
        message.targeted.CopyFrom(labels_pb2.Query(seed=query.seed, size=query.size))
        _put(votes, message, _form(terms).targets_field, terms)
    return message


def _read_soft(message: labels_pb2.Instruction, terms: Terms) -> Soft:
    """How to train, within bounds: nobody shall keep a silo at work for ever. Raises Refused."""
    soft = message.soft
    if message.votes or message.HasField("targets") or not 1 <= soft.rounds <= MAX_ROUNDS_AT_ONCE:
        raise Refused(Refusal.MALFORMED)
    if not soft.HasField("targeted"):
        return Soft(soft.rounds)
    if not 1 <= soft.targeted.size <= terms.num_public:
        raise Refused(Refusal.QUERY)
    if not 0 <= soft.weight <= MAX_WEIGHT:
        raise Refused(Refusal.MALFORMED)
    votes = _take(soft, _form(terms).targets_field, soft.targeted.size, terms)
    query = Query(soft.targeted.seed, soft.targeted.size)
    # One zero: the other one would be another encoding.
    return Soft(soft.rounds, SoftTargets(query, votes, soft.weight + 0.0))


def _max_size(terms: Terms, count: int, votes: int = 0, *, soft: bool = False) -> int:
    fixed = 1024 + MAX_NAME_BYTES + _terms_message(terms).ByteSize()
    if soft:
        return fixed + _form(terms).size(count, terms.num_classes)
    if votes:
        return fixed + counts_size(count, terms.num_classes, votes)
    return fixed + packed_size(count, terms.num_classes, abstentions=True)


def _parse(kind: type[_Payload], payload: bytes, max_size: int) -> _Payload:
    if len(payload) > max_size:
        raise Refused(Refusal.LENGTH)
    try:
        return kind.FromString(payload)
    except DecodeError:
        raise Refused(Refusal.MALFORMED) from None


def _check_terms(message: labels_pb2.Terms, terms: Terms) -> None:
    if message.version != VERSION:
        raise Refused(Refusal.VERSION)
    if message.study != terms.study:
        raise Refused(Refusal.STUDY)
    if message.public_fingerprint != terms.public_fingerprint:
        raise Refused(Refusal.FINGERPRINT)
    if (tuple(message.classes), message.quantity) != (terms.classes, terms.quantity):
        raise Refused(Refusal.CLASSES)


def _check_canonical(payload: bytes, encoded: bytes) -> None:
    if payload != encoded:
        raise Refused(Refusal.MALFORMED)
