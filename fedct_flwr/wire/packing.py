"""Labels to few bytes and back: codes of equal width, least significant bit first."""

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, HardLabels
from fedct_flwr.wire.refusal import Refusal, Refused


def code_width(num_classes: int, abstentions: bool) -> int:
    """Bits for one label: ceil(log2(number of codes)), at least 1.

    >>> [code_width(c, abstentions=False) for c in (2, 3, 10, 100)]
    [1, 2, 4, 7]
    >>> [code_width(c, abstentions=True) for c in (2, 3, 10, 127)]
    [2, 2, 4, 7]
    """
    return max(1, (num_classes - 1 + abstentions).bit_length())


def packed_size(count: int, num_classes: int, abstentions: bool) -> int:
    """Bytes of ``count`` packed labels."""
    return -(-count * code_width(num_classes, abstentions) // 8)


def pack(labels: HardLabels, num_classes: int) -> tuple[bytes, bool]:
    r"""Pack labels ``(n,)``; also returns whether there are abstentions among them.

    Raises Refused (UNKNOWN_CLASS) for a label outside ``-1..num_classes-1``.

    >>> pack(np.int16([1, 0, 1, 1]), num_classes=2)
    (b'\r', False)
    """
    if len(labels) and not (labels.min() >= ABSTAIN and labels.max() < num_classes):
        raise Refused(Refusal.UNKNOWN_CLASS)
    abstentions = bool((labels == ABSTAIN).any())
    codes = labels.astype(np.uint16) + np.uint16(abstentions)
    return pack_codes(codes, code_width(num_classes, abstentions)), abstentions


def unpack(packed: bytes, count: int, num_classes: int, abstentions: bool) -> HardLabels:
    """Unpack ``count`` labels; the exact inverse of ``pack``, which is the only encoding accepted.

    Raises Refused: LENGTH, UNKNOWN_CLASS, MALFORMED for unused bits or an abstention flag that could carry more out.
    """
    codes = unpack_codes(packed, count, code_width(num_classes, abstentions), np.uint16)
    if count and codes.max() >= num_classes + abstentions:
        raise Refused(Refusal.UNKNOWN_CLASS)
    labels = codes.astype(LABEL_DTYPE) - LABEL_DTYPE(abstentions)
    if abstentions and not (labels == ABSTAIN).any():
        raise Refused(Refusal.MALFORMED)
    return labels


def pack_codes(codes: NDArray[np.unsignedinteger], width: int) -> bytes:
    """Codes ``(n,)`` below ``2**width``, in the fewest bytes that hold them."""
    bits = np.empty((len(codes), width), dtype=np.uint8)
    for place, column in enumerate(bits.T):
        column[:] = (codes >> codes.dtype.type(place)) & codes.dtype.type(1)
    return np.packbits(bits, bitorder="little").tobytes()


def unpack_codes(
    packed: bytes, count: int, width: int, dtype: type[np.uint16 | np.uint64]
) -> NDArray[np.unsignedinteger]:
    """The ``count`` codes of ``pack_codes``. Raises Refused: LENGTH, or MALFORMED for unused bits that are set."""
    if len(packed) != -(-count * width // 8):
        raise Refused(Refusal.LENGTH)
    bits = np.unpackbits(np.frombuffer(packed, dtype=np.uint8), bitorder="little")
    if bits[count * width :].any():
        raise Refused(Refusal.MALFORMED)
    codes = np.zeros(count, dtype=dtype)
    for place, column in enumerate(bits[: count * width].reshape(count, width).T):
        np.bitwise_or(codes, np.left_shift(column, place, dtype=dtype), out=codes)
    return codes
