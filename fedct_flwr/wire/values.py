"""Values of a quantity to bytes and back: single precision, four bytes for each, the lowest first."""

from typing import Final

import numpy as np

from fedct_flwr.types import SoftVotes
from fedct_flwr.wire.refusal import Refusal, Refused

MAX_VALUE: Final = 1e30
"""Larger values are refused, so that no mean is too large for single precision."""

_WIRE: Final = np.dtype("<f4")


def values_size(count: int) -> int:
    """Bytes of ``count`` packed values."""
    return count * _WIRE.itemsize


def pack_values(values: SoftVotes) -> bytes:
    r"""Pack values ``(n, 1)``. Raises Refused (VALUES) for what is no number in -1e30..1e30.

    >>> pack_values(np.float32([[1.5], [-0.0]]))
    b'\x00\x00\xc0?\x00\x00\x00\x00'
    """
    _check(values)
    # One zero: the other one would be another encoding.
    return (values.astype(_WIRE) + _WIRE.type(0)).astype(_WIRE, copy=False).tobytes()


def unpack_values(packed: bytes, count: int) -> SoftVotes:
    """The exact inverse of ``pack_values``, ``(count, 1)``. Raises Refused: LENGTH, VALUES."""
    if len(packed) != values_size(count):
        raise Refused(Refusal.LENGTH)
    values = np.frombuffer(packed, dtype=_WIRE).astype(np.float32).reshape(count, 1)
    _check(values)
    return values


def _check(values: SoftVotes) -> None:
    # Asked for what is right, not for what is wrong: NaN is neither.
    if not (np.abs(values) <= MAX_VALUE).all():
        raise Refused(Refusal.VALUES)
