"""UBJSON as XGBoost writes it, read without XGBoost, whose own reader believes what a file says.

XGBoost writes a subset of UBJSON (https://ubjson.org) in one way alone: every length is a 64-bit integer, every array
says how many items it has. Whatever else UBJSON allows is refused, so that no two readers find different things in the
same bytes. The library for the whole format (``py-ubjson``) reads more than that, and had its last release in 2020.
"""

import struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_NUMBERS: Final = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8"}
_CONSTANTS: Final = {b"T": True, b"F": False, b"Z": None}
_DEEPEST: Final = 32
"""Levels. XGBoost needs about ten."""


def decode(content: bytes) -> Any:
    """What the bytes say: dictionaries, lists, strings, numbers, and arrays of numbers of one type.

    Takes no more memory than a small multiple of the content. Raises ValueError for all but the whole of one value.
    """
    reader = _Reader(content)
    value = reader.value(0)
    if reader.at != len(content):
        raise ValueError("More than one value")
    return value


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self.at = 0

    def value(self, depth: int) -> Any:
        if depth > _DEEPEST:
            raise ValueError("Too deep")
        marker = self._take(1)
        if marker == b"{":
            return self._object(depth)
        if marker == b"[":
            return self._array(depth)
        if marker == b"S":
            return self._text()
        if marker in _CONSTANTS:
            return _CONSTANTS[marker]
        return self._numbers(marker, 1)[0].item()

    def _object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self._content[self.at : self.at + 1] != b"}":
            key = self._text()
            if key in found:
                raise ValueError("A key twice")
            found[key] = self.value(depth + 1)
        self.at += 1
        return found

    def _array(self, depth: int) -> list[Any] | NDArray[Any]:
        marker = self._take(1)
        if marker == b"#":
            # Each item takes a byte at least, so that no more are made than there are bytes.
            return [self.value(depth + 1) for _ in range(self._length())]
        typed = self._take(1)
        if marker != b"$" or self._take(1) != b"#":
            raise ValueError("No length")
        return self._numbers(typed, self._length())

    def _text(self) -> str:
        return self._take(self._length()).decode()

    def _length(self) -> int:
        if self._take(1) != b"L":
            raise ValueError("No length")
        (length,) = struct.unpack(">q", self._take(8))
        return int(length)

    def _numbers(self, marker: bytes, count: int) -> NDArray[Any]:
        if marker not in _NUMBERS:
            raise ValueError("No such type")
        kind = np.dtype(_NUMBERS[marker])
        return np.frombuffer(self._take(count * kind.itemsize), dtype=kind)

    def _take(self, count: int) -> bytes:
        if not 0 <= count <= len(self._content) - self.at:
            raise ValueError("Cut off")
        self.at += count
        return self._content[self.at - count : self.at]
