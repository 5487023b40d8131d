"""The scale of a silo's own records, by which they are compared with public examples.

The coordinator writes the public set, so nothing here is read from it: no center, no spread, no step. A row or a column
of it may hold any number without changing how the others are measured.
"""

import hashlib
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.schema import Schema
from fedct_flwr.types import Features

EMPTY: Final = b""
"""The key of an example without any value."""

_PRECISION: Final = 1e-6
"""In shares of a column's spread: numbers that are closer are the same."""

_REGULAR: Final = 1e-3
_NORMAL_IQR: Final = 1.349
_BEYOND: Final = 3.0
_FARTHEST: Final = 10.0
_LARGEST: Final = 1e300
_BLOCK_VALUES: Final = 1 << 21
_ENOUGH_PIXELS: Final = 4_000_000

_Values = NDArray[np.float64]


class Measured(NamedTuple):
    """Examples as a silo measures them.

    ``keys`` ``(n,)`` are the same bytes where all values are the same. ``numbers`` ``(n, numeric columns)`` are in
    robust standard deviations, NaN where missing or far from all that the silo has. ``codes`` ``(n, categorical
    columns)`` are NaN where missing or a category that the silo never has.
    """

    keys: list[bytes]
    numbers: NDArray[np.float32]
    codes: NDArray[np.float32]

    @property
    def present(self) -> NDArray[np.bool_]:
        """Where there is a value to compare, ``(n, columns)``: numbers before codes."""
        present: NDArray[np.bool_] = ~np.isnan(np.concatenate([self.numbers, self.codes], axis=1))
        return present

    def at(self, rows: NDArray[np.intp], present: NDArray[np.bool_] | None = None) -> "Measured":
        """Some of the examples, perhaps with only those values that ``present`` ``(len(rows), columns)`` names."""
        numbers, codes = self.numbers[rows], self.codes[rows]
        if present is not None and not present.all():
            numbers = np.where(present[:, : numbers.shape[1]], numbers, np.float32(np.nan))
            codes = np.where(present[:, numbers.shape[1] :], codes, np.float32(np.nan))
        return Measured([self.keys[row] for row in rows], numbers, codes)


class _Ruler(NamedTuple):
    """A numeric column's middle, its spread, how finely it is written, and which values are still plausible."""

    center: float
    spread: float
    step: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class OwnScale:
    """How a silo measures examples. Columns in which its own records do not differ tell nothing and are left out."""

    numeric: NDArray[np.intp]
    categorical: NDArray[np.intp]
    rulers: tuple[_Ruler, ...]
    known: tuple[NDArray[np.float64], ...]

    @classmethod
    def of(cls, records: Features, schema: Schema) -> "OwnScale":
        """The scale of these records ``(n, ...)``; all pixels of images have one in common."""
        flat = records.reshape(len(records), -1)
        columns = np.arange(flat.shape[1])
        varies = np.fmin.reduce(flat, axis=0) < np.fmax.reduce(flat, axis=0)
        categorical = np.isin(columns, schema.categorical)
        numeric = columns[varies & ~categorical]
        if not schema.columns and len(numeric):
            some = flat[:: 1 + flat.size // _ENOUGH_PIXELS]
            return cls(numeric, columns[:0], (_ruler(some.ravel()),), ())
        return cls(
            numeric,
            columns[varies & categorical],
            tuple(_ruler(flat[:, column]) for column in numeric),
            tuple(np.unique(flat[:, column]) for column in columns[varies & categorical]),
        )

    def measure(self, X: Features) -> Measured:
        """Examples ``(n, ...)`` of the same columns, by this scale, a block of them after the other."""
        flat = X.reshape(len(X), -1)
        keys: list[bytes] = []
        numbers = np.empty((len(flat), len(self.numeric)), dtype=np.float32)
        step = max(1, _BLOCK_VALUES // max(1, flat.shape[1]))
        for start in range(0, len(flat), step):
            rows = slice(start, start + step)
            steps, numbers[rows] = self._numbers(_finite(flat[rows][:, self.numeric]))
            keys += map(_key, np.concatenate([steps, flat[rows][:, self.categorical]], axis=1))
        codes = flat[:, self.categorical].astype(np.float32)
        for column, known in zip(codes.T, self.known, strict=True):
            column[~np.isin(column, known)] = np.nan
        return Measured(keys, numbers, codes)

    def _numbers(self, values: _Values) -> tuple[_Values, _Values]:
        """How many steps each value is from the center, and how many standard deviations, large ones compressed."""
        center, spread, step, low, high = np.array(self.rulers, dtype=np.float64).reshape(-1, 5).T
        # A value within half a step of one that the silo could have written is that one. No negative zero.
        with np.errstate(over="ignore"):
            steps = np.rint((values - center) / step) + 0.0
        numbers = np.clip(np.arcsinh(steps * (step / spread)), -_FARTHEST, _FARTHEST)
        return steps, np.where((values >= low) & (values <= high), numbers, np.nan)


def _finite(values: Features) -> _Values:
    """As float64, huge instead of infinite."""
    return np.clip(values.astype(np.float64), -_LARGEST, _LARGEST)


def _key(row: _Values) -> bytes:
    missing = np.isnan(row)
    if missing.all():
        return EMPTY
    # All ways to write NaN are one.
    return hashlib.blake2b(np.where(missing, np.nan, row).tobytes(), digest_size=16).digest()


def _ruler(column: Features) -> _Ruler:
    """Median and interquartile range; where that is 0, the median distance of the other values from the median."""
    values = _finite(column[~np.isnan(column)])
    low, first, center, third, high = np.quantile(values, (0.005, 0.25, 0.5, 0.75, 0.995), method="nearest")
    spread = (third - first) / _NORMAL_IQR
    if spread <= 0:
        away = np.abs(values - center)
        spread = np.median(away[away > 0])
    margin = _BEYOND * spread
    return _Ruler(float(center), float(spread), _step(values, float(spread)), float(low - margin), float(high + margin))


def _step(values: _Values, spread: float) -> float:
    """The smallest difference between values where all differences are multiples of it, as those of whole numbers are.

    Otherwise hardly any. Two values are steps only if one of them comes again.
    """
    finest = max(_PRECISION * spread, float(np.finfo(np.float64).tiny))
    with np.errstate(over="ignore", invalid="ignore"):
        gaps = np.diff(np.unique(values) / finest)
    gaps = gaps[(gaps > 1) & np.isfinite(gaps)]
    if len(gaps) == 0 or len(values) == len(gaps) + 1 == 2:
        return finest
    multiples = gaps / gaps.min()
    if (np.abs(multiples - np.rint(multiples)) < _REGULAR).all():
        return float(gaps.min()) * finest
    return finest
