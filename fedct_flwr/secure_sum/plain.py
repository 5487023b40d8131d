"""The sum of integer vectors modulo 2^bits, in the open: what every secure sum is compared with."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def sum_modulo(vectors: Sequence[NDArray[np.uint64]], bits: int) -> NDArray[np.uint64]:
    """The plain sum that a secure one equals, bit for bit."""
    total = np.zeros_like(vectors[0])
    for vector in vectors:
        total += vector  # wraps modulo 2^64, of which 2^bits is a divisor
    return total & np.uint64((1 << bits) - 1)
