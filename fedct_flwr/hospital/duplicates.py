"""Whether the public set holds the silo's own patients: counts of exact and near duplicates, and no record.

A coordinator could forge a public set out of a hospital's records, and learn what its model says of them. It writes
every number of that set, so the silo's own records alone give the scale of each column: no row of the public set
changes how another one is measured.

*Exact*: all values are the same as finely as the silo's records are written, in all columns in which these differ from
each other. One exact duplicate raises the alarm. Records of few or coarse columns agree by chance. So the report also
says how many of them agree with each other, and a person decides.

*Near*: a copy of a patient lies close to one record that has no others near it. The score of a public example is the
logarithm of how many times farther its fifth nearest record is than its nearest. The same score of the silo's own
records, each without itself, shows what chance explains; more raises the alarm. Texts are also near by the words they
share.

``benchmarks/results/duplicates.md`` has how often it is right on six data sets; this shorter code has the same rates as
the measured one on seeds 200 to 207. Not noticed: few near copies, near copies among ten times as many made-up rows,
and copies that were changed further. A silo with 20 records or fewer notices exact copies alone.

Texts are near where they share half of their shingles (runs of three words, Jaccard index), and have five at least: A.
Z. Broder, "On the resemblance and containment of documents", 1997. Notes that follow a form are near by chance: how
often, the silo's own tell, each compared with the others.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, poisson
from sklearn.feature_extraction.text import HashingVectorizer

from fedct_flwr.datasets.schema import Schema
from fedct_flwr.text.printable import normalized
from fedct_flwr.types import DataError, Features

SIGNIFICANCE: Final = 0.01
"""The chance that is aimed at of an alarm by near duplicates, if all come from one population; see above."""
NEAR: Final = 0.01
"""An example is near if its score is one that chance gives one in a hundred."""
FEWEST: Final = 20
"""As many records, and one more, are needed to judge chance by."""

_RATES: Final = np.array([0.02, NEAR, 5e-3, 1e-3, 1e-4, 1e-6, 1e-9])
_TAIL: Final = 0.1
_PARTS: Final = (0.5, 0.75)
_CLOSEST: Final = 1e-9
_NEIGHBOR: Final = 5
_STAND_INS: Final = 2000
_STAND_IN_VALUES: Final = 1 << 26
_BLOCK_VALUES: Final = 1 << 21
_ENOUGH_PIXELS: Final = 4_000_000
_PRECISION: Final = 1e-6
"""In shares of a column's spread: numbers that are closer are the same."""
_REGULAR: Final = 1e-3
_NORMAL_IQR: Final = 1.349
_FARTHEST: Final = 10.0
_LARGEST: Final = 1e300
_EMPTY: Final = b""

_Floats = NDArray[np.float64]
_Rows = NDArray[np.intp]
_Values = NDArray[np.float32]


@dataclass(frozen=True)
class DuplicateReport:
    """How many of a silo's records have an exact, or at least a near, duplicate in the public set.

    For a person to judge by: how many records have an exact duplicate among the silo's own (``own_exact``), and how
    many near public examples chance explains (``by_chance``).
    """

    num_records: int
    num_public: int
    exact: int
    near: int
    alarm: bool
    own_exact: int = 0
    by_chance: int = 0

    @property
    def sentence(self) -> str:
        """The report in words, without any record."""
        found = (
            f"of {self.num_records} records {self.exact} have an exact and {self.near} at least a near duplicate "
            f"among the {self.num_public} examples of the public set"
        )
        ask = "ask the coordinator where the public set comes from"
        if not self.alarm:
            return f"{found}, no more than chance explains"
        if not self.exact:
            return f"{found}; chance explains about {self.by_chance} near ones: {ask}"
        own = f"among themselves {self.own_exact} have an exact one"
        if self.own_exact >= self.exact:
            return f"{found}; {own}, so this may be chance: {ask}"
        return f"{found}; {own}, so chance hardly explains this: {ask}"


class Judged(NamedTuple):
    """Positions of the records that have a near duplicate, how many are to be expected, how likely chance is."""

    records: _Rows
    by_chance: float
    p_value: float


