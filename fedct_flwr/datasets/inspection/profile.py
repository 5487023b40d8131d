"""What a table holds, column by column: kinds, distinct values, quantiles. No cell is looked at alone.

Memory is that of a block of numbers, whatever the table's size; time is linear in cells, but for sorting each column.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cached_property
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection.spelling import Looks

FEWEST: Final = 20
"""Records, at least, of which it is said that a column is constant, or that all its values differ."""
_BLOCK: Final = 1 << 21
"""Numbers that are looked at together: 16 MB."""
QUANTILES: Final = (0.1, 0.25, 0.5, 0.75, 0.9)
_CROSSED: Final = 200
"""Values of a text column, at most, that are counted by class."""
_GAP: Final = 2.0
_GAP_IN_LOGS: Final = 1.25
"""Times the width of each group, where the smaller one has a tenth of the numbers."""
_OFTEN: Final = 0.1
_FEWEST_APART: Final = 5
"""Values, at least, of each of two groups."""
_SHARE_APART: Final = 0.01
_NO_VALUE: Final = np.uint64(0x9E3779B97F4A7C15)


class Kind(StrEnum):
    """What the cells of a column are."""

    NUMBERS = "numbers"
    TEXT = "text"
    TRUTH = "truth values"
    DATES = "dates"
    NOTHING = "nothing"
    """No cell has a value."""
    OTHER = "something else"


_NUMERIC: Final = (Kind.NUMBERS, Kind.TRUTH)


def kind_of(column: pa.ChunkedArray) -> Kind:
    """The kind of a column, by its type and whether it holds anything."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if column.null_count == len(column):
        return Kind.NOTHING
    if pa.types.is_boolean(kind):
        return Kind.TRUTH
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return Kind.NUMBERS
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return Kind.TEXT
    return Kind.DATES if pa.types.is_temporal(kind) and not pa.types.is_duration(kind) else Kind.OTHER


@dataclass(frozen=True, eq=False)
class Numbers:
    """Columns of numbers: arrays ``(columns,)``, with NaN where a column has no value."""

    names: tuple[str, ...]
    valid: NDArray[np.int64]
    distinct: NDArray[np.int64]
    smallest: NDArray[np.float64]
    largest: NDArray[np.float64]
    at_smallest: NDArray[np.int64]
    """Cells that hold the smallest number."""
    at_largest: NDArray[np.int64]
    second_smallest: NDArray[np.float64]
    second_largest: NDArray[np.float64]
    quantiles: NDArray[np.float64]
    """``(columns, len(QUANTILES))``."""
    whole: NDArray[np.bool_]
    """Whether all are whole numbers."""
    counts_up: NDArray[np.bool_]
    """Whether they are the numbers of the records, from 0 or 1."""
    in_order: NDArray[np.bool_]
    """Whether each is larger than the one before, or each is smaller."""
    most_frequent: NDArray[np.float64]
    at_most_frequent: NDArray[np.int64]
    """Cells that hold the most frequent number."""
    apart: NDArray[np.int64]
    """Cells of the smaller of two groups that lie far apart, such as those of two units; 0 where there is one group."""

    @cached_property
    def position(self) -> dict[str, int]:
        """Where each column is."""
        return {name: position for position, name in enumerate(self.names)}

    @classmethod
    def joined(cls, blocks: Sequence["Numbers"]) -> Self:
        """The columns of several blocks, at least of one."""
        arrays = {
            field.name: np.concatenate([getattr(block, field.name) for block in blocks]) for field in fields(cls)[1:]
        }
        return cls(tuple(name for block in blocks for name in block.names), **arrays)


@dataclass(frozen=True, eq=False)
class Text:
    """A text column: its distinct ``values``, in how many cells each is, and by class ``(values, classes)``."""

    values: pa.Array
    counts: NDArray[np.int64]
    by_class: NDArray[np.int64] | None = None

    @cached_property
    def looks(self) -> Looks:
        """How its values look."""
        return Looks.of(self.values)

    @property
    def valid(self) -> int:
        """Cells with a value."""
        return int(self.counts.sum())


