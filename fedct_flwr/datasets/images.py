"""Images as networks want them, and as memory wants them: a byte for each pixel and color until numbers are needed."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.types import Features

AXES: Final = 4
"""Of images: example, channel, row and column."""


def scaled(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Bytes to 0..1, any shape, in C order."""
    result: np.ndarray[Any, np.dtype[np.float32]] = pixels.astype(np.float32, order="C")
    result /= np.float32(255)
    return result


def are_bytes(X: Features) -> bool:
    """Whether these are images ``(n, channels, height, width)`` of bytes, which stand for 0..1."""
    return X.dtype == np.uint8 and X.ndim == AXES


def as_numbers(X: Features) -> Features:
    """Features as numbers to calculate with: images of bytes as 0..1, all others as they are.

    >>> as_numbers(np.full((1, 1, 1, 1), 51, dtype=np.uint8)).ravel()
    array([0.2], dtype=float32)
    """
    return scaled(X) if are_bytes(X) else X
