"""Bins of a table's columns, cut by the public set alone: features of a model that adds up one curve for each column.

Additive models by noisy histograms: Nori, Caruana, Bu, Shen, Kulkarni, "Accuracy, interpretability, and differential
privacy via explainable boosting", ICML 2021. There histograms are summed column by column in many rounds; here one sum
holds the histograms of all columns, and the public set says how columns hang together.
"""

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.labelers.public_features import NORM, check_shape
from fedct_flwr.types import DataError, Features

_BIAS: Final = NORM // 4
_FENCE: Final = 1.5
"""Interquartile ranges beyond the quartiles, from where on a value is far out (Tukey 1977)."""
_FAR_OUT: Final = 0.01
"""The least share of public values beyond a fence for which it is one: of a normal distribution's .0035 are."""
_FEWEST_FAR_OUT: Final = 5
"""And the fewest, as in a small public set one or two are there by accident."""


class _Cuts(NamedTuple):
    """The bins of one column. The last bin is for missing values."""

    position: int
    cuts: NDArray[np.float64]
    """Sorted; a bin holds what is above one cut and at most the next."""
    order: NDArray[np.intp]
    """From places between cuts to bins ``(len(cuts) + 1,)``: rare categories share one."""
    size: int
    """Bins."""


class PublicBins:
    """A map from rows of a table to integer vectors: the same number at the bin of each column, zero elsewhere.

    ``public`` ``(num_public, columns)``. A numeric column has at most ``bins`` bins with about as many public values
    each. Where many lie far out, those on either side have one bin more, as in skewed columns they tell the most. A
    categorical column has a bin for each of its ``bins`` most frequent categories and one for all others; missing
    values have a bin of their own. Columns of text are left out. The last component is a constant. A linear model on
    these features adds up one number for each column's bin, so people can read it. Raises DataError for what is no
    table of numbers and categories.

    Formal guarantees:
        Reads the public set and the schema, so features release nothing about private records. The vector of a record
        depends on that record alone, to the last bit: it is found by comparisons alone. Each vector has the same
        length, at most ``NORM``, whatever the values are, and however many columns count.
    """

    def __init__(self, public: Features, schema: Schema, *, bins: int) -> None:
        if public.ndim != 2 or not schema.columns:
            raise DataError("additive labelers are for tables: choose a linear one for images")
        if not schema.without_texts:
            raise DataError("bins of the public set are made of numbers and categories: it holds text alone")
        self._width, self._texts = public.shape[1:], bool(schema.texts)
        self.check(public)
        self._columns = [
            _cut(position, schema.columns[position], _values(public, position), bins)
            for position in schema.without_texts
        ]
        self._column_of = np.repeat(np.arange(len(self._columns)), [column.size for column in self._columns])

    @property
    def size(self) -> int:
        """Length of the vectors."""
        return sum(column.size for column in self._columns) + 1

    @property
    def num_columns(self) -> int:
        """Columns that have bins."""
        return len(self._columns)

    def height(self, num_columns: int) -> int:
        """The number at a bin where ``num_columns`` count: with the constant, squares sum to at most NORM ** 2."""
        return math.isqrt((NORM**2 - _BIAS**2) // num_columns)

    def chosen(self, scores: NDArray[np.float64], most: int) -> NDArray[np.bool_]:
        """Which components belong to the ``most`` columns with the highest sums of ``scores`` ``(size - 1,)``."""
        sums = np.bincount(self._column_of, weights=scores, minlength=self.num_columns)
        return np.asarray(np.isin(self._column_of, np.argsort(-sums, kind="stable")[:most]))

    def seen(self, vectors: NDArray[np.float64], counting: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Vectors of the columns that have a component ``(size,)`` which counts alone; of all if none has.

        The fewer columns count, the larger are their numbers, and the less the same noise hides of them.
        """
        used = np.bincount(self._column_of, weights=counting[:-1], minlength=self.num_columns) > 0
        if used.all() or not used.any():
            return vectors
        seen = vectors.copy()
        seen[:, :-1] = (vectors[:, :-1] > 0) * (used[self._column_of] * self.height(int(used.sum())))
        return seen

    def check(self, X: Features) -> None:
        """Raise DataError unless records have the shape of public examples and are numbers. No value is looked at."""
        check_shape(X, self._width, texts=self._texts)

    def __call__(self, X: Features) -> NDArray[np.float64]:
        """Integers ``(n, size)``, of which each row's squares sum to at most ``NORM ** 2``; floats that hold them."""
        vectors = np.zeros((len(X), self.size))
        vectors[:, -1] = _BIAS
        start = 0
        for column in self._columns:
            values = _values(X, column.position)
            # As a quantile may be a value: what equals a cut is below it.
            found = column.order[np.searchsorted(column.cuts, values, side="left")]
            found[np.isnan(values)] = column.size - 1
            vectors[np.arange(len(X)), start + found] = self.height(self.num_columns)
            start += column.size
        return vectors


def _values(X: Features, position: int) -> NDArray[np.float64]:
    return np.asarray(X[:, position], dtype=np.float64)


def _cut(position: int, column: Column, values: NDArray[np.float64], bins: int) -> _Cuts:
    known = values[np.isfinite(values)]
    if column.categories is not None:
        return _categories(position, len(column.categories), known, bins)
    distinct = np.unique(known)
    if len(distinct) <= bins:
        # Halves first: their sum could overflow.
        cuts = distinct[:-1] / 2 + distinct[1:] / 2
    else:
        cuts = np.quantile(known, np.arange(1, bins) / bins, method="lower")
        cuts = np.unique(np.concatenate([cuts, _fences(known)]))
    return _Cuts(position, cuts.astype(np.float64), np.arange(len(cuts) + 1), len(cuts) + 2)


def _fences(known: NDArray[np.float64]) -> list[float]:
    """Tukey's fences, each only where more values lie beyond it than chance explains."""
    low, high = np.quantile(known, (0.25, 0.75), method="lower")
    with np.errstate(over="ignore"):  # what overflows is no fence
        below, above = low - _FENCE * (high - low), high + _FENCE * (high - low)
    far = ((below, known < below), (above, known > above))
    enough = max(_FAR_OUT * len(known), _FEWEST_FAR_OUT)
    return [float(fence) for fence, beyond in far if np.isfinite(fence) and beyond.sum() >= enough]


def _categories(position: int, categories: int, known: NDArray[np.float64], bins: int) -> _Cuts:
    """Categories are positions 0, 1, ...; one more is for a value that the public set does not have."""
    counts = np.bincount(np.clip(np.rint(known), 0, categories).astype(np.intp), minlength=categories + 1)
    frequent = np.sort(np.argsort(-counts[:-1], kind="stable")[:bins])
    order = np.full(categories + 1, len(frequent), dtype=np.intp)
    order[frequent] = np.arange(len(frequent))
    cuts = np.arange(categories, dtype=np.float64) + 0.5
    return _Cuts(position, cuts, order, len(frequent) + 2)
