"""Whether two samples of numbers have one distribution (Kolmogorov, Smirnov)."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

_BY_CHANCE: Final = 1.63
"""Of the distance, times the root of the numbers: one in a hundred by chance."""

_Floats = NDArray[np.float64]


def some(values: _Floats, most: int) -> _Floats:
    """At most ``most`` of the numbers, evenly spaced in their table, in order."""
    return np.sort(values[:: -(-len(values) // most)])


def root(one: _Floats, other: _Floats) -> float:
    """The root of how many numbers two samples together stand for."""
    return float(np.sqrt(len(one) * len(other) / (len(one) + len(other))))


def distance(one: _Floats, other: _Floats) -> float:
    """The largest difference between two distribution functions."""
    both = np.concatenate([one, other])
    parts = [np.searchsorted(each, both, side="right") / len(each) for each in (one, other)]
    return float(np.abs(parts[0] - parts[1]).max())


def is_by_chance(apart: float, one: _Floats, other: _Floats) -> bool:
    """Whether samples of one distribution may well be so far ``apart``."""
    return apart * root(one, other) < _BY_CHANCE
