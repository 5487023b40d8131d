"""Terms of a secure sum for all silos, and the faults for which a step of it is refused.

Terms: members, least number of summands, colluders allowed, form of the summands; also those of a simulation.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from fedct_flwr.types import FEWEST_SILOS, ConfigError, FedctError, Numbered, Refusal, Refused, SiloName, generator
from fedct_flwr.wire.content import NO_TERMS, Instruction, Terms

if TYPE_CHECKING:
    from fedct_flwr.wire.sums import RecordSum, Summed


class Fault(Numbered):
    """Faults of a message or a sum, with one sentence each and a remedy. Only the number travels."""

    MALFORMED = 1, "the message is not one of this protocol's, or has another length: update the older side"
    TERMS = 2, "the message belongs to another run or to other terms: use the study folder that everybody approved"
    SESSION = 3, "the message belongs to another session of this run: set the session up again"
    SIGNATURE = 4, "a signature does not fit the silo's key in the study folder: check the keys with the coordinator"
    ROSTER = 5, "the roster has an unknown silo, one silo twice, or lacks this one: check it against the study folder"
    TOO_FEW = 6, "fewer silos take part than the terms ask for: wait for more silos and set up another sum"
    NUMBER = 7, "the sum is over, or was already answered with other contents: begin the next sum"
    SHAPE = 8, "the sum is of another length, range or subject than this silo adds: compare both sides' settings"
    VALUES = 9, "a number of this silo's vector lies outside the range of the sum: nothing was sent"
    OVERFLOW = 10, "the silos' numbers together can exceed the sum's bits: take more bits"
    REPEATED = 11, "the silo has already added to a sum on this subject: two sums of one subject can open a summand"
    SHARE = 12, "the shares that a silo dealt cannot be opened: leave this silo out"
    NOT_DEALT = 13, "the silo has not dealt shares for this sum: let it deal first"
    LISTS = 14, "there are two lists of survivors, or one that names strangers: nothing is opened"
    UNCONFIRMED = 15, "too few silos have signed the list of survivors, or one saw another sum: nothing is opened"
    SPOILED = 16, "the shares or numbers of the sum do not fit, so a silo sent garbage: discard this sum"
    UNCHARGED = 17, "the silo did not charge its ledger for this sum: nothing was sent"

    @classmethod
    def from_number(cls, number: int) -> Self:
        """The fault with this number on the wire. Raises SumRefused for an unknown number."""
        if (found := cls.find(number)) is None:
            raise SumRefused(Fault.MALFORMED)
        return found


class SumRefused(FedctError):
    """A step was refused; ``fault`` says why, ``member`` is the place on the roster of the silo at fault, if known."""

    def __init__(self, fault: Fault, member: int | None = None) -> None:
        super().__init__(fault.sentence)
        self.fault = fault
        self.member = member


def sum_modulo(vectors: Sequence[NDArray[np.uint64]], bits: int) -> NDArray[np.uint64]:
    """The plain sum that a secure one equals, bit for bit."""
    total = np.zeros_like(vectors[0])
    for vector in vectors:
        total += vector  # wraps modulo 2^64, of which 2^bits is a divisor
    return total & np.uint64((1 << bits) - 1)


MOST_SILOS: Final = 100
MOST_NUMBERS: Final = 10_000_000
MOST_BITS: Final = 64
KEY_SIZE: Final = 32
SECRET_SIZE: Final = 16
SHARE_SIZE: Final = 17
SUBJECT_SIZE: Final = 32


@dataclass(frozen=True)
class SumTerms:
    """The terms of a run's sums: each silo takes them from its study folder, never from the coordinator.

    ``keys`` holds each silo's Ed25519 public key (32 bytes). No sum of fewer than ``min_summands`` silos is opened, and
    the sum is protected against a coordinator together with ``may_collude`` silos. Raises ConfigError for terms under
    which a sum would protect no one.
    """

    run: str
    keys: Mapping[SiloName, bytes]
    min_summands: int = FEWEST_SILOS
    may_collude: int = 1

    def __post_init__(self) -> None:
        silos = len(self.keys)
        if not FEWEST_SILOS <= silos <= MOST_SILOS:
            raise ConfigError(f"secure sums take {FEWEST_SILOS} to {MOST_SILOS} silos, the study has {silos}")
        if any(len(key) != KEY_SIZE for key in self.keys.values()):
            raise ConfigError(f"a silo's key for secure sums is not an Ed25519 public key of {KEY_SIZE} bytes")
        if len(set(self.keys.values())) < silos:
            raise ConfigError("two silos have the same key for secure sums: let each silo make its own")
        if self.may_collude < 0:
            raise ConfigError(f"may-collude is {self.may_collude}: give 0 or more silos")
        if not FEWEST_SILOS <= self.min_summands <= silos:
            raise ConfigError(f"min-summands is {self.min_summands}: give {FEWEST_SILOS} to {silos} silos")
        if self.min_summands < self.may_collude + 2:
            raise ConfigError(
                f"min-summands ({self.min_summands}) is below may-collude + 2 ({self.may_collude + 2}), so colluding "
                "silos could subtract their numbers and see a single silo's: set may-collude to "
                f"{self.min_summands - 2} or less, or raise min-summands"
            )

    @cached_property
    def names(self) -> tuple[SiloName, ...]:
        """All silos of the study, sorted."""
        return tuple(sorted(self.keys))

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the terms: part of everything that silos sign."""
        fields = [self.run, str(self.min_summands), str(self.may_collude)]
        fields += [part for name in self.names for part in (name, self.keys[name].hex())]
        parts = (part.encode() for part in fields)
        return hashed(b"terms", *(len(part).to_bytes(4, "big") + part for part in parts))

    def quorum(self, silos: int) -> int:
        """How many of a roster's ``silos`` must help to open a sum.

        The most that leaves room for a third of them to drop out; and enough that two disjoint groups of honest silos
        can never both reach it with the help of those that collude (Bonawitz et al. 2017, §6.2): twice the quorum
        exceeds ``silos + may_collude``.

        >>> keys = {name: bytes(31) + name.encode() for name in "abcdef"}
        >>> terms = SumTerms("run", keys)
        >>> [terms.quorum(silos) for silos in (3, 4, 5, 6, 100)]
        [3, 3, 4, 4, 67]
        """
        return max(silos - silos // 3, (silos + self.may_collude) // 2 + 1)

    def fewest(self, silos: int) -> int:
        """How many of a roster's ``silos`` must be in a sum for it to be opened."""
        return max(self.quorum(silos), self.min_summands)

    def neighbours(self, member: int, summands: tuple[int, ...], silos: int) -> list[int]:
        """Which summands share a mask with ``member``, of a roster of ``silos``.

        The summands stand in a circle, each with enough neighbours on both sides that no group of silos that drop out
        or collude separates the others: a circulant graph of degree d needs d removals (Harary 1962). Few silos share a
        mask each with each. Bell et al. 2020 draw such a graph at random.
        """
        dropouts = len(summands) - self.fewest(silos)
        reach = -(-(dropouts + self.may_collude + 1) // 2)
        place, count = summands.index(member), len(summands)
        if 2 * reach >= count - 1:
            return [other for other in summands if other != member]
        steps = [step for step in range(-reach, reach + 1) if step]
        return [summands[(place + step) % count] for step in steps]


@dataclass(frozen=True)
class Shape:
    """Form of a sum's summands: vectors of ``length`` integers below ``2**bits``.

    ``largest``: the largest number that a silo may add, where the total must not wrap around; None for numbers modulo
    ``2**bits``. ``subject``: 32 bytes that name what is added; a silo adds to one sum of each subject.
    """

    length: int
    bits: int
    subject: bytes
    largest: int | None = None

    def __post_init__(self) -> None:
        if not (0 < self.length <= MOST_NUMBERS and 0 < self.bits <= MOST_BITS and len(self.subject) == SUBJECT_SIZE):
            raise SumRefused(Fault.SHAPE)
        if self.largest is not None and not 0 < self.largest < 1 << self.bits:
            raise SumRefused(Fault.SHAPE)

    def check_room(self, silos: int) -> None:
        """Refuse a sum that ``silos`` silos together can overflow. Raises SumRefused (OVERFLOW)."""
        if self.largest is not None and self.largest * silos >= 1 << self.bits:
            raise SumRefused(Fault.OVERFLOW)

    def encode(self) -> bytes:
        """The shape to the byte."""
        return b"".join(
            (
                self.length.to_bytes(4, "big"),
                self.bits.to_bytes(1, "big"),
                self.subject,
                (self.largest or 0).to_bytes(8, "big"),
            )
        )

    @classmethod
    def decode(cls, data: bytes) -> "Shape":
        """The inverse of ``encode``. Raises SumRefused."""
        largest = int.from_bytes(data[37:45], "big")
        return cls(int.from_bytes(data[:4], "big"), data[4], data[5:37], largest or None)


SHAPE_SIZE: Final = 45
BITS_OF_VOTES: Final = 8
"""Bits of each number, enough for a sum of 100 silos."""
BITS: Final = 32
"""Bits of each number with noise: signed, in two's complement. No permitted noise comes near 2^31."""
_BITS_OF_RECORDS: Final = 64
"""Bits of each number of records with noise."""


def shape_of_votes(kind: "Summed", instruction: Instruction, terms: Terms, subject: bytes) -> Shape:
    """Shape of the sum that answers an instruction; ``subject`` (32 bytes) is the digest of the question."""
    numbers = instruction.query.size * terms.width
    return Shape(numbers, BITS, subject) if kind.noisy else Shape(numbers, BITS_OF_VOTES, subject, 1)


def shape_of_records(kind: "RecordSum", instruction: Instruction, subject: bytes) -> Shape:
    """Shape of the opened sum; ``subject``: 32 bytes. Raises Refused (MALFORMED) where there is nothing to add."""
    if not instruction.asks_of_records:
        raise Refused(Refusal.MALFORMED)
    return Shape(kind.cost(instruction, NO_TERMS).labels, _BITS_OF_RECORDS, subject)


def packed_size(length: int, bits: int) -> int:
    """Bytes of a vector as it travels."""
    return -(-length * bits // 8)


PREFIX: Final = b"fedct secure sum 1 "


def hashed(label: bytes, *parts: bytes) -> bytes:
    """SHA-256 of parts whose lengths the label fixes, or that carry them."""
    return hashlib.sha256(PREFIX + label + b"\0" + b"".join(parts)).digest()


def listed(members: Iterable[int]) -> bytes:
    """Places on a roster, in order, with their number first: one byte each."""
    ordered = sorted(members)
    return bytes([len(ordered), *ordered])


class Simulation(Protocol):
    """The settings that sums depend on."""

    @property
    def seed(self) -> int:
        """The run's seed, from which keys follow."""

    @property
    def study(self) -> str:
        """The study's name."""

    @property
    def method(self) -> Any:
        """The algorithm, with its settings of sums."""


def simulated_key(config: Simulation, silo: SiloName) -> Ed25519PrivateKey:
    """A simulated silo's key, which follows from the seed like all else: a simulation protects no one."""
    return Ed25519PrivateKey.from_private_bytes(generator(config.seed, "key for sums", silo).bytes(32))


def simulated_terms(config: Simulation, silos: Sequence[SiloName]) -> SumTerms:
    """The terms of a simulation's secure sums, with keys derived from its seed.

    Raises ConfigError for too few or too many silos, and for settings that protect none.
    """
    keys = {silo: simulated_key(config, silo).public_key().public_bytes_raw() for silo in silos}
    return SumTerms(config.study, keys, config.method.fewest_summands(len(silos)), config.method.may_collude)
