"""Numbers to few bytes and back.

Probabilities: whole 255ths that sum to one, a byte for each class but the last. Values of a quantity: two bytes on the
study's grid, or single precision where there is none.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.types import SoftVotes
from fedct_flwr.wire.refusal import Refusal, Refused

UNITS: Final = 255
"""What the codes of an example sum to."""
_TOLERANCE: Final = 1e-3


def quantized(probabilities: SoftVotes) -> NDArray[np.uint8]:
    """Whole units ``(n, classes)`` that sum to ``UNITS``, by largest remainder; earlier classes first where those tie.

    Exact on what ``unpack_probabilities`` gives. Raises Refused (PROBABILITIES) for rows that are negative, not finite,
    or do not sum to 1.

    >>> quantized(np.float32([[0.5, 0.5], [1, 0]])).tolist()
    [[128, 127], [255, 0]]
    """
    exact = probabilities.astype(np.float64)
    sums = exact.sum(axis=1, keepdims=True)
    # Written so that NaN fails both.
    if not ((exact >= 0).all() and (np.abs(sums - 1) <= _TOLERANCE).all()):
        raise Refused(Refusal.PROBABILITIES)
    exact *= UNITS / sums
    codes = np.floor(exact)
    missing = UNITS - codes.sum(axis=1, keepdims=True)
    # What tells of which class the float was rounded must not decide: ties are ties after rounding.
    remainders = np.round(exact - codes, 6)
    order = np.argsort(-remainders, axis=1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(exact.shape[1])[np.newaxis], axis=1)
    whole: NDArray[np.uint8] = (codes + (ranks < missing)).astype(np.uint8)
    return whole


def probabilities_size(count: int, num_classes: int) -> int:
    """Bytes of ``count`` packed rows."""
    return count * (num_classes - 1)


def pack_probabilities(probabilities: SoftVotes) -> bytes:
    r"""Pack rows ``(n, classes)`` that sum to 1. Raises Refused (PROBABILITIES), see ``quantized``.

    >>> pack_probabilities(np.float32([[0.2, 0.8], [0, 1]]))
    b'3\x00'
    """
    return quantized(probabilities)[:, :-1].tobytes()


def unpack_probabilities(packed: bytes, count: int, num_classes: int) -> SoftVotes:
    """Unpack ``count`` rows; the exact inverse of ``pack_probabilities``, which is the only encoding accepted.

    Raises Refused: LENGTH for another number of bytes, PROBABILITIES for a row whose units sum to more than ``UNITS``.
    """
    if len(packed) != probabilities_size(count, num_classes):
        raise Refused(Refusal.LENGTH)
    codes = np.frombuffer(packed, dtype=np.uint8).reshape(count, num_classes - 1)
    last = UNITS - codes.sum(axis=1, dtype=np.int64)
    if last.min(initial=0) < 0:
        raise Refused(Refusal.PROBABILITIES)
    return np.column_stack([codes, last]).astype(np.float32) / np.float32(UNITS)


MAX_VALUE: Final = 1e30
"""Larger values are refused, so that no mean is too large for single precision."""

_WIRE: Final = np.dtype("<f4")


MOST_STEPS: Final = 1 << 16
"""Values that a grid may have: each is two bytes."""


class Grid(NamedTuple):
    """The values that a quantity may have: from ``low`` to ``high``, each a ``step`` after the one before."""

    low: float
    high: float
    step: float

    @property
    def last(self) -> int:
        """The number of the highest value; the lowest is number 0."""
        return round((self.high - self.low) / self.step)

    @property
    def said(self) -> str:
        """In words."""
        return f"from {self.low:g} to {self.high:g} in steps of {self.step:g}"

    def codes(self, values: SoftVotes) -> NDArray[np.uint16]:
        """Numbers of the nearest values of the grid; the ends stand for what lies beyond. Raises Refused for NaN."""
        _check(values)
        exact = (np.clip(values.astype(np.float64), self.low, self.high) - self.low) / self.step
        codes: NDArray[np.uint16] = np.rint(exact).astype("<u2")
        return codes

    def values(self, codes: NDArray[np.integer]) -> SoftVotes:
        """The values of these numbers. Raises Refused (VALUES) for a number above ``last``."""
        if codes.max(initial=0) > self.last:
            raise Refused(Refusal.VALUES)
        return (self.low + codes.astype(np.float64) * self.step).astype(np.float32)


def values_size(count: int, grid: Grid | None = None) -> int:
    """Bytes of ``count`` packed values."""
    return count * (2 if grid else _WIRE.itemsize)


def pack_values(values: SoftVotes, grid: Grid | None = None) -> bytes:
    r"""Pack values ``(n, 1)``, rounded to a ``grid``. Raises Refused (VALUES) for what is no number in -1e30..1e30.

    >>> pack_values(np.float32([[1.5], [-0.0]]))
    b'\x00\x00\xc0?\x00\x00\x00\x00'
    >>> pack_values(np.float32([[1.5], [-0.0]]), Grid(-1, 1, 0.5))
    b'\x04\x00\x02\x00'
    """
    if grid:
        return grid.codes(values).tobytes()
    _check(values)
    # One zero: the other one would be another encoding.
    return (values.astype(_WIRE) + _WIRE.type(0)).astype(_WIRE, copy=False).tobytes()


def unpack_values(packed: bytes, count: int, grid: Grid | None = None) -> SoftVotes:
    """The exact inverse of ``pack_values``, ``(count, 1)``. Raises Refused: LENGTH, VALUES."""
    if len(packed) != values_size(count, grid):
        raise Refused(Refusal.LENGTH)
    if grid:
        return grid.values(np.frombuffer(packed, dtype="<u2").reshape(count, 1))
    values = np.frombuffer(packed, dtype=_WIRE).astype(np.float32).reshape(count, 1)
    _check(values)
    return values


def _check(values: SoftVotes) -> None:
    # Asked for what is right, not for what is wrong: NaN is neither.
    if not (np.abs(values) <= MAX_VALUE).all():
        raise Refused(Refusal.VALUES)
