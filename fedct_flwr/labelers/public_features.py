"""Features for private records that are learned from the public set alone, exact to the last bit.

Rahimi, Recht, "Random features for large-scale kernel machines", NeurIPS 2007; their principal components: Lopez-Paz et
al., "Randomized nonlinear component analysis", ICML 2014.
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
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.learners import preprocessing
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
            X = np.asarray(preprocessing.apply(self._transformer, np.clip(X, -_HUGE, _HUGE)))
        limit = _REACH / _COLUMN
        return np.asarray(np.rint(np.nan_to_num(np.clip(X, -limit, limit)) * _COLUMN))

    @cached_property
    def _transformer(self) -> Any:
        return preprocessing.standard(self._schema, self._public)

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
