"""The silo's side of secure sums: from a coordinator's message to the one that may answer it.

Nothing secret outlives the process or the session. Two things are never answered: the same step with other contents,
and a sum whose number is not above the last one's.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Final, Protocol, TypeAlias

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.constant_time import bytes_eq
from numpy.typing import NDArray
from pydantic import ConfigDict, PlainSerializer, PlainValidator, TypeAdapter

from fedct_flwr.consensus.counting import tally, unanimous
from fedct_flwr.secure_sum import messages as m
from fedct_flwr.secure_sum.masks import Masked, Seeds, deal, derive, opened_shares, pair_root, pair_seed, tag
from fedct_flwr.secure_sum.messages import Header, Member, Reader, Step
from fedct_flwr.secure_sum.terms import Fault, Shape, SumRefused, SumTerms
from fedct_flwr.types import FedctError, SiloName, Votes
from fedct_flwr.wire.content import Instruction, Terms

_NO_SESSION: Final = Header(Step.REFUSED, bytes(m.SESSION_SIZE))

SharePair: TypeAlias = tuple[bytes, bytes]
"""A share of a self-mask's seed and one of the key that wraps the pairwise seeds, of the same dealer."""


class Contribution(Protocol):
    """A silo's summand, and its price."""

    def vector(self, shape: Shape) -> NDArray[np.uint64]:
        """The silo's numbers ``(shape.length,)``. Raises SumRefused (SHAPE) for a sum that it does not expect."""

    def charge(self, shape: Shape) -> None:
        """Charge the ledger once for each sum, right before the vector leaves; a FedctError keeps it here."""


@dataclass
class Sum:
    """A silo's state in the current sum."""

    number: int
    shape: Shape
    name: bytes
    summands: tuple[int, ...]
    shares: dict[int, SharePair]
    list_signed: tuple[int, ...] | None = None


@dataclass
class Session:
    """A silo's state in a session: keys that no message has ever carried."""

    name: bytes
    private: Annotated[
        X25519PrivateKey,
        PlainValidator(lambda key: X25519PrivateKey.from_private_bytes(bytes.fromhex(key))),
        PlainSerializer(lambda key: key.private_bytes_raw().hex()),
    ]
    members: list[Member] = field(default_factory=list)
    roster: bytes = b""
    own: int = -1
    roots: dict[int, bytes] = field(default_factory=dict)
    seeds: Seeds | None = None
    current: Sum | None = None
    last: int = 0
    replies: dict[str, tuple[bytes, bytes]] = field(default_factory=dict)
    """A request and its reply, by ``_place``."""


