"""The messages of a secure sum, to the byte. Each has exactly one encoding; every other one is refused.

A message begins with the protocol's name, its kind, the session (16 bytes that the coordinator drew) and the number of
the sum. A silo's message ends with its Ed25519 signature over all of it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Final, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from fedct_flwr.secure_sum.terms import (
    KEY_SIZE,
    SECRET_SIZE,
    SHAPE_SIZE,
    SHARE_SIZE,
    Fault,
    Shape,
    SumRefused,
    hashed,
    listed,
    packed_size,
)

MAGIC: Final = b"FSS1"
SESSION_SIZE: Final = 16
SIGNATURE_SIZE: Final = 64
TAG_SIZE: Final = 16
DIGEST_SIZE: Final = 32
SEALED_SIZE: Final = 2 * SHARE_SIZE + TAG_SIZE
"""Bytes of two shares that one silo encrypted for another."""

_HEADER_SIZE: Final = len(MAGIC) + 1 + SESSION_SIZE + 4
_MOST_SUMS: Final = (1 << 32) - 2


class Step(IntEnum):
    """The kinds of messages, in their order; those of silos are odd but for REFUSED."""

    INVITE = 0
    INTRODUCED = 1
    ROSTER = 2
    DEALT = 3
    ASK = 4
    MASKED = 5
    SURVIVORS = 6
    SIGNED = 7
    OPEN = 8
    OPENED = 9
    REFUSED = 11


@dataclass(frozen=True)
class Header:
    """First part of every message."""

    step: Step
    session: bytes
    number: int = 0

    def encode(self) -> bytes:
        """The header to the byte."""
        return MAGIC + bytes([self.step]) + self.session + self.number.to_bytes(4, "big")

    @classmethod
    def of(cls, data: bytes) -> Self:
        """The header of a message. Raises SumRefused (MALFORMED)."""
        if len(data) < _HEADER_SIZE or data[:4] != MAGIC or data[4] not in Step.__members__.values():
            raise SumRefused(Fault.MALFORMED)
        number = int.from_bytes(data[21:25], "big")
        if number > _MOST_SUMS:
            raise SumRefused(Fault.NUMBER)
        return cls(Step(data[4]), data[5:21], number)


class Reader:
    """Reads what follows a header. Raises SumRefused (MALFORMED) where bytes are missing or left over."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = _HEADER_SIZE

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes."""
        self._at += size
        if self._at > len(self._data):
            raise SumRefused(Fault.MALFORMED)
        return self._data[self._at - size : self._at]

    def parts(self, size: int, keys: Iterable[int]) -> dict[int, bytes]:
        """For each key, in order, the next ``size`` bytes."""
        return {key: self.take(size) for key in keys}

    def members(self, silos: int) -> tuple[int, ...]:
        """Places on a roster of ``silos``, which ascend. Raises SumRefused (LISTS) otherwise."""
        places = tuple(self.take(self.take(1)[0]))
        if any(place >= silos for place in places) or any(a >= b for a, b in pairwise(places)):
            raise SumRefused(Fault.LISTS)
        return places

    def end(self) -> None:
        """Check that no bytes follow."""
        if self._at != len(self._data):
            raise SumRefused(Fault.MALFORMED)


@dataclass(frozen=True)
class Member:
    """A silo on a roster: its name, its X25519 key of this session, and its signature of both."""

    name: str
    public: bytes
    signature: bytes


@dataclass(frozen=True)
class Deal:
    """A silo's deal for one sum.

    ``check`` tells whether the self-mask's seed was restored. ``wrapped`` holds the seeds of the pairwise masks,
    encrypted. ``sealed`` holds for each other silo, by place, its share of both keys.
    """

    check: bytes
    wrapped: bytes
    sealed: Mapping[int, bytes]

    def encode(self) -> bytes:
        """The deal to the byte."""
        return self.check + self.wrapped + b"".join(self.sealed.values())

    @classmethod
    def read(cls, reader: Reader, others: list[int]) -> Self:
        """The inverse of ``encode`` for a dealer who has these ``others``."""
        check, wrapped = reader.take(SECRET_SIZE), reader.take(len(others) * SECRET_SIZE + TAG_SIZE)
        return cls(check, wrapped, reader.parts(SEALED_SIZE, others))


@dataclass(frozen=True)
class Ask:
    """The question of a sum: its shape, who adds, and the shares that each of them dealt to the silo that is asked."""

    shape: Shape
    summands: tuple[int, ...]
    sealed: Mapping[int, bytes]

    def encode(self) -> bytes:
        """The bytes after the header."""
        return self.shape.encode() + listed(self.summands) + b"".join(self.sealed.values())

    @classmethod
    def decode(cls, data: bytes, own: int, silos: int) -> Self:
        """The question as the silo at place ``own`` of a roster of ``silos`` gets it."""
        reader = Reader(data)
        shape, summands = Shape.decode(reader.take(SHAPE_SIZE)), reader.members(silos)
        sealed = reader.parts(SEALED_SIZE, [member for member in summands if member != own])
        reader.end()
        return cls(shape, summands, sealed)


@dataclass(frozen=True)
class MaskedAnswer:
    """A silo's masked vector with a tag for each other silo, and its deal of the next sum, which others only send."""

    deal: Deal
    masked: bytes = b""
    tags: Mapping[int, bytes] | None = None

    def encode(self) -> bytes:
        """The bytes after the header, without the signature."""
        return self.masked + b"".join((self.tags or {}).values()) + self.deal.encode()

    @classmethod
    def decode(cls, data: bytes, others: list[int], shape: Shape | None) -> Self:
        """The inverse of ``encode``: the answer of a summand where there is a shape, otherwise a deal alone."""
        reader = Reader(data)
        masked = reader.take(packed_size(shape.length, shape.bits)) if shape else b""
        tags = reader.parts(TAG_SIZE, others) if shape else None
        deal = Deal.read(reader, others)
        reader.take(SIGNATURE_SIZE)
        reader.end()
        return cls(deal, masked, tags)