@dataclass(frozen=True, eq=False)
class Profile:
    """What a table's features are. ``keys`` ``(records,)`` are equal for records with equal features.

    ``y`` ``(records,)`` are the classes as the labels were numbered, of ``classes`` in all; None where there are none.
    """

    columns: dict[str, pa.ChunkedArray]
    records: int
    kinds: dict[str, Kind]
    numbers: Numbers
    texts: dict[str, Text]
    keys: NDArray[np.uint64]
    y: NDArray[np.int64] | None = None
    classes: int = 0

    def missing(self, name: str) -> int:
        """Cells of a column without a value."""
        if (position := self.numbers.position.get(name)) is not None:
            return self.records - int(self.numbers.valid[position])
        return int(self.columns[name].null_count)

    def distinct(self, name: str) -> int:
        """Distinct values of a column."""
        if (position := self.numbers.position.get(name)) is not None:
            return int(self.numbers.distinct[position])
        return len(self.texts[name].values) if name in self.texts else 0

    def cells(self, name: str) -> NDArray[np.float64]:
        """All cells of a column of numbers ``(records,)``, with NaN for a missing one."""
        found: NDArray[np.float64] = self.columns[name].cast(pa.float64(), safe=False).to_numpy()
        return found

    def valid(self, name: str) -> NDArray[np.float64]:
        """The numbers of a column, without missing ones."""
        found: NDArray[np.float64] = self.columns[name].drop_null().cast(pa.float64(), safe=False).to_numpy()
        return found

    def first(self, name: str, values: pa.Array) -> tuple[int, str] | None:
        """The first record, counted from 1, that has one of these values of a text column, and the value."""
        column = as_text(self.columns[name])
        found = pc.is_in(column, value_set=values)
        row = pc.index(found, True).as_py()
        return None if row < 0 else (row + 1, column[row].as_py())


def as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A text column, whatever its type, as plain text."""
    return column if pa.types.is_string(column.type) else column.cast(pa.string())


def distinct_texts(column: pa.ChunkedArray) -> tuple[Text, NDArray[np.int64]]:
    """A text column, and for each cell the position of its value, or -1."""
    encoded = as_text(column).combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    counts = np.bincount(codes[codes >= 0], minlength=len(encoded.dictionary))
    return Text(encoded.dictionary, counts), codes


def profile(table: pa.Table, y: NDArray[np.int64] | None = None, classes: int = 0) -> Profile:
    """Look at all columns of a table of features, whose records are of these classes."""
    # A table looks a name up among all of its names.
    columns = dict(zip(table.column_names, table.columns, strict=True))
    kinds = {name: kind_of(column) for name, column in columns.items()}
    names = [name for name, kind in kinds.items() if kind in _NUMERIC]
    keys = np.zeros(table.num_rows, dtype=np.uint64)
    # One block at least, which says of no column what it is.
    blocks = [_numbers(np.empty((0, table.num_rows)), [])]
    for X, some in _blocks(columns, names, table.num_rows):
        blocks.append(_numbers(X, some))
        keys += _keys_of_numbers(X, some)
    texts = {}
    for name, kind in kinds.items():
        if kind is Kind.TEXT:
            texts[name], codes = distinct_texts(columns[name])
            if y is not None and len(texts[name].values) <= _CROSSED:
                texts[name] = _crossed(texts[name], codes, y, classes)
            keys += _keys_of_text(texts[name].values, codes, name)
    return Profile(columns, table.num_rows, kinds, Numbers.joined(blocks), texts, keys, y, classes)


def _blocks(
    columns: dict[str, pa.ChunkedArray], names: Sequence[str], records: int
) -> Iterator[tuple[NDArray[np.float64], Sequence[str]]]:
    step = max(1, _BLOCK // max(1, records))
    for start in range(0, len(names), step):
        some = names[start : start + step]
        # Columns of their own in memory, as each is sorted.
        X = np.empty((len(some), records))
        for position, name in enumerate(some):
            X[position] = columns[name].cast(pa.float64(), safe=False).to_numpy()
        # Infinite ones are refused elsewhere.
        X[np.isinf(X)] = np.nan
        yield X, some


def _numbers(X: NDArray[np.float64], names: Sequence[str]) -> Numbers:
    """Of numbers ``(columns, records)``."""
    columns, records = X.shape
    valid = np.count_nonzero(~np.isnan(X), axis=1)
    # NaN comes last.
    ordered = np.sort(X, axis=1)
    at = np.arange(columns)
    last = np.maximum(valid - 1, 0)
    with np.errstate(invalid="ignore"):
        distinct = np.count_nonzero(ordered[:, 1:] > ordered[:, :-1], axis=1) + (valid > 0)
        whole = np.all(np.isnan(X) | (np.floor(X) == X), axis=1)
    smallest, largest = ordered[:, 0], ordered[at, last]
    at_smallest = np.count_nonzero(ordered == smallest[:, None], axis=1)
    at_largest = np.count_nonzero(ordered == largest[:, None], axis=1)
    places = (last[:, None] * np.array(QUANTILES)).round().astype(np.intp)
    rows = np.arange(records)
    with np.errstate(invalid="ignore"):
        in_order = np.all(X[:, 1:] > X[:, :-1], axis=1) | np.all(X[:, 1:] < X[:, :-1], axis=1)
    most_frequent, at_most_frequent = _most_frequent(ordered)
    return Numbers(
        tuple(names),
        valid,
        distinct,
        smallest,
        largest,
        at_smallest,
        at_largest,
        ordered[at, np.minimum(at_smallest, last)],
        ordered[at, np.maximum(last - at_largest, 0)],
        ordered[at[:, None], places],
        whole,
        np.all(rows == X, axis=1) | np.all(rows + 1 == X, axis=1),
        in_order,
        most_frequent,
        at_most_frequent,
        _apart(ordered, valid),
    )


def _most_frequent(ordered: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The most frequent number of each row, and how often it is there. ``ordered`` ``(columns, records)``."""
    columns, records = ordered.shape
    if not ordered.size:
        return np.full(columns, np.nan), np.zeros(columns, dtype=np.int64)
    # Each NaN is another one.
    new = np.ones(ordered.shape, dtype=bool)
    np.not_equal(ordered[:, 1:], ordered[:, :-1], out=new[:, 1:])
    starts = np.flatnonzero(new)
    lengths, row = np.diff(starts, append=ordered.size), starts // records
    longest = np.maximum.reduceat(lengths, np.searchsorted(row, np.arange(columns)))
    chosen = np.flatnonzero(lengths == longest[row])
    first = chosen[np.searchsorted(row[chosen], np.arange(columns))]
    return ordered.ravel()[starts[first]], longest