class SumClient:
    """A silo that takes part in secure sums, by ``name`` and ``key`` of the study folder and its approved ``terms``."""

    def __init__(self, name: SiloName, key: Ed25519PrivateKey, terms: SumTerms) -> None:
        if terms.keys.get(name) != key.public_key().public_bytes_raw():
            raise SumRefused(Fault.ROSTER)
        self._name = name
        self._key = key
        self._terms = terms
        self.session: Session | None = None
        self.subjects: set[bytes] = set()

    def answer(self, request: bytes, contribution: Contribution) -> bytes:
        """The reply to any message, or a refusal by number. Other errors are raised; then nothing leaves."""
        try:
            header = Header.of(request)
        except SumRefused as refused:
            return refusal(refused)
        try:
            return self._repeated_or(header, request, contribution)
        except SumRefused as refused:
            return refusal(refused, header)

    def _repeated_or(self, header: Header, request: bytes, contribution: Contribution) -> bytes:
        steps: dict[Step, Callable[[Session, Header, bytes], bytes]] = {
            Step.ROSTER: self._deal,
            Step.ASK: lambda session, header, request: self._add(session, header, request, contribution),
            Step.SURVIVORS: self._sign,
            Step.OPEN: self._open,
        }
        if header.step is Step.INVITE:
            return self._introduce(header, request)
        session = self.session
        if session is None or session.name != header.session:
            raise SumRefused(Fault.SESSION)
        if header.step not in steps:
            raise SumRefused(Fault.MALFORMED)
        place = _place(header.step, header.number)
        if place in session.replies:  # a reply that got lost is given again, and no other one ever
            asked, reply = session.replies[place]
            if asked != request:
                raise SumRefused(Fault.LISTS if header.step in (Step.SURVIVORS, Step.OPEN) else Fault.NUMBER)
            return reply
        reply = steps[header.step](session, header, request)
        session.replies[place] = request, reply
        return reply

    def _introduce(self, header: Header, request: bytes) -> bytes:
        reader = Reader(request)
        if reader.take(m.DIGEST_SIZE) != self._terms.digest:
            raise SumRefused(Fault.TERMS)
        reader.end()
        if self.session is None or self.session.name != header.session:
            self.session = Session(header.session, X25519PrivateKey.generate())
        public = self.session.private.public_key().public_bytes_raw()
        signature = self._key.sign(m.introduction(self._terms.digest, header.session, self._name, public))
        return Header(Step.INTRODUCED, header.session).encode() + public + signature

    def _deal(self, session: Session, header: Header, request: bytes) -> bytes:
        if session.members:
            raise SumRefused(Fault.NUMBER)
        members = m.decode_roster(request, self._terms.names)
        names = [member.name for member in members]
        if len(members) < max(self._terms.min_summands, self._terms.quorum(len(members))):
            raise SumRefused(Fault.TOO_FEW)
        if self._name not in names:
            raise SumRefused(Fault.ROSTER)
        for member in members:
            content = m.introduction(self._terms.digest, session.name, member.name, member.public)
            m.check_signature(self._terms.keys[member.name], member.signature, content)
        own = names.index(self._name)
        if members[own].public != session.private.public_key().public_bytes_raw():
            raise SumRefused(Fault.ROSTER)
        roster = m.roster_digest(self._terms.digest, session.name, members)
        roots = {
            place: pair_root(session.private, member.public, roster)
            for place, member in enumerate(members)
            if place != own
        }
        session.members, session.roster, session.own, session.roots = members, roster, own, roots
        return self._signed(session, Header(Step.DEALT, session.name), self._dealt(session, 1).encode())

    def _add(self, session: Session, header: Header, request: bytes, contribution: Contribution) -> bytes:
        if not session.members or header.number <= session.last:
            raise SumRefused(Fault.NUMBER)
        silos, own = len(session.members), session.own
        ask = m.Ask.decode(request, own, silos)
        number, name = header.number, m.sum_digest(session.roster, header.number, ask.shape, ask.summands)
        if ask.summands and len(ask.summands) < self._terms.fewest(silos):
            raise SumRefused(Fault.TOO_FEW)
        shares = {
            dealer: opened_shares(session.roots[dealer], dealer, own, number, sealed)
            for dealer, sealed in ask.sealed.items()
        }
        masked, tags = b"", None
        if own in ask.summands:
            seeds = session.seeds
            if seeds is None or seeds.number != number:
                raise SumRefused(Fault.NOT_DEALT)
            shares[own] = seeds.own_shares
            ask.shape.check_room(silos)
            if ask.shape.subject in self.subjects:
                raise SumRefused(Fault.REPEATED)
            vector = _checked(contribution.vector(ask.shape), ask.shape)
            try:
                contribution.charge(ask.shape)
            except FedctError:
                raise SumRefused(Fault.UNCHARGED) from None
            self.subjects.add(ask.shape.subject)
            masked = self._masked(session, seeds, vector, ask, name)
            tags = {other: tag(root, own, other, name) for other, root in session.roots.items()}
        session.last, session.replies = number, {}
        session.current = Sum(number, ask.shape, name, ask.summands, shares)
        body = m.MaskedAnswer(self._dealt(session, number + 1), masked, tags).encode()
        return self._signed(session, Header(Step.MASKED, session.name, number), body)

    def _masked(self, session: Session, seeds: Seeds, vector: NDArray[np.uint64], ask: m.Ask, name: bytes) -> bytes:
        masked = Masked(vector, ask.shape.bits)
        masked.add(derive(seeds.self_mask, b"self mask", name))
        for other in self._terms.neighbours(session.own, ask.summands, len(session.members)):
            key = derive(pair_seed(session.roots[other], seeds.number), b"pair mask", name)
            if session.own < other:
                masked.add(key)
            else:
                masked.subtract(key)
        return masked.packed

    def _sign(self, session: Session, header: Header, request: bytes) -> bytes:
        current = self._current(session, header)
        reader = Reader(request)
        survivors = reader.members(len(session.members))
        reader.end()
        self._check_list(session, current, survivors)
        if _place(Step.OPEN, current.number) in session.replies:
            raise SumRefused(Fault.LISTS)
        current.list_signed = survivors
        content = m.survivor_list(session.roster, current.number, current.name, survivors)
        return Header(Step.SIGNED, session.name, current.number).encode() + self._key.sign(content)

    def _open(self, session: Session, header: Header, request: bytes) -> bytes:
        current = self._current(session, header)
        ask = m.Open.decode(request, session.own, len(session.members))
        self._check_list(session, current, ask.survivors)
        if current.list_signed not in (None, ask.survivors):
            raise SumRefused(Fault.LISTS)
        for other, given in ask.tags.items():
            if not bytes_eq(given, tag(session.roots[other], other, session.own, current.name)):
                raise SumRefused(Fault.UNCONFIRMED, other)
        if ask.survivors != current.summands:
            self._check_signatures(session, current, ask)
        # A survivor's pairwise seeds stay closed, and the self-mask of a silo that is gone: never both are opened.
        opened = b"".join(current.shares[member][member not in ask.survivors] for member in current.summands)
        return self._signed(session, Header(Step.OPENED, session.name, current.number), opened)

    def _check_list(self, session: Session, current: Sum, survivors: tuple[int, ...]) -> None:
        if not set(survivors) <= set(current.summands):
            raise SumRefused(Fault.LISTS)
        if len(survivors) < self._terms.fewest(len(session.members)):
            raise SumRefused(Fault.TOO_FEW)

    def _check_signatures(self, session: Session, current: Sum, ask: m.Open) -> None:
        if len(ask.signatures) < self._terms.quorum(len(session.members)):
            raise SumRefused(Fault.UNCONFIRMED)
        content = m.survivor_list(session.roster, current.number, current.name, ask.survivors)
        for other, signature in ask.signatures.items():
            m.check_signature(self._terms.keys[session.members[other].name], signature, content)

    def _current(self, session: Session, header: Header) -> Sum:
        if session.current is None or session.current.number != header.number or not session.current.summands:
            raise SumRefused(Fault.NUMBER)
        return session.current

    def _dealt(self, session: Session, number: int) -> m.Deal:
        quorum = self._terms.quorum(len(session.members))
        session.seeds, dealt = deal(session.roots, session.own, number, quorum)
        return dealt

    def _signed(self, session: Session, header: Header, body: bytes) -> bytes:
        return m.signed(self._key, session.roster, header.encode() + body)