@dataclass(frozen=True)
class Open:
    """The request to open a sum: tags of the survivors, and signatures of their list where a summand is missing."""

    survivors: tuple[int, ...]
    tags: Mapping[int, bytes]
    signatures: Mapping[int, bytes]

    def encode(self) -> bytes:
        """The bytes after the header."""
        signatures = b"".join(self.signatures.values())
        return listed(self.survivors) + b"".join(self.tags.values()) + listed(self.signatures) + signatures

    @classmethod
    def decode(cls, data: bytes, own: int, silos: int) -> Self:
        """The request as the silo at place ``own`` of a roster of ``silos`` gets it."""
        reader = Reader(data)
        survivors = reader.members(silos)
        tags = reader.parts(TAG_SIZE, [member for member in survivors if member != own])
        signatures = reader.parts(SIGNATURE_SIZE, reader.members(silos))
        reader.end()
        return cls(survivors, tags, signatures)


def encode_roster(members: Iterable[Member], names: tuple[str, ...]) -> bytes:
    """A roster: each silo's place among all of the study's, its key and its signature."""
    entries = [bytes([names.index(member.name)]) + member.public + member.signature for member in members]
    return bytes([len(entries)]) + b"".join(entries)


def decode_roster(data: bytes, names: tuple[str, ...]) -> list[Member]:
    """The inverse of ``encode_roster``. Raises SumRefused: ROSTER for unknown silos, or others than in their order."""
    reader = Reader(data)
    members, last = [], -1
    for _ in range(reader.take(1)[0]):
        place = reader.take(1)[0]
        if place >= len(names) or place <= last:
            raise SumRefused(Fault.ROSTER)
        members.append(Member(names[place], reader.take(KEY_SIZE), reader.take(SIGNATURE_SIZE)))
        last = place
    reader.end()
    return members


def roster_digest(terms: bytes, session: bytes, members: Iterable[Member]) -> bytes:
    """Digest of a roster in keys and signatures: it covers the terms, the session and every silo's key."""
    return hashed(b"roster", terms, session, *(hashed(m.name.encode(), m.public) for m in members))


def sum_digest(roster: bytes, number: int, shape: Shape, summands: tuple[int, ...]) -> bytes:
    """Digest of a sum in masks, tags and signatures: silos that were asked for different sums share nothing."""
    return hashed(b"sum", roster, number.to_bytes(4, "big"), shape.encode(), listed(summands))


def introduction(terms: bytes, session: bytes, name: str, public: bytes) -> bytes:
    """The text that a silo signs to introduce its key of a session."""
    return hashed(b"introduction", terms, session, public, name.encode())


def survivor_list(roster: bytes, number: int, sum_name: bytes, survivors: tuple[int, ...]) -> bytes:
    """The text that a silo signs to agree to a list of survivors."""
    return hashed(b"survivors", roster, number.to_bytes(4, "big"), sum_name, listed(survivors))


def signed(key: Ed25519PrivateKey, roster: bytes, body: bytes) -> bytes:
    """A silo's message with its signature."""
    return body + key.sign(hashed(b"message", roster, body))


def check_signed(key: bytes, roster: bytes, data: bytes) -> None:
    """Refuse a message that does not end with the signature of this key. Raises SumRefused (SIGNATURE)."""
    body, signature = data[:-SIGNATURE_SIZE], data[-SIGNATURE_SIZE:]
    check_signature(key, signature, hashed(b"message", roster, body))


def check_signature(key: bytes, signature: bytes, content: bytes) -> None:
    """Refuse a signature that is not this key's. Raises SumRefused (SIGNATURE)."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, content)
    except (InvalidSignature, ValueError):
        raise SumRefused(Fault.SIGNATURE) from None