def find_duplicates(records: Features, public: Features, schema: Schema) -> DuplicateReport:
    """Compare a silo's records with the public set, both as the study encodes them (NaN where a value is missing).

    Raises DataError if the two do not have the same columns.
    """
    if records.shape[1:] != public.shape[1:]:
        raise DataError(f"records have the shape {records.shape[1:]}, but public examples {public.shape[1:]}")
    judged = []
    if schema.texts:
        judged.append(similar_texts(*([" ".join(row) for row in X[:, list(schema.texts)]] for X in (records, public))))
        records, public = _texts_as_codes(records, public, schema.texts)
    scale = _Scale(records, schema)
    keys, ours = scale.measure(records)
    public_keys, theirs = scale.measure(public)
    own, in_public = Counter(keys), set(public_keys) - {_EMPTY}
    exact = np.array([key in in_public for key in keys], dtype=bool)
    # An exact duplicate raises the alarm by itself, and says nothing of how near others come by chance.
    single = np.flatnonzero([own[key] == 1 for key in keys])
    judged.append(_near(ours, single, theirs[[key not in own for key in public_keys]], scale.unknown))
    return DuplicateReport(
        len(records),
        len(public),
        int(exact.sum()),
        len(set(np.flatnonzero(exact)).union(*(found.records for found in judged))),
        alarm=bool(exact.any()) or any(found.p_value < SIGNIFICANCE for found in judged),
        own_exact=sum(own[key] > 1 for key in keys if key != _EMPTY),
        by_chance=round(sum(found.by_chance for found in judged)),
    )


def _texts_as_codes(records: Features, public: Features, texts: tuple[int, ...]) -> tuple[Features, Features]:
    """Both as numbers: a text is a category. Case and blanks do not count; an empty text is a missing value."""
    ours, theirs = records.copy(), public.copy()
    for column in texts:
        codes: dict[str, float] = {"": np.nan}
        for X in (ours, theirs):
            spelled = [" ".join(normalized("NFC", text).casefold().split()) for text in X[:, column]]
            X[:, column] = [codes.setdefault(text, float(len(codes))) for text in spelled]
    return ours.astype(np.float64), theirs.astype(np.float64)


# --- exact: the scale of the silo's own records


