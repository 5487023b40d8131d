"""The coordinator's side of secure sums: from the silos' messages to the next ones, and to the sum.

A session begins with two exchanges, ``invite`` and ``roster``; a sum takes ``ask`` and ``open``, and ``survivors``
between them where a summand is missing. A wrong message counts as not sent; ``faults`` says what was wrong.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray

from fedct_flwr.secure_sum import messages as m
from fedct_flwr.secure_sum.masks import Masked, derive, pair_root, restore, seed_check, unwrapped
from fedct_flwr.secure_sum.messages import Header, Member, Reader, Step
from fedct_flwr.secure_sum.terms import KEY_SIZE, SHARE_SIZE, Fault, Shape, SumRefused, SumTerms, listed
from fedct_flwr.types import SiloName

Requests: TypeAlias = dict[SiloName, bytes]
Replies: TypeAlias = Mapping[SiloName, bytes]

Exchange: TypeAlias = Callable[[Requests], Replies]
"""Sends each silo its request and returns the replies that came in time."""

_Read = TypeVar("_Read")


class SecureSum(NamedTuple):
    """A sum modulo ``2**bits``, ``(length,)``, and the silos whose vectors are in it."""

    total: NDArray[np.uint64]
    summands: tuple[SiloName, ...]


@dataclass
class _Sum:
    """The sum that is under way, by place on the roster."""

    number: int
    shape: Shape
    summands: tuple[int, ...]
    name: bytes
    deals: dict[int, m.Deal]
    answers: dict[int, m.MaskedAnswer] = field(default_factory=dict)
    survivors: tuple[int, ...] = ()


class SumCoordinator:
    """Sets up sessions and runs sums, one at a time. Raises SumRefused; then the next sum may be asked for."""

    def __init__(self, terms: SumTerms) -> None:
        self._terms = terms
        self._session = b""
        self._roster = b""
        self._members: list[Member] = []
        self._deals: dict[int, m.Deal] = {}
        self._number = 0
        self._sum: _Sum | None = None
        self._accused: dict[int, set[int]] = {}
        self.faults: dict[SiloName, Fault] = {}
        """Faults of the silos' last replies."""

    @property
    def names(self) -> tuple[SiloName, ...]:
        """The silos of the session's roster."""
        return tuple(member.name for member in self._members)

    def invite(self) -> Requests:
        """Begin another session: what to send to every silo of the study."""
        self._session = secrets.token_bytes(m.SESSION_SIZE)
        self._members, self._deals, self._number, self._sum, self._accused = [], {}, 0, None, {}
        request = Header(Step.INVITE, self._session).encode() + self._terms.digest
        return dict.fromkeys(self._terms.names, request)

    def roster(self, replies: Replies) -> Requests:
        """From the silos' keys to the roster, for every silo on it. Raises SumRefused (TOO_FEW)."""
        self.faults = {}
        members = []
        for name in self._terms.names:
            try:
                if name in replies:
                    members.append(self._introduced(name, replies[name]))
            except SumRefused as refused:
                self.faults[name] = refused.fault
        if len(members) < max(self._terms.min_summands, self._terms.quorum(len(members))):
            raise SumRefused(Fault.TOO_FEW)
        self._members = members
        self._roster = m.roster_digest(self._terms.digest, self._session, members)
        request = Header(Step.ROSTER, self._session).encode() + m.encode_roster(members, self._terms.names)
        return dict.fromkeys(self.names, request)

    def dealt(self, replies: Replies) -> None:
        """Keep what the silos deal for the session's first sum."""
        received = self._received(replies, Step.DEALT, 0)
        self._deals = self._each(
            received, lambda place, data: m.MaskedAnswer.decode(data, self._others(place), None).deal
        )
        self._number = 1

    @property
    def ready(self) -> bool:
        """Whether enough silos have dealt for the next sum; if not, ``refresh`` lets all deal."""
        return len(self._dealers) >= self._terms.fewest(len(self._members))

    def refresh(self) -> Requests:
        """Let all silos deal for another sum, and add nothing: after one that too few have answered."""
        return self._ask(Shape(1, 1, bytes(32)), ())

    def ask(self, shape: Shape) -> Requests:
        """Ask for a sum: what to send to every silo on the roster. Raises SumRefused (TOO_FEW, OVERFLOW)."""
        shape.check_room(len(self._members))
        if not self.ready:
            raise SumRefused(Fault.TOO_FEW)
        return self._ask(shape, self._dealers)

    def answered(self, replies: Replies) -> Requests:
        """From masked vectors to what opens their sum, or the survivors to sign. Raises SumRefused (TOO_FEW)."""
        current = self._current()
        received = self._received(replies, Step.MASKED, current.number)
        current.answers = self._each(received, lambda place, data: self._answer(current, place, data))
        self._deals = {place: answer.deal for place, answer in current.answers.items()}
        self._number = current.number + 1
        if not current.summands:
            return {}
        survivors = tuple(place for place in current.summands if place in current.answers)
        if len(survivors) < self._terms.fewest(len(self._members)):
            self._sum = None
            raise SumRefused(Fault.TOO_FEW)
        current.survivors = survivors
        if survivors == current.summands:
            return self._open(current, {})
        request = Header(Step.SURVIVORS, self._session, current.number).encode() + listed(survivors)
        return {self._members[place].name: request for place in current.answers}

    @property
    def to_sign(self) -> bool:
        """Whether the silos have to sign a list of survivors before the sum can be opened."""
        return self._sum is not None and self._sum.survivors != self._sum.summands

    def signed(self, replies: Replies) -> Requests:
        """From the signatures of the list of survivors to what opens their sum. Raises SumRefused (UNCONFIRMED)."""
        current = self._current()
        received = self._received(replies, Step.SIGNED, current.number)
        signatures = self._each(received, lambda place, data: self._signature(current, place, data))
        quorum = self._terms.quorum(len(self._members))
        if len(signatures) < quorum:
            self._sum = None
            raise SumRefused(Fault.UNCONFIRMED)
        return self._open(current, dict(sorted(signatures.items())[:quorum]))

    def opened(self, replies: Replies) -> SecureSum:
        """The sum, from the shares that open it. Raises SumRefused: TOO_FEW shares, or SPOILED ones."""
        current, self._sum = self._current(), None
        received = self._received(replies, Step.OPENED, current.number)
        shares = self._each(received, lambda place, data: self._shares(current, place, data))
        quorum = self._terms.quorum(len(self._members))
        if len(shares) < quorum:
            raise SumRefused(Fault.TOO_FEW)
        chosen = dict(sorted(shares.items())[:quorum])
        total = Masked(np.zeros(current.shape.length, dtype=np.uint64), current.shape.bits)
        for member in current.summands:
            secret = restore({place: given[member] for place, given in chosen.items()})
            if member in current.survivors:
                self._unmask_survivor(current, member, secret, total)
            else:
                self._unmask_missing(current, member, secret, total)
        residues = total.residues
        if current.shape.largest is not None and residues.max() > current.shape.largest * len(current.survivors):
            raise SumRefused(Fault.SPOILED)
        return SecureSum(residues, tuple(self._members[place].name for place in current.survivors))

    def _unmask_survivor(self, current: _Sum, member: int, seed: bytes, total: Masked) -> None:
        if seed_check(seed) != current.deals[member].check:
            raise SumRefused(Fault.SPOILED, member)
        total.absorb(current.answers[member].masked)
        total.subtract(derive(seed, b"self mask", current.name))

    def _unmask_missing(self, current: _Sum, member: int, wrapping: bytes, total: Masked) -> None:
        seeds = unwrapped(wrapping, member, self._others(member), current.deals[member].wrapped)
        for other in self._terms.neighbours(member, current.summands, len(self._members)):
            if other in current.survivors:
                key = derive(seeds[other], b"pair mask", current.name)
                if other < member:
                    total.subtract(key)
                else:
                    total.add(key)

    def _ask(self, shape: Shape, summands: tuple[int, ...]) -> Requests:
        name = m.sum_digest(self._roster, self._number, shape, summands)
        self._sum = _Sum(self._number, shape, summands, name, self._deals)
        header = Header(Step.ASK, self._session, self._number).encode()
        return {
            member.name: header
            + m.Ask(shape, summands, {d: self._deals[d].sealed[place] for d in summands if d != place}).encode()
            for place, member in enumerate(self._members)
        }

    @property
    def _dealers(self) -> tuple[int, ...]:
        """Silos that have dealt for the next sum, but for those whose shares or tags more silos reject than collude."""
        accused = {place for place, by in self._accused.items() if len(by) > self._terms.may_collude}
        return tuple(sorted(self._deals.keys() - accused))

    def _open(self, current: _Sum, signatures: Mapping[int, bytes]) -> Requests:
        header = Header(Step.OPEN, self._session, current.number).encode()
        requests = {}
        for place in current.answers:
            tags = {s: (current.answers[s].tags or {})[place] for s in current.survivors if s != place}
            requests[self._members[place].name] = header + m.Open(current.survivors, tags, signatures).encode()
        return requests

    def _introduced(self, name: SiloName, data: bytes) -> Member:
        self._check_header(data, Step.INTRODUCED, 0)
        reader = Reader(data)
        member = Member(name, reader.take(KEY_SIZE), reader.take(m.SIGNATURE_SIZE))
        reader.end()
        content = m.introduction(self._terms.digest, self._session, name, member.public)
        m.check_signature(self._terms.keys[name], member.signature, content)
        # As silos do: each of them would refuse the whole roster for this one's key.
        pair_root(X25519PrivateKey.generate(), member.public, self._session)
        return member

    def _answer(self, current: _Sum, place: int, data: bytes) -> m.MaskedAnswer:
        shape = current.shape if place in current.summands else None
        return m.MaskedAnswer.decode(data, self._others(place), shape)

    def _signature(self, current: _Sum, place: int, data: bytes) -> bytes:
        reader = Reader(data)
        signature = reader.take(m.SIGNATURE_SIZE)
        reader.end()
        content = m.survivor_list(self._roster, current.number, current.name, current.survivors)
        m.check_signature(self._terms.keys[self._members[place].name], signature, content)
        return signature

    def _shares(self, current: _Sum, place: int, data: bytes) -> dict[int, bytes]:
        reader = Reader(data)
        shares = reader.parts(SHARE_SIZE, current.summands)
        reader.take(m.SIGNATURE_SIZE)
        reader.end()
        return shares

    def _received(self, replies: Replies, step: Step, number: int) -> dict[int, bytes]:
        """The replies of this step, by place on the roster; refusals and wrong messages become faults."""
        self.faults = {}

        def check(place: int, data: bytes) -> bytes:
            self._check_header(data, step, number)
            if step is not Step.SIGNED:  # there, the signature of the list is all that is said
                m.check_signed(self._terms.keys[self._members[place].name], self._roster, data)
            return data

        present = {place: replies[member.name] for place, member in enumerate(self._members) if member.name in replies}
        return self._each(present, check)

    def _each(self, received: Mapping[int, bytes], read: Callable[[int, bytes], _Read]) -> dict[int, _Read]:
        """The replies that ``read`` accepts, by the silo's place on the roster.

        A silo whose reply raises SumRefused is left out, and ``faults`` has why. A refusal that names a member also
        counts against that one.
        """
        done = {}
        for place, data in received.items():
            try:
                done[place] = read(place, data)
            except SumRefused as refused:
                self.faults[self._members[place].name] = refused.fault
                if refused.fault in (Fault.SHARE, Fault.UNCONFIRMED) and refused.member is not None:
                    self._accused.setdefault(refused.member, set()).add(place)
        return done

    def _check_header(self, data: bytes, step: Step, number: int) -> None:
        header = Header.of(data)
        if header.step is Step.REFUSED:
            reader = Reader(data)
            fault, member = reader.take(2)
            reader.end()
            raise SumRefused(Fault.from_number(fault), member - 1 if member else None)
        if header.session != self._session:
            raise SumRefused(Fault.SESSION)
        if header != Header(step, self._session, number):
            raise SumRefused(Fault.NUMBER)

    def _others(self, place: int) -> list[int]:
        return [other for other in range(len(self._members)) if other != place]

    def _current(self) -> _Sum:
        if self._sum is None:
            raise SumRefused(Fault.NUMBER)
        return self._sum


def begin_session(coordinator: SumCoordinator, exchange: Exchange) -> None:
    """Set up a session with every silo that answers: two exchanges. Raises SumRefused (TOO_FEW)."""
    coordinator.dealt(exchange(coordinator.roster(exchange(coordinator.invite()))))


def sum_securely(coordinator: SumCoordinator, exchange: Exchange, shape: Shape) -> SecureSum:
    """One sum in two exchanges, more where summands drop out. Raises SumRefused; the session can go on."""
    if not coordinator.ready:
        coordinator.answered(exchange(coordinator.refresh()))
    requests = coordinator.answered(exchange(coordinator.ask(shape)))
    if coordinator.to_sign:
        requests = coordinator.signed(exchange(requests))
    return coordinator.opened(exchange(requests))