def _place(step: Step, number: int) -> str:
    return f"{step:d} {number}"


def _checked(vector: NDArray[np.uint64], shape: Shape) -> NDArray[np.uint64]:
    if vector.shape != (shape.length,) or vector.dtype != np.uint64:
        raise SumRefused(Fault.SHAPE)
    most = shape.largest if shape.largest is not None else (1 << shape.bits) - 1
    if vector.max() > np.uint64(most):
        raise SumRefused(Fault.VALUES)
    return vector


def refusal(refused: SumRefused, asked: Header = _NO_SESSION) -> bytes:
    """The reply that says by number why a silo does not do what it is asked."""
    member = 0 if refused.member is None else refused.member + 1
    return Header(Step.REFUSED, asked.session, asked.number).encode() + bytes([refused.fault.number, member])


_MEMORY: Final[TypeAdapter[tuple[set[bytes], Session | None]]] = TypeAdapter(
    tuple[set[bytes], Session | None], config=ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
)


def to_bytes(summand: SumClient) -> bytes:
    """All that a simulated silo remembers between two messages, secrets too; a real one keeps it in memory."""
    return _MEMORY.dump_json((summand.subjects, summand.session))


def remind(summand: SumClient, kept: bytes) -> None:
    """Let a silo remember what ``to_bytes`` wrote."""
    summand.subjects, summand.session = _MEMORY.validate_json(kept)


def summand(votes: Votes, instruction: Instruction, terms: Terms) -> NDArray[np.uint64]:
    """The silo's summand, ``(examples * classes,)``. Raises Refused for answers of another kind.

    A 1 for the class of the silo's label, or for the class that all of its students chose.
    """
    labels = unanimous(votes, instruction.votes) if instruction.votes else votes
    return tally([labels], instruction.query.size, terms.num_classes).astype(np.uint64).ravel()
