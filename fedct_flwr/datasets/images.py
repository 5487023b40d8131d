"""Images as networks want them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def scaled(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Bytes to 0..1, any shape, in C order."""
    result: np.ndarray[Any, np.dtype[np.float32]] = pixels.astype(np.float32, order="C")
    result /= np.float32(255)
    return result
