"""Independent random streams, one for each purpose, from a single run seed."""

import hashlib

import numpy as np
from numpy.random import Generator


def seed_words(seed: int, *scope: str | int) -> list[int]:
    """Eight 32-bit words, different for every ``(seed, *scope)``, the same on every platform."""
    # A NumPy integer must give the stream of the Python integer that it equals.
    parts = (int(seed), *(part if isinstance(part, str) else int(part) for part in scope))
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return [int(word) for word in np.frombuffer(digest, dtype="<u4")]


def generator(seed: int, *scope: str | int) -> Generator:
    """A generator of its own for a scope such as ``("split", silo)`` or ``("ties", round)``.

    >>> generator(0, "ties", 1).integers(100) == generator(0, "ties", 1).integers(100)
    np.True_
    >>> generator(0, "ties", 1).random() == generator(0, "ties", 2).random()
    False
    """
    return np.random.default_rng(seed_words(seed, *scope))


def random_state(seed: int, *scope: str | int) -> int:
    """A scikit-learn ``random_state``, in ``0..2**31-1``."""
    return seed_words(seed, *scope)[0] >> 1
