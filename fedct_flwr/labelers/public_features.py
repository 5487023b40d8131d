"""Features for private records that are learned from the public set alone, exact to the last bit.

Principal components: Rahimi, Recht, "Random features for large-scale kernel machines", NeurIPS 2007; Lopez-Paz et al.,
"Randomized nonlinear component analysis", ICML 2014.

Or bins of a table's columns, for a model that adds up one curve for each column: Nori, Caruana, Bu, Shen, Kulkarni,
"Accuracy, interpretability, and differential privacy via explainable boosting", ICML 2021. There histograms are summed
column by column in many rounds; here one sum holds the histograms of all columns, and the public set says how columns
hang together.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.metrics import pairwise_distances

from fedct_flwr.datasets.federated import as_numbers
from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.learners.preprocessing import standard
from fedct_flwr.learners.trained_model import apply
from fedct_flwr.types import DataError, Features, generator, random_state

NORM: Final = 1 << 20
"""No feature vector is longer, in units of the grid."""
Kind = Literal["kernel", "linear"]
_BIAS: Final = NORM // 4
_REST: Final = np.sqrt(float(NORM) ** 2 - float(_BIAS) ** 2) * (1 - 2.0**-30)  # its roundings stay within NORM
_COLUMN: Final = 1 << 12
_REACH: Final = 16 * _COLUMN
_WEIGHT: Final = 1 << 20
_LARGEST: Final = 1 << 35  # of all weights of a projection together, or its sums would not be exact
_TURN: Final = 1 << 12
_COSINES: Final = np.rint(np.cos(2 * np.pi * np.arange(_TURN) / _TURN) * _COLUMN)
_NUM_COSINES: Final = 1000
_FLATTENED: Final = 0.25
"""Principal components are divided by this power of their standard deviations: small ones are learned faster."""
_LEAST_VARIANCE: Final = 1e-6
"""Of the first component's."""
_ROWS: Final = 4096
_NUMBERS_AT_ONCE: Final = 1 << 22
"""Numbers of a block: intermediate results of one take some 100 MB."""
_FITTED_ON: Final = 10_000
_MOST_NUMBERS: Final = 1 << 28
"""Of all examples that are looked at, twice as large as they are in the public set: 2 GB."""
_HUGE: Final = 1e300
_COMPARED: Final = 500
_PIXELS: Final = 64
_NUMBERS: Final = "biuf"
"""Kinds of numpy types: booleans, integers, floating-point numbers."""


