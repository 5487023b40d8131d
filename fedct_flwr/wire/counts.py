"""Vote counts to few bytes and back: each row is the number of one way to give its votes to the classes.

Ways are numbered from 0 in the order in which earlier classes have most of the votes: (2, 0), (1, 1), (0, 2). With one
vote the number is the class, so counts cost what labels cost; with two votes less than two labels each.
"""

from functools import lru_cache
from math import comb
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.types import VoteCounts
from fedct_flwr.wire.packing import pack_codes, unpack_codes
from fedct_flwr.wire.refusal import Refusal, Refused

MAX_VOTES: Final = 1000
"""On one example, of one silo."""
_MAX_BITS: Final = 62


def num_ways(num_classes: int, votes: int) -> int:
    """In how many ways ``votes`` can be given to the classes.

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
