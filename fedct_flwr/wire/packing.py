"""Labels and vote counts to few bytes and back.

Labels are codes of equal width, least significant bit first. Vote counts: each row is the number of one way to give its
votes to the classes, numbered from 0 in the order in which earlier classes have most of the votes: (2, 0), (1, 1),
(0, 2). With one vote the number is the class, so counts cost what labels cost; with two votes less than two labels
each.
"""

from functools import lru_cache
from math import comb
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, HardLabels, Refusal, Refused, VoteCounts


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


MAX_VOTES: Final = 1000
"""On one example, of one silo."""
_MAX_BITS: Final = 62


def num_ways(num_classes: int, votes: int) -> int:
    """Number of ways to give ``votes`` to the classes.

    >>> [num_ways(c, votes=2) for c in (2, 3, 10)]
    [3, 6, 55]
    """
    return comb(num_classes + votes - 1, votes)


def can_count(num_classes: int, votes: int) -> bool:
    """Whether rows of ``votes`` can be sent: 1 to ``MAX_VOTES``, in codes of at most 62 bits."""
    return 1 <= votes <= MAX_VOTES and num_ways(num_classes, votes) <= 1 << _MAX_BITS


def pack_counts(counts: VoteCounts) -> bytes:
    r"""Pack counts ``(n, classes)``, n > 0, all of whose rows sum to the same number of votes.

    Raises Refused: UNKNOWN_CLASS for a row with another sum, or with less than no vote; QUERY unless ``can_count``.

    >>> pack_counts(np.int32([[2, 0], [0, 2], [1, 1]]))
    b'\x18'
    """
    num_classes, votes = counts.shape[1], int(counts[0].sum())
    if counts.min() < 0 or (counts.sum(axis=1) != votes).any():
        raise Refused(Refusal.UNKNOWN_CLASS)
    earlier = _earlier(num_classes, votes)
    codes = np.zeros(len(counts), dtype=np.uint64)
    left = np.full(len(counts), votes)
    for column, ways in zip(counts.T, earlier, strict=False):
        left -= column
        codes += ways[left]
    return pack_codes(codes, _width(num_classes, votes))


def unpack_counts(packed: bytes, count: int, num_classes: int, votes: int) -> VoteCounts:
    """Unpack ``count`` rows; the exact inverse of ``pack_counts``, which is the only encoding accepted.

    Raises Refused: LENGTH, UNKNOWN_CLASS for a wrong code, MALFORMED for unused bits, QUERY.
    """
    earlier = _earlier(num_classes, votes)
    codes = unpack_codes(packed, count, _width(num_classes, votes), np.uint64)
    if count and codes.max() >= num_ways(num_classes, votes):
        raise Refused(Refusal.UNKNOWN_CLASS)
    counts = np.empty((count, num_classes), dtype=np.int32)
    left = np.full(count, votes)
    for column, ways in zip(counts.T, earlier, strict=False):
        # The most votes on later classes that there are no more ways before than the code says.
        later = np.searchsorted(ways, codes, side="right") - 1
        codes -= ways[later]
        column[:] = left - later
        left = later
    counts[:, -1] = left
    return counts


def _width(num_classes: int, votes: int) -> int:
    return max(1, (num_ways(num_classes, votes) - 1).bit_length())


@lru_cache(maxsize=64)
def _earlier(num_classes: int, votes: int) -> list[NDArray[np.uint64]]:
    """For each class but the last, by how many votes later classes have: ways in which they have fewer.

    ``later`` votes on m classes: there are C(later - 1 + m, m) ways to give fewer than that to them, the rest going to
    the class itself. Raises Refused (QUERY) where that does not fit.
    """
    if not can_count(num_classes, votes):
        raise Refused(Refusal.QUERY)
    return [
        np.array([comb(later - 1 + m, m) if later else 0 for later in range(votes + 1)], dtype=np.uint64)
        for m in range(num_classes - 1, 0, -1)
    ]


LONGEST_CONDITION: Final = 500
"""Bytes of a condition, or of a column's name, in a question for counts."""
MAX_VALUE: Final = 1e30
"""Larger values are refused, so that no mean is too large for single precision."""
