"""Masks: streams of ChaCha20 added to a vector modulo a power of two, and the keys that they grow from."""

from typing import Any, Final

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand
from numpy.typing import NDArray

from fedct_flwr.secure_sum.faults import Fault, SumRefused
from fedct_flwr.types import Refused
from fedct_flwr.wire.packing import pack_codes, unpack_codes

_PREFIX: Final = b"fedct secure sum 1 "
_NONCE: Final = bytes(16)  # each key serves one stream
_WORDS: Final = (np.uint8, np.uint16, np.uint32, np.uint64)


def derive(secret: bytes, label: bytes, *context: bytes, size: int = 32) -> bytes:
    """A key for one purpose from a secret of 16 bytes or more: HKDF-Expand with SHA-256 (RFC 5869)."""
    return HKDFExpand(SHA256(), size, _PREFIX + label + b"\0" + b"".join(context)).derive(secret)


def pair_root(private: X25519PrivateKey, public: bytes, session: bytes) -> bytes:
    """The secret of two silos in one session: X25519, then HKDF with SHA-256. Raises SumRefused (ROSTER)."""
    try:
        shared = private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:  # a key of small order, with which the secret would be known
        raise SumRefused(Fault.ROSTER) from None
    return HKDF(SHA256(), 32, salt=session, info=_PREFIX + b"pair").derive(shared)


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


def packed_size(length: int, bits: int) -> int:
    """Bytes of a vector as it travels."""
    return -(-length * bits // 8)


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
