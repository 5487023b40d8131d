"""Sources of noise: a secure one for people's data, a seeded one for simulations.

A mechanism takes its noise from the ``Noise`` that it is given, and samples exactly: from integers and probabilities
that are multiples of 2**-64, never by transforming floating-point numbers, whose gaps give the noise away (Mironov,
"On significance of the least significant bits for differential privacy", CCS 2012).
"""

import math
import os
from decimal import ROUND_CEILING, Decimal, localcontext
from typing import Final, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.random import Generator
from numpy.typing import NDArray

from fedct_flwr.types import ConfigError

ONE: Final = 1 << 64
"""Probabilities are integers: this many times the probability."""

_DIGITS: Final = 80
_FIRST_BITS: Final = 56
_TABLE_MASS: Final = 1e-18
_LONGEST_TABLE: Final = 10_000


class Noise(Protocol):
    """A source of random bytes and of integer noise."""

    @property
    def secure(self) -> bool:
        """Whether it cannot be predicted: a mechanism with predictable noise protects no one."""

    def octets(self, count: int) -> bytes:
        """``count`` uniform bytes."""

    def discrete_laplace(self, scale: float, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Independent integers, x with probability proportional to exp(-|x| / scale)."""

    def discrete_gaussian(self, scale: float, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Independent integers, x with probability proportional to exp(-x**2 / (2 scale**2))."""


class SecureNoise:
    """Noise that protects people: the operating system's random bytes, and OpenDP's exact samplers.

    OpenDP samples by comparing random bits with rational numbers (Canonne, Kamath, Steinke, "The discrete Gaussian for
    differential privacy", NeurIPS 2020, §5) and takes its bits from a secure generator of its own. Raises ConfigError
    where OpenDP is not installed, and whatever ``os.urandom`` raises.
    """

    @property
    def secure(self) -> bool:
        return True

    def octets(self, count: int) -> bytes:
        return os.urandom(count)

    def discrete_laplace(self, scale: float, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """OpenDP's ``make_laplace`` on integers."""
        return _opendp_noise("laplace", scale, shape)

    def discrete_gaussian(self, scale: float, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """OpenDP's ``make_gaussian`` on integers."""
        return _opendp_noise("gaussian", scale, shape)


class SimulatedNoise:
    """Noise for simulations, the same for the same seed. **It protects no one**: the seed reveals the noise."""

    def __init__(self, rng: Generator) -> None:
        self._rng = rng

    @property
    def secure(self) -> bool:
        return False

    def octets(self, count: int) -> bytes:
        return self._rng.bytes(count)

    def discrete_laplace(self, scale: float, shape: tuple[int, ...]) -> NDArray[np.int64]:
        success = -np.expm1(-1 / scale)
        return self._rng.geometric(success, shape) - self._rng.geometric(success, shape)

    def discrete_gaussian(self, scale: float, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Drawn from a table of all values but those that together have less than 1e-18 of the probability.

        A table of large scales would be too long, and rounded normal numbers are as good: the total variation is below
        1 / (24 scale**2).
        """
        if scale > _LONGEST_TABLE:
            return np.rint(self._rng.normal(0, scale, shape)).astype(np.int64)
        reach = int(np.ceil(scale * np.sqrt(-2 * np.log(_TABLE_MASS)))) + 1
        values = np.arange(-reach, reach + 1, dtype=np.int64)
        weights = np.exp(-(values**2) / (2 * scale**2))
        return self._rng.choice(values, shape, p=weights / weights.sum())


def bernoulli(noise: Noise, chance: int, size: int) -> NDArray[np.bool_]:
    """Independent coins ``(size,)``, each true with probability exactly ``chance / 2**64``.

    One random byte decides all but one coin in 256; these take seven more.
    """
    first = np.frombuffer(noise.octets(size), dtype=np.uint8)
    top = chance >> _FIRST_BITS
    hit = first < top
    undecided = np.flatnonzero(first == top)
    if len(undecided):
        words = np.frombuffer(noise.octets(8 * len(undecided)), dtype="<u8")
        hit[undecided] = (words >> np.uint64(64 - _FIRST_BITS)) < np.uint64(chance & ((1 << _FIRST_BITS) - 1))
    return hit


def uniform_below(noise: Noise, bound: int, size: int) -> NDArray[np.int64]:
    """Independent integers ``(size,)``, exactly uniform on ``0..bound-1``, for ``bound`` up to 2**15."""
    kind = np.dtype(np.uint8 if bound <= 1 << 8 else "<u2")
    whole = (1 << (8 * kind.itemsize)) // bound * bound
    drawn = np.empty(size, dtype=np.int64)
    missing = np.arange(size)
    while len(missing):
        words = np.frombuffer(noise.octets(kind.itemsize * len(missing)), dtype=kind).astype(np.int64)
        drawn[missing] = words % bound
        missing = missing[words >= whole]  # beyond the last whole multiple, some remainders would be more likely
    return drawn


def chance_of_exp(exponent: float) -> int:
    """``exp(exponent)`` for an exponent <= 0 as an integer over 2**64, rounded up."""
    with localcontext(prec=_DIGITS):
        return _rounded_up(Decimal(exponent).exp())


def chance_of_noise(epsilon: float, others: int) -> int:
    """``others / (exp(epsilon) + others)`` as an integer over 2**64, rounded up: more noise, never less."""
    with localcontext(prec=_DIGITS):
        return _rounded_up(others / (Decimal(epsilon).exp() + others))


def _rounded_up(probability: Decimal) -> int:
    return min(ONE, int((probability * ONE).to_integral_value(rounding=ROUND_CEILING)))


def _opendp_noise(kind: str, scale: float, shape: tuple[int, ...]) -> NDArray[np.int64]:
    try:
        # opendp.prelude would import scikit-learn as well, which takes seconds.
        from opendp.domains import atom_domain, vector_domain
        from opendp.measurements import make_gaussian, make_laplace
        from opendp.metrics import l1_distance, l2_distance
        from opendp.mod import enable_features
    except ImportError:
        raise ConfigError(
            "Laplace and Gaussian noise need OpenDP: pip install -c constraints.txt -e '.[privacy]'"
        ) from None
    enable_features("contrib")
    integers = vector_domain(atom_domain(T="i64"))
    if kind == "laplace":
        add_noise = make_laplace(integers, l1_distance(T="i64"), scale=scale)
    else:
        add_noise = make_gaussian(integers, l2_distance(T="f64"), scale=scale)
    return np.asarray(add_noise([0] * int(np.prod(shape))), dtype=np.int64).reshape(shape)


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
