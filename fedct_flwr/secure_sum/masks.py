"""Masks on a summand, and the silo's deal for one sum: shares of the seeds that masks grow from.

A mask is a stream of ChaCha20, added to a vector modulo a power of two. Seeds may be opened if a silo survives, or if
it does not: Shamir's secret sharing (1979) modulo the prime 2^130 - 5, of which any ``quorum`` shares tell the secret
and fewer tell nothing. Flower's own takes a fifth of a second for one secret among 100 silos, and a sum of 100 silos
deals 200 secrets.

Bonawitz et al. 2017 share the long-lived key from which pairwise masks grow: a silo that drops out late would give away
its vectors of earlier sums. Here nothing that outlives a sum is shared: the coordinator keeps the sum's pairwise seeds,
encrypted under a fresh key, of which shares are dealt.
"""

import secrets
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand
from numpy.typing import NDArray

from fedct_flwr.secure_sum.messages import TAG_SIZE, Deal
from fedct_flwr.secure_sum.terms import PREFIX, SECRET_SIZE, SHARE_SIZE, Fault, SumRefused, packed_size
from fedct_flwr.types import Refused
from fedct_flwr.wire.kinds import pack_codes, unpack_codes

_NONCE: Final = bytes(16)  # each key serves one stream
_WORDS: Final = (np.uint8, np.uint16, np.uint32, np.uint64)


def derive(secret: bytes, label: bytes, *context: bytes, size: int = 32) -> bytes:
    """A key for one purpose from a secret of 16 bytes or more: HKDF-Expand with SHA-256 (RFC 5869)."""
    return HKDFExpand(SHA256(), size, PREFIX + label + b"\0" + b"".join(context)).derive(secret)


def pair_root(private: X25519PrivateKey, public: bytes, session: bytes) -> bytes:
    """The secret of two silos in one session: X25519, then HKDF with SHA-256. Raises SumRefused (ROSTER)."""
    try:
        shared = private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:  # a key of small order, with which the secret would be known
        raise SumRefused(Fault.ROSTER) from None
    return HKDF(SHA256(), 32, salt=session, info=PREFIX + b"pair").derive(shared)


class Masked:
    """A vector under masks. Adding and subtracting the same mask leaves it as it was."""

    def __init__(self, vector: NDArray[np.uint64], bits: int) -> None:
        self._bits = bits
        self._total: NDArray[Any] = vector.astype(_word(bits))
        self._zeros = bytes(self._total.nbytes)
        self._stream = bytearray(self._total.nbytes)
        self._mask = np.frombuffer(self._stream, dtype=self._total.dtype.newbyteorder("<"))

    def add(self, key: bytes) -> None:
        """Add the mask that grows from a key of 32 bytes."""
        self._grow(key)
        self._total += self._mask

    def subtract(self, key: bytes) -> None:
        """Take off the mask that grows from a key of 32 bytes."""
        self._grow(key)
        self._total -= self._mask

    def absorb(self, packed: bytes) -> None:
        """Add another masked vector, as it travels. Raises SumRefused (MALFORMED)."""
        self._total += unpack(packed, len(self._total), self._bits)

    @property
    def residues(self) -> NDArray[np.uint64]:
        """The numbers modulo ``2**bits``, ``(length,)``."""
        return self._total.astype(np.uint64) & np.uint64((1 << self._bits) - 1)

    @property
    def packed(self) -> bytes:
        """The numbers modulo ``2**bits``, ``bits`` bits each, as they travel."""
        word = self._total.dtype
        if 8 * word.itemsize == self._bits:
            return self._total.astype(word.newbyteorder("<")).tobytes()
        return pack_codes(self.residues, self._bits)

    def _grow(self, key: bytes) -> None:
        Cipher(algorithms.ChaCha20(key, _NONCE), mode=None).encryptor().update_into(self._zeros, self._stream)


def unpack(packed: bytes, length: int, bits: int) -> NDArray[Any]:
    """The numbers ``(length,)`` of a masked vector. Raises SumRefused (MALFORMED) for any other encoding."""
    word = np.dtype(_word(bits))
    if len(packed) != packed_size(length, bits):
        raise SumRefused(Fault.MALFORMED)
    if 8 * word.itemsize == bits:
        return np.frombuffer(packed, dtype=word.newbyteorder("<"))
    try:
        return unpack_codes(packed, length, bits, np.uint64).astype(word)
    except Refused:
        raise SumRefused(Fault.MALFORMED) from None


def _word(bits: int) -> type[np.unsignedinteger[Any]]:
    """The smallest unsigned integers that hold ``bits`` bits: their arithmetic wraps at a multiple of ``2**bits``."""
    return next(word for word in _WORDS if 8 * np.dtype(word).itemsize >= bits)


PRIME: Final = (1 << 130) - 5


def split(secret: bytes, quorum: int, members: int) -> list[bytes]:
    """Shares of a secret (16 bytes) for ``members`` silos, of which any ``quorum`` restore it: 17 bytes each.

    >>> shares = split(bytes(range(16)), quorum=2, members=3)
    >>> restore({0: shares[0], 2: shares[2]}) == bytes(range(16))
    True
    """
    constant = int.from_bytes(secret, "big")
    coefficients = [secrets.randbelow(PRIME) for _ in range(quorum - 1)]
    return [_value([*coefficients, constant], place + 1).to_bytes(SHARE_SIZE, "big") for place in range(members)]