class _Map(NamedTuple):
    """``x @ weights - offset``, integers all: ``(n, inputs)`` to ``(n, outputs)``."""

    weights: NDArray[np.float64]
    offset: NDArray[np.float64]

    def __call__(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        # Exact, in whatever order sums are added: integers below 2**53.
        return np.asarray(X @ self.weights - self.offset)


class PublicFeatures:
    """A map from examples to integer vectors, no longer than ``NORM``; the last component is a constant.

    ``public`` ``(num_public, ...)``, at most 10,000 of them are looked at, and of images with more than 25,000 values
    as many as fill 2 GB of memory. Tables are imputed, scaled and one-hot, without their columns of text; images, and
    rows of at least 64 pixels in 0..1, are taken as they are. Of these columns at most ``num_components`` principal
    components are taken (``linear``), or those of 1,000 cosines of their random projections, which stand for a Gaussian
    kernel as wide as the examples are apart (``kernel``). Small components are enlarged, and every vector is made as
    long as may be.
    Raises DataError for features that are no numbers.

    Formal guarantees:
        Reads the public set and nothing else, so features release nothing about private records. The vector of a
        record depends on that record alone, to the last bit: columns are rounded to integers and all sums are of
        integers below 2**53, so neither the order of a sum nor the number of records in a batch can change a vector.
        (A product of floating-point matrices would: the last bit of a row depends on how many rows there are.)
    """

    def __init__(
        self, public: Features, schema: Schema, *, num_components: int = 60, kind: Kind = "kernel", seed: int
    ) -> None:
        self._shape, self._kept = public.shape[1:], None
        if schema.texts:
            self._kept = list(schema.without_texts)
            schema = replace(schema, columns=tuple(schema.columns[position] for position in self._kept))
            if not self._kept:
                raise DataError("features of the public set are made of numbers and categories: it holds text alone")
        public = self._without_texts(public)
        self._scaled = not _is_image(public, schema)
        self._schema = schema
        width = max(1, math.prod(public.shape[1:]))
        self._rows = max(1, min(_ROWS, _NUMBERS_AT_ONCE // width))
        fitted_on = max(1, min(_FITTED_ON, _MOST_NUMBERS // width))
        self._public = public[:: -(-len(public) // fitted_on)]
        self._kind = kind
        self._seed = seed
        self._num_components = num_components

    @property
    def size(self) -> int:
        """Length of the vectors."""
        return len(self._components.offset) + 1

    def check(self, X: Features) -> None:
        """Raise DataError unless records have the shape of public examples and are numbers. No value is looked at."""
        check_shape(X, self._shape, texts=self._kept is not None)

    def __call__(self, X: Features) -> NDArray[np.float64]:
        """Integers ``(n, size)``, of which each row's squares sum to at most ``NORM ** 2``; floats that hold them."""
        vectors = np.empty((len(X), self.size))
        for start in range(0, len(X), self._rows):
            rows = slice(start, start + self._rows)
            vectors[rows] = self._of(self._columns(self._without_texts(X[rows])))
        return vectors

    def _without_texts(self, X: Features) -> Features:
        return X if self._kept is None else X[:, self._kept].astype(np.float64)

    def _of(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        raw = self._components(self._bent(columns))
        # Component by component: numpy's own sums may add in another order where there are fewer rows.
        squares = np.zeros(len(raw))
        for component in raw.T:
            squares += component * component
        stretch = _REST / np.maximum(np.sqrt(squares), 1)
        vectors = np.full((len(raw), self.size), float(_BIAS))
        vectors[:, :-1] = np.trunc(raw * stretch[:, None])
        return vectors

    def _bent(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Input of the principal components, in ``_COLUMN``-ths."""
        if self._turns is None:
            return columns
        turned = np.floor(self._turns(columns) / (_COLUMN * _WEIGHT / _TURN))
        return np.asarray(_COSINES[(turned % _TURN).astype(np.intp)])

    def _columns(self, X: Features) -> NDArray[np.float64]:
        """Integers ``(n, columns)``, in ``_COLUMN``-ths."""
        X = as_numbers(X).astype(np.float64).reshape(len(X), -1)
        if self._scaled:
            # Infinite values must not fail: that would reveal one record.
            X = np.asarray(apply(self._transformer, np.clip(X, -_HUGE, _HUGE)))
        limit = _REACH / _COLUMN
        return np.asarray(np.rint(np.nan_to_num(np.clip(X, -limit, limit)) * _COLUMN))

    @cached_property
    def _transformer(self) -> Any:
        return standard(self._schema, self._public)

    @cached_property
    def _turns(self) -> _Map | None:
        """Angles of the cosines, in turns."""
        if self._kind == "linear":
            return None
        columns = self._fitted(self._columns)
        columns /= _COLUMN
        rng = generator(self._seed, "random features")
        compared = columns[rng.permutation(len(columns))[:_COMPARED]]
        flat = _flattened(columns, self._num_components, random_state(self._seed, "linear components"))
        distances = pairwise_distances(compared @ flat)
        width = float(np.median(distances[distances > 0])) if distances.any() else 1.0
        weights = flat @ rng.normal(0, _WEIGHT / (2 * np.pi * width), (flat.shape[1], _NUM_COSINES))
        weights *= np.minimum(1, _LARGEST / np.maximum(np.abs(weights).sum(axis=0), 1))
        return _Map(np.rint(weights), rng.integers(_COLUMN * _WEIGHT, size=_NUM_COSINES).astype(np.float64))

    @cached_property
    def _components(self) -> _Map:
        bent = self._fitted(lambda X: self._bent(self._columns(X)))
        mean = bent.mean(axis=0)
        bent /= _COLUMN
        seed = random_state(self._seed, "components")
        weights = np.rint(_flattened(bent, self._num_components, seed) * _WEIGHT)
        return _Map(weights, np.rint(mean @ weights))

    def _fitted(self, of: Callable[[Features], NDArray[np.float64]]) -> NDArray[np.float64]:
        """Transform the sampled examples, in blocks, as intermediate steps take several times the memory."""
        found = np.empty((len(self._public), of(self._public[:1]).shape[1]))
        for start in range(0, len(found), self._rows):
            rows = slice(start, start + self._rows)
            found[rows] = of(self._public[rows])
        return found


def check_shape(X: Features, shape: tuple[int, ...], *, texts: bool) -> None:
    """Raise DataError unless records have this shape and are numbers, or objects where some are ``texts``."""
    if X.shape[1:] != shape or X.dtype.kind not in ("O" if texts else _NUMBERS):
        raise DataError(
            f"examples of shape {X.shape[1:]} and type {X.dtype} do not fit a public set of shape {shape}: read both "
            "with the same schema"
        )


def _flattened(X: NDArray[np.float64], most: int, seed: int) -> NDArray[np.float64]:
    """Directions of principal components ``(columns, components)``, each enlarged, up to 5.6 times. Spoils ``X``."""
    pca = PCA(min(most, *X.shape), copy=False, random_state=seed).fit(X)
    share = pca.explained_variance_ / max(pca.explained_variance_[0], np.finfo(float).tiny)
    return np.asarray(pca.components_.T * (share + _LEAST_VARIANCE) ** (-_FLATTENED / 2))


def _is_image(public: Features, schema: Schema) -> bool:
    if public.dtype.kind not in _NUMBERS:
        raise DataError(f"features must be numbers, not {public.dtype}: encode text and dates first")
    if public.ndim != 2:
        return True
    pixels = public.dtype.kind == "f" and public.shape[1] >= _PIXELS and not schema.categorical
    # With a missing value it is no image: the comparison is false.
    return pixels and bool(public.min() >= 0 and public.max() <= 1)


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