def _apart(ordered: NDArray[np.float64], valid: NDArray[np.int64]) -> NDArray[np.int64]:
    """Cells of the smaller of two groups between which there is a gap far wider than each, also of their logarithms.

    ``ordered`` ``(columns, records)`` ends with NaN.
    """
    found = np.zeros(len(ordered), dtype=np.int64)
    if ordered.shape[1] < 2 * _FEWEST_APART or not len(ordered):
        return found
    columns, last = np.arange(len(ordered)), np.maximum(valid - 1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        for values, gap in ((ordered, _GAP), (np.log(np.where(ordered > 0, ordered, np.nan)), _GAP_IN_LOGS)):
            steps = np.nan_to_num(np.diff(values, axis=1), nan=-np.inf, neginf=-np.inf, posinf=-np.inf)
            at = steps.argmax(axis=1)
            rising = np.cumsum(steps > 0, axis=1)
            below, above = rising[columns, at], rising[:, -1] - rising[columns, at] + 1
            lower = values[columns, at] - values[:, 0]
            upper = values[columns, last] - values[columns, at + 1]
            smaller = np.minimum(at + 1, valid - at - 1)
            enough = (np.minimum(below, above) >= _FEWEST_APART) & (smaller >= _SHARE_APART * valid)
            # What two units are written in is seldom a rare exception.
            needed = np.where(smaller >= _OFTEN * valid, gap, _GAP)
            wide = steps[columns, at] > needed * np.maximum(lower, upper)
            found = np.where(enough & wide, smaller, found)
    return found


def _crossed(text: Text, codes: NDArray[np.int64], y: NDArray[np.int64], classes: int) -> Text:
    known = codes >= 0
    flat = np.bincount(codes[known] * classes + y[known], minlength=len(text.values) * classes)
    return Text(text.values, text.counts, flat.reshape(len(text.values), classes))


def _keys_of_numbers(X: NDArray[np.float64], names: Sequence[str]) -> NDArray[np.uint64]:
    # -0.0 is 0.0, and every NaN is the same: no learner can tell them apart.
    bits = (X + 0.0).view(np.uint64)
    bits[np.isnan(X)] = _NO_VALUE
    salts = np.array([hash(name) for name in names]).astype(np.uint64)
    mixed: NDArray[np.uint64] = _mixed(bits ^ salts[:, None]).sum(axis=0, dtype=np.uint64)
    return mixed


def _keys_of_text(values: pa.Array, codes: NDArray[np.int64], name: str) -> NDArray[np.uint64]:
    # Python's hashes differ from one process to the next, and are compared in this one alone.
    hashes = np.array([hash((name, value)) for value in (*values.to_pylist(), None)]).astype(np.uint64)
    mixed: NDArray[np.uint64] = _mixed(hashes)[codes]
    return mixed


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Bits that all depend on all (the finalizer of splitmix64, Steele et al. 2014)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = bits ^ (bits >> np.uint64(31))
    return mixed
