"""The public unlabeled set: its examples, their fingerprint, and which of them a round asks about.

Images are a byte for each pixel and color until numbers are needed.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.types import DataError, Features

_BLOCK_BYTES: Final = 1 << 24
_TABLE: Final = 2
"""Axes of a table."""
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


@dataclass(frozen=True, eq=False)
class PublicSet:
    """Unlabeled examples that every silo and the coordinator hold a copy of.

    ``X`` is numeric, or objects where columns of text hold strings; first axis examples. Raises DataError if it is
    empty or holds anything else.
    """

    X: Features

    def __post_init__(self) -> None:
        """Check that the examples can be fingerprinted."""
        if self.X.dtype.kind not in "biuf" and not (_holds_text(self.X)):
            raise DataError(f"the public set must hold numbers, not {self.X.dtype}: encode text and dates first")
        if self.X.ndim < 2 or self.X.size == 0:
            raise DataError(f"the public set has shape {self.X.shape}: it needs at least one example and one feature")

    def __len__(self) -> int:
        """Number of examples."""
        return len(self.X)

    @cached_property
    def fingerprint(self) -> bytes:
        """SHA-256 over shape, dtype and values (32 bytes), independent of platform and memory layout.

        Values are read in C order, little-endian; every NaN counts as the same NaN and -0.0 as 0.0, because
        no learner can tell them apart while file formats and processors do not preserve them. Images of bytes
        count as the numbers that they stand for. Of columns of text, length and UTF-8 bytes of each string count.
        """
        if self.X.dtype == np.object_:
            return _of_objects(self.X)
        dtype = np.dtype("<f4") if are_bytes(self.X) else self.X.dtype.newbyteorder("<")
        digest = hashlib.sha256(f"fedct public set 1 {dtype.str} {self.X.shape}".encode())
        rows = max(1, _BLOCK_BYTES * len(self.X) // (self.X.size * dtype.itemsize))
        for start in range(0, len(self.X), rows):
            block = np.array(as_numbers(self.X[start : start + rows]), dtype=dtype, order="C")
            if dtype.kind == "f":
                block[np.isnan(block)] = np.nan
                block += 0.0
            digest.update(block.data)
        return digest.digest()


def _holds_text(X: Features) -> bool:
    """Whether each column of a table is text or numbers, and one of them text."""
    if X.dtype != np.object_ or X.ndim != _TABLE:
        return False
    kinds = [{type(value) for value in column} for column in X.T]
    return all(kind in ({str}, {float}) for kind in kinds) and {str} in kinds


def _of_objects(X: Features) -> bytes:
    """Numbers as those of a table without text, and then each column of text with its position."""
    is_text = [isinstance(value, str) for value in X[0]]
    numbers = X[:, np.flatnonzero(np.logical_not(is_text))].astype(np.float64)
    digest = hashlib.sha256(f"fedct public set with text 1 {X.shape}".encode())
    digest.update(PublicSet(numbers).fingerprint if numbers.size else b"")
    for position in np.flatnonzero(is_text):
        digest.update(f" {position}".encode())
        for text in X[:, position]:
            encoded = text.encode()
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.digest()


class Query(NamedTuple):
    """Which public examples a round asks about: ``size`` of them, drawn with ``seed`` (unsigned, 64 bits).

    Both sides derive the same positions from these two numbers, so a query costs a few bytes whatever its size.
    """

    seed: int
    size: int

    def positions(self, num_public: int) -> NDArray[np.intp]:
        """Sorted positions ``(size,)`` in a public set of ``num_public`` examples.

        Ranks the raw output of Philox, which NumPy keeps the same in every version (its policy for bit
        generators; the methods of Generator have no such promise).

        >>> Query(seed=7, size=3).positions(3)
        array([0, 1, 2])
        >>> Query(seed=7, size=3).positions(1000)
        array([535, 753, 887])
        """
        return _drawn(self.seed, self.size, num_public)


@lru_cache(maxsize=4)
def _drawn(seed: int, size: int, num_public: int) -> NDArray[np.intp]:
    if size == num_public:
        found = np.arange(num_public, dtype=np.intp)
    else:
        keys = np.random.Philox(key=seed).random_raw(num_public)
        found = np.sort(np.argsort(keys, kind="stable")[:size])
    found.flags.writeable = False
    return found
