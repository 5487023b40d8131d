"""Whether the public set holds the silo's own patients: counts of exact and rounded duplicates, and no record.

A coordinator could forge a public set out of a hospital's records, and learn what its model says of them. It writes
every number of that set, so the silo's own records alone give the scale of each column: no row of the public set
changes how another one is measured.

*Exact*: all values are the same as finely as the silo's records are written, in all columns in which these differ from
each other. Letter case and blanks of texts do not count. One exact duplicate raises the alarm.

*Rounded*: the same with numbers rounded to hundredths of a standard deviation. It raises the alarm where more
records have such a duplicate than the silo's own have among themselves, in proportion to the number of examples: five
of them if those have none, and the public set is no larger. In 425 honest comparisons on six data sets
that was never so.

Records of few or coarse columns agree by chance. So the report says how many of the silo's own agree with each other,
and a person decides. Not noticed: copies that were changed further, such as by noise or by emptied columns.
"""

import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import poisson

from fedct_flwr.datasets.schema import Schema
from fedct_flwr.text.printable import normalized, rounded
from fedct_flwr.types import DataError, Features

SIGNIFICANCE: Final = 0.01
"""The chance that is aimed at of an alarm by rounded duplicates, if all come from one population."""
UNNOTICED: Final = "copies with emptied or coarser cells are not noticed"
_ROUNDED: Final = 0.01
"""In shares of a column's spread: the step to which numbers are rounded."""
_PRECISION: Final = 1e-6
"""In shares of a column's spread: numbers that are closer are the same."""
_REGULAR: Final = 1e-3
_NORMAL_IQR: Final = 1.349
_LARGEST: Final = 1e300
_ENOUGH_PIXELS: Final = 4_000_000
_BLOCK_VALUES: Final = 1 << 21
_EMPTY: Final = b""

_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class DuplicateReport:
    """How many of a silo's records have an exact, or at least a rounded, duplicate in the public set.

    For a person to judge by: how many have one among the silo's own records (``own_exact``, ``own_rounded``).
    """

    num_records: int
    num_public: int
    exact: int
    rounded: int
    own_exact: int = 0
    own_rounded: int = 0

    @property
    def alarm(self) -> bool:
        """Whether a person should ask where the public set comes from."""
        # One is added because none among few is not never.
        by_chance = (self.own_rounded + 1) * max(1.0, self.num_public / max(1, self.num_records))
        return self.exact > 0 or bool(poisson.sf(self.rounded - 1, by_chance) < SIGNIFICANCE)

    @property
    def sentence(self) -> str:
        """The report in words, without any record. The exact number of all would tell how many have opted out."""
        found = (
            f"of about {rounded(self.num_records)} records {self.exact} have an exact and {self.rounded} at least a "
            f"rounded duplicate among the {self.num_public} examples of the public set"
        )
        if not self.alarm:
            return f"{found}, no more than chance explains; {UNNOTICED}"
        number, own, kind = self.rounded, self.own_rounded, "a rounded"
        if self.exact:
            number, own, kind = self.exact, self.own_exact, "an exact"
        judged = "this may be chance" if own >= number else "chance hardly explains this"
        ask = "ask the coordinator where the public set comes from"
        return f"{found}; among themselves {own} have {kind} one, so {judged}: {ask}"


def find_duplicates(records: Features, public: Features, schema: Schema) -> DuplicateReport:
    """Compare a silo's records with the public set, both as the study encodes them (NaN where a value is missing).

    Raises DataError if the two do not have the same columns.
    """
    if records.shape[1:] != public.shape[1:]:
        raise DataError(f"records have the shape {records.shape[1:]}, but public examples {public.shape[1:]}")
    if schema.texts:
        records, public = _texts_as_codes(records, public, schema.texts)
    ours, theirs = (X.reshape(len(X), -1) for X in (records, public))
    varies = np.fmin.reduce(ours, axis=0) < np.fmax.reduce(ours, axis=0)
    numeric = varies & ~np.isin(np.arange(len(varies)), [*schema.categorical, *schema.texts])
    # All pixels of images have one scale.
    pixels = not schema.columns and numeric.any()
    columns = [ours[:: 1 + ours.size // _ENOUGH_PIXELS].ravel()] if pixels else ours[:, numeric].T
    scale = np.array([_scale(column) for column in columns]).reshape(-1, 3).T
    found = []
    for finest in (0, _ROUNDED):
        own, others = (_keys(X, varies & ~numeric, numeric, scale, finest) for X in (ours, theirs))
        times, there = Counter(own), {*others}
        found.append((sum(key in there for key in own if key), sum(times[key] > 1 for key in own if key)))
    (exact, own_exact), (rounded, own_rounded) = found
    return DuplicateReport(len(records), len(public), exact, rounded, own_exact, own_rounded)


def _texts_as_codes(records: Features, public: Features, texts: tuple[int, ...]) -> tuple[Features, Features]:
    """Both as numbers: a text is a category. Case and blanks do not count; an empty text is a missing value."""
    ours, theirs = records.copy(), public.copy()
    for column in texts:
        codes: dict[str, float] = {"": np.nan}
        for X in (ours, theirs):
            spelled = [" ".join(normalized("NFC", text).casefold().split()) for text in X[:, column]]
            X[:, column] = [codes.setdefault(text, float(len(codes))) for text in spelled]
    return ours.astype(np.float64), theirs.astype(np.float64)


def _keys(
    X: Features, coded: NDArray[np.bool_], numeric: NDArray[np.bool_], scale: _Floats, finest: float
) -> list[bytes]:
    """A key of each row, the same where all values are; ``finest`` in shares of a column's spread."""
    keys: list[bytes] = []
    center, spread, written = scale
    step = np.maximum(written, finest * spread)
    at_once = max(1, _BLOCK_VALUES // max(1, X.shape[1]))
    for start in range(0, len(X), at_once):
        rows = X[start : start + at_once]
        # A value within half a step of one that the silo could have written is that one. No negative zero.
        with np.errstate(over="ignore"):
            steps = np.rint((_finite(rows[:, numeric]) - center) / step) + 0.0
        keys += map(_key, np.concatenate([steps, rows[:, coded]], axis=1))
    return keys


def _finite(values: Features) -> _Floats:
    """As float64, huge instead of infinite."""
    return np.clip(values.astype(np.float64), -_LARGEST, _LARGEST)


def _key(row: _Floats) -> bytes:
    missing = np.isnan(row)
    # All ways to write NaN are one.
    return _EMPTY if missing.all() else hashlib.blake2b(np.where(missing, np.nan, row).tobytes()).digest()


def _scale(column: Features) -> tuple[float, float, float]:
    """A column's median, its robust spread, and the smallest difference between values if all are multiples of it.

    So it is with whole numbers. Of other numbers hardly any; two values are steps only if one of them comes again.
    """
    values = _finite(column[~np.isnan(column)])
    first, center, third = np.quantile(values, (0.25, 0.5, 0.75), method="nearest")
    spread = float(third - first) / _NORMAL_IQR
    if spread <= 0:
        away = np.abs(values - center)
        spread = float(np.median(away[away > 0]))
    step = max(_PRECISION * spread, float(np.finfo(np.float64).tiny))
    with np.errstate(over="ignore", invalid="ignore"):
        gaps = np.diff(np.unique(values) / step)
    gaps = gaps[(gaps > 1) & np.isfinite(gaps)]
    if len(gaps) and not len(values) == len(gaps) + 1 == 2:
        multiples = gaps / gaps.min()
        if (np.abs(multiples - np.rint(multiples)) < _REGULAR).all():
            step *= float(gaps.min())
    return float(center), spread, step