class _Scale:
    """How a silo measures examples. Columns in which its own records do not differ tell nothing and are left out.

    Numbers are in robust standard deviations, all pixels of images by one of them. ``unknown``: what a column that a
    record lacks adds to a squared distance: 2 for a number, as is to be expected of two strangers, 1 for a category.
    """

    def __init__(self, records: Features, schema: Schema) -> None:
        flat = records.reshape(len(records), -1)
        varies = np.fmin.reduce(flat, axis=0) < np.fmax.reduce(flat, axis=0)
        coded = np.isin(np.arange(flat.shape[1]), [*schema.categorical, *schema.texts])
        self._numeric, self._coded = np.flatnonzero(varies & ~coded), np.flatnonzero(varies & coded)
        pixels = not schema.columns and len(self._numeric)
        columns = [flat[:: 1 + flat.size // _ENOUGH_PIXELS].ravel()] if pixels else flat[:, self._numeric].T
        self._rulers = np.array([_ruler(column) for column in columns]).reshape(-1, 5).T
        self._known = [np.unique(column[~np.isnan(column)]) for column in flat[:, self._coded].T]
        each = [np.full(len(known), 1 / len(known)) for known in self._known]
        self.unknown = np.concatenate([np.full(len(self._numeric), 2.0), *each]).astype(np.float32)

    def measure(self, X: Features) -> tuple[list[bytes], _Values]:
        """Keys, the same where all values are, and values ``(n, columns)``, a column for each category.

        Values are NaN where one is missing, is far from all that the silo has, or is a category that it never has.
        """
        flat = X.reshape(len(X), -1)
        keys: list[bytes] = []
        values = np.empty((len(flat), len(self.unknown)), dtype=np.float32)
        center, spread, step, low, high = self._rulers
        rows_at_once = max(1, _BLOCK_VALUES // max(1, flat.shape[1]))
        for start in range(0, len(flat), rows_at_once):
            rows = slice(start, start + rows_at_once)
            numbers, codes = _finite(flat[rows][:, self._numeric]), flat[rows][:, self._coded]
            # A value within half a step of one that the silo could have written is that one. No negative zero.
            with np.errstate(over="ignore"):
                steps = np.rint((numbers - center) / step) + 0.0
            keys += map(_key, np.concatenate([steps, codes], axis=1))
            scaled = np.clip(np.arcsinh(steps * (step / spread)), -_FARTHEST, _FARTHEST)
            scaled[~((numbers >= low) & (numbers <= high))] = np.nan
            same = [column[:, None] == known for column, known in zip(codes.T, self._known, strict=True)]
            # Two categories differ in two columns, and by 1 in all.
            apart = [np.where(one.any(axis=1)[:, None], one / np.sqrt(2), np.nan) for one in same]
            values[rows] = np.concatenate([scaled, *apart], axis=1)
        return keys, values


def _finite(values: Features) -> _Floats:
    """As float64, huge instead of infinite."""
    return np.clip(values.astype(np.float64), -_LARGEST, _LARGEST)


def _key(row: _Floats) -> bytes:
    missing = np.isnan(row)
    # All ways to write NaN are one.
    return _EMPTY if missing.all() else hashlib.blake2b(np.where(missing, np.nan, row).tobytes()).digest()


def _ruler(column: Features) -> tuple[float, float, float, float, float]:
    """A column's median, robust spread and step, and the range of values that are still plausible."""
    values = _finite(column[~np.isnan(column)])
    low, first, center, third, high = np.quantile(values, (0.005, 0.25, 0.5, 0.75, 0.995), method="nearest")
    spread = (third - first) / _NORMAL_IQR
    if spread <= 0:
        away = np.abs(values - center)
        spread = np.median(away[away > 0])
    return center, spread, _step(values, float(spread)), low - 3 * spread, high + 3 * spread


def _step(values: _Floats, spread: float) -> float:
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
    regular = (np.abs(multiples - np.rint(multiples)) < _REGULAR).all()
    return float(gaps.min()) * finest if regular else finest


# --- near: one nearest-neighbour test


def _near(ours: _Values, single: _Rows, public: _Values, unknown: _Values) -> Judged:
    """Judge how far public examples stand out by how far the silo's own records do, each without itself.

    A record stands in for a public example with the same columns emptied, as a coordinator may choose which are.
    Examples that lack a quarter of the columns, or half, are judged apart from the others. ``single``: positions of the
    records that stand in, which have no exact duplicate.
    """
    rng = np.random.default_rng(0)
    most = max(10 * FEWEST, min(_STAND_INS, _STAND_IN_VALUES // max(1, ours.shape[1])))
    weight = np.minimum(unknown, 1)
    part = np.digitize(~np.isnan(public) @ weight / max(weight.sum(), 1), _PARTS)
    records, by_chance, p_values = [np.zeros(0, dtype=np.intp)], 0.0, []
    for rows in (np.flatnonzero(part == number) for number in np.unique(part)):
        stand_ins = rng.permutation(single)[:most]
        absent = np.isnan(public[rng.choice(rows, len(stand_ins))])
        expected, _ = scores(np.where(absent, np.float32(np.nan), ours[stand_ins]), ours, unknown, stand_ins)
        if len(expected) <= FEWEST:
            continue
        thresholds, rates = chance(expected)
        found, nearest = scores(public[rows], ours, unknown)
        records.append(nearest[found > thresholds[_RATES == NEAR]])
        by_chance += len(rows) * float(rates[_RATES == NEAR][0])
        above = (found[:, None] > thresholds).sum(axis=0)
        p_values.append(len(_RATES) * float(binom.sf(above - 1, len(rows), rates).min()))
    return Judged(np.concatenate(records), by_chance, min(1.0, max(1, len(p_values)) * min(p_values, default=1.0)))


def chance(expected: _Floats) -> tuple[_Floats, _Floats]:
    """Thresholds of the score, and the share of examples that chance brings above each, at ``_RATES`` at least.

    Where distances are small, the number of neighbors grows as a power of them, so the scores have an exponential tail.
    Its mean is that of the largest tenth of the scores, by their median, which some records that are in the file twice
    do not move, and a standard error more. Where the silo's own records are above a threshold more often than the tail
    says, their share counts.
    """
    ordered = np.sort(expected)[::-1]
    count = max(FEWEST, int(_TAIL * len(ordered)))
    start = ordered[count]
    mean = (np.median(ordered[:count]) - start) / np.log(2) * (1 + 1 / np.sqrt(count))
    share = (count + 1) / (len(ordered) + 1)
    thresholds = start + mean * np.log(np.maximum(share / _RATES, 1))
    return thresholds, np.maximum(_RATES, (ordered[:, None] > thresholds).sum(axis=0) / (len(ordered) + 1))


def scores(
    examples: _Values, records: _Values, unknown: _Values, themselves: _Rows | None = None
) -> tuple[_Floats, _Rows]:
    """How much each example stands out, 0 or more, and the position of the record that it is nearest to.

    Distances are taken over the columns that an example has. ``themselves``: the records that the examples are, each
    left out for its own.
    """
    value, nearest = np.zeros(len(examples)), np.zeros(len(examples), dtype=np.intp)
    others = len(records) - (themselves is not None)
    # Without another neighbor to compare with nothing stands out.
    if others < 2:
        return value, nearest
    rank = min(_NEIGHBOR, others) - 1
    for start, squares in _squares(examples, records, unknown):
        rows = np.arange(start, start + len(squares))
        if themselves is not None:
            squares[np.arange(len(rows)), themselves[rows]] = np.inf
        nearest[rows] = squares.argmin(axis=1)
        further = np.partition(squares, rank, axis=1)[:, rank].astype(np.float64)
        # Rounded, which does no harm to the fifth; the nearest is measured again.
        a, b = examples[rows].astype(np.float64), records[nearest[rows]]
        closest = np.where(np.isnan(a), 0, np.where(np.isnan(b), unknown, (a - b) ** 2)).sum(axis=1)
        ratio = np.divide(closest, further, out=np.ones(len(rows)), where=further > 0)
        value[rows] = -0.5 * np.log(np.clip(ratio, _CLOSEST**2, 1))
    return value, nearest


def _squares(examples: _Values, records: _Values, unknown: _Values) -> Iterator[tuple[int, _Values]]:
    """Squared distances, a block of rows after the other with the number of its first row."""
    b, has_b = np.nan_to_num(records), (~np.isnan(records)).astype(np.float32)
    per_record = b**2 + unknown * (1 - has_b)
    step = max(1, 4 * _BLOCK_VALUES // len(b))
    for start in range(0, len(examples), step):
        block = examples[start : start + step]
        a, has_a = np.nan_to_num(block), (~np.isnan(block)).astype(np.float32)
        yield start, np.maximum(has_a @ per_record.T - 2 * a @ b.T + a**2 @ has_b.T, 0)


# --- near: texts

_WORDS: Final = 3
_FEWEST_SHINGLES: Final = 5
_SHARED: Final = 0.5
_PAIRS: Final = 1 << 22
"""Pairs of texts that are compared at a time."""


def similar_texts(own: list[str], public: list[str]) -> Judged:
    """Compare a silo's texts with the public ones, and with each other to know what chance does."""
    hashed = HashingVectorizer(ngram_range=(_WORDS, _WORDS), binary=True, norm=None, alternate_sign=False)
    # It takes no empty list.
    ours, theirs = (hashed.transform([*texts, ""])[:-1] for texts in (own, public))
    near, again = np.flatnonzero(_has_near(ours, theirs)), _has_near(ours, ours, other=True)
    # Chance grows with the number of records compared; one is added because none among few is not never.
    by_chance = float(again.sum()) * max(1.0, len(public) / max(1, len(own))) + 1
    return Judged(near, by_chance, float(poisson.sf(len(near) - 1, by_chance)) if len(near) else 1.0)


def _has_near(ours: Any, theirs: Any, *, other: bool = False) -> NDArray[np.bool_]:
    """Which rows of the one are near a row of the other (``other``: than itself)."""
    sizes, columns = (np.asarray(part.sum(axis=1)).ravel() for part in (ours, theirs))
    found = np.zeros(ours.shape[0], dtype=bool)
    step = max(1, _PAIRS // max(1, theirs.shape[0]))
    for start in range(0, ours.shape[0], step):
        shared = (ours[start : start + step] @ theirs.T).tocoo()
        rows = shared.row + start
        both = sizes[rows] + columns[shared.col] - shared.data
        near = (shared.data >= _SHARED * both) & (np.minimum(sizes[rows], columns[shared.col]) >= _FEWEST_SHINGLES)
        found[rows[near & (rows != shared.col)] if other else rows[near]] = True
    return found
