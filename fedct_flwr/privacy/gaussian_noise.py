"""Gaussian noise for gradients: millions of floating-point numbers a second from a few secure bytes."""

import math
from typing import Final

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from fedct_flwr.privacy.randomness import Noise

_KEY_BYTES: Final = 32
_BLOCK_BYTES: Final = 16


def gaussians(noise: Noise, count: int, std: float) -> NDArray[np.float32]:
    """Independent numbers ``(count,)``, normal with mean 0 and standard deviation ``std``, by Box and Muller.

    Of each pair, 62 bits decide the radius and 32 the angle.

    Formal guarantees:
        None of its own: it is noise for a mechanism. The bits are as hard to predict as the 32 bytes taken from
        ``noise`` are, if AES-256 in counter mode is a pseudorandom generator. The numbers are normal up to 2**-62 of
        the radius' distribution (none is beyond 9.5 std) and up to float32: they are **not exact**, unlike those of
        ``Noise.discrete_gaussian``, and which floating-point numbers can occur in a sum tells something about what
        they were added to (Mironov, CCS 2012). Use them where the sum itself is not released.
    """
    key = noise.octets(_KEY_BYTES)
    stream = Cipher(algorithms.AES(key), modes.CTR(bytes(_BLOCK_BYTES))).encryptor()
    words = np.frombuffer(stream.update(bytes(12 * ((count + 1) // 2))), "<u4")
    return _pairs(words, np.float32(std)).reshape(-1)[:count]


def _pairs(words: NDArray[np.uint32], std: np.float32) -> NDArray[np.float32]:
    """Numbers ``(2, pairs)`` from three words for each pair."""
    coarse, fine, turn = words.reshape(3, -1)
    # A float32 near zero has room for all 63 bits. Signed integers convert much faster.
    uniform = (coarse >> np.uint32(1)).view(np.int32).astype(np.float32)
    uniform *= np.float32(2.0**-31)
    rest = (fine >> np.uint32(1)).view(np.int32).astype(np.float32)
    rest *= np.float32(2.0**-62)
    uniform += rest
    uniform += np.float32(2.0**-64)
    radius = np.log(uniform, out=uniform)
    radius *= np.float32(-2)
    np.maximum(radius, 0, out=radius)
    np.sqrt(radius, out=radius)
    radius *= std
    angle = turn.view(np.int32).astype(np.float32)
    angle *= np.float32(math.tau * 2.0**-32)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)])