def restore(shares: Mapping[int, bytes]) -> bytes:
    """The secret from a quorum's shares, by place. Raises SumRefused: MALFORMED, SPOILED if it is none."""
    values = [as_number(share) for share in shares.values()]
    weights = _weights_at_zero(tuple(place + 1 for place in shares), PRIME)
    secret = sum(weight * value for weight, value in zip(weights, values, strict=True)) % PRIME
    if secret >> (8 * SECRET_SIZE):
        raise SumRefused(Fault.SPOILED)
    return secret.to_bytes(SECRET_SIZE, "big")


def as_number(share: bytes) -> int:
    """A share as a number below the prime. Raises SumRefused (MALFORMED)."""
    value = int.from_bytes(share, "big")
    if len(share) != SHARE_SIZE or value >= PRIME:
        raise SumRefused(Fault.MALFORMED)
    return value


def _value(coefficients: list[int], at: int, prime: int = PRIME) -> int:
    # One reduction at the end: places are small, so the number grows by a byte a step at most.
    value = 0
    for coefficient in coefficients:
        value = value * at + coefficient
    return value % prime


@lru_cache(maxsize=8)
def _weights_at_zero(places: tuple[int, ...], prime: int) -> tuple[int, ...]:
    weights = []
    for place in places:
        above = below = 1
        for other in places:
            if other != place:
                above = above * other % prime
                below = below * (other - place) % prime
        weights.append(above * pow(below, -1, prime) % prime)
    return tuple(weights)


_SEALING_NONCE: Final = bytes(12)  # each key encrypts one message


class Seeds(NamedTuple):
    """A silo's own part of its deal: the seed of its self-mask, and its own share of both secrets."""

    number: int
    self_mask: bytes
    own_shares: tuple[bytes, bytes]


def deal(roots: Mapping[int, bytes], own: int, number: int, quorum: int) -> tuple[Seeds, Deal]:
    """Fresh secrets for the sum ``number``, and what is dealt of them. ``roots``: the secret with each other silo."""
    self_mask, wrapping = secrets.token_bytes(SECRET_SIZE), secrets.token_bytes(SECRET_SIZE)
    members = len(roots) + 1
    shares = list(zip(split(self_mask, quorum, members), split(wrapping, quorum, members), strict=True))
    pair_seeds = b"".join(pair_seed(root, number) for root in roots.values())
    wrapped = _cipher(wrapping, b"wrap", bytes([own])).encrypt(_SEALING_NONCE, pair_seeds, None)
    sealed = {
        other: _sealing(root, own, other, number).encrypt(_SEALING_NONCE, b"".join(shares[other]), None)
        for other, root in roots.items()
    }
    return Seeds(number, self_mask, shares[own]), Deal(seed_check(self_mask), wrapped, sealed)


def opened_shares(root: bytes, dealer: int, own: int, number: int, sealed: bytes) -> tuple[bytes, bytes]:
    """The two shares that ``dealer`` dealt: of its self-mask's seed and its wrapping key. Raises SumRefused (SHARE)."""
    try:
        opened = _sealing(root, dealer, own, number).decrypt(_SEALING_NONCE, sealed, None)
        shares = opened[:SHARE_SIZE], opened[SHARE_SIZE:]
        for share in shares:
            as_number(share)
    except (InvalidTag, SumRefused):
        raise SumRefused(Fault.SHARE, dealer) from None
    return shares


def unwrapped(wrapping: bytes, dealer: int, others: list[int], wrapped: bytes) -> dict[int, bytes]:
    """The seeds of the masks between a dealer and the ``others``, for the coordinator. Raises SumRefused (SPOILED)."""
    try:
        seeds = _cipher(wrapping, b"wrap", bytes([dealer])).decrypt(_SEALING_NONCE, wrapped, None)
    except InvalidTag:
        raise SumRefused(Fault.SPOILED, dealer) from None
    return {other: seeds[SECRET_SIZE * at : SECRET_SIZE * (at + 1)] for at, other in enumerate(others)}


def pair_seed(root: bytes, number: int) -> bytes:
    """The seed of the mask that two silos share in one sum."""
    return derive(root, b"pair seed", number.to_bytes(4, "big"), size=SECRET_SIZE)


def seed_check(seed: bytes) -> bytes:
    """A check value for a restored seed, which reveals nothing else about it."""
    return derive(seed, b"check", size=SECRET_SIZE)


def tag(root: bytes, sender: int, receiver: int, sum_name: bytes) -> bytes:
    """Tag from ``sender`` to ``receiver``: I have added to this very sum."""
    return derive(root, b"tag", bytes([sender, receiver]), sum_name, size=TAG_SIZE)


def _sealing(root: bytes, sender: int, receiver: int, number: int) -> ChaCha20Poly1305:
    return _cipher(root, b"seal", bytes([sender, receiver]), number.to_bytes(4, "big"))


def _cipher(secret: bytes, *context: bytes) -> ChaCha20Poly1305:
    return ChaCha20Poly1305(derive(secret, *context))
