"""Features for private records that are learned from the public set alone, exact to the last bit.

Rahimi, Recht, "Random features for large-scale kernel machines", NeurIPS 2007, for the random ones.
"""

from functools import cached_property
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.metrics import pairwise_distances

from fedct_flwr.learners import preprocessing
from fedct_flwr.schema import Schema
from fedct_flwr.seeding import generator, random_state
from fedct_flwr.types import DataError, Features

NORM: Final = 1 << 20
"""No feature vector is longer, in units of the grid."""

Kind = Literal["pca", "random"]

_BIAS: Final = NORM // 4
_REST: Final = np.sqrt(float(NORM) ** 2 - float(_BIAS) ** 2) * (1 - 2.0**-30)  # its roundings stay within NORM
_COLUMN: Final = 1 << 12
_REACH: Final = 16 * _COLUMN
_WEIGHT: Final = 1 << 20
_LARGEST: Final = 1 << 35  # of all weights of a projection together, or its sums would not be exact
_TURN: Final = 1 << 12
_COSINES: Final = np.rint(np.cos(2 * np.pi * np.arange(_TURN) / _TURN) * _COLUMN)
_ROWS: Final = 4096
_FLATTENED = 0.5
_LEAST_VARIANCE: Final = 1e-4
_FITTED_ON: Final = 10_000
_COMPARED: Final = 500
_PIXELS: Final = 64


class PublicFeatures:
    """A map from examples to integer vectors, no longer than ``NORM``; the last component is a constant.

    ``public`` ``(num_public, ...)``, at most 10,000 of them are looked at. Tables are imputed, scaled and one-hot;
    images, and rows of at least 64 pixels in 0..1, are taken as they are. Then either the first ``num_components``
    principal components (``pca``), or as many cosines of random projections (``random``: a Gaussian kernel, as wide
    as the examples are apart).
    Raises DataError for features that are no numbers.

    Formal guarantees:
        Reads the public set and nothing else, so features release nothing about private records. The vector of a
        record depends on that record alone, to the last bit: columns are rounded to integers and all sums are of
        integers below 2**53, so neither the order of a sum nor the number of records in a batch can change a vector.
        (A product of floating-point matrices would: the last bit of a row depends on how many rows there are.)
    """

    def __init__(self, public: Features, schema: Schema, *, num_components: int, kind: Kind = "pca", seed: int) -> None:
        self._scaled = not _is_image(public, schema)
        self._schema = schema
        self._public = public[:: -(-len(public) // _FITTED_ON)]
        self._kind = kind
        self._seed = seed
        self._num_components = num_components

    @property
    def size(self) -> int:
        """Length of the vectors."""
        return len(self._offset) + 1

    def __call__(self, X: Features) -> NDArray[np.float64]:
        """Integers ``(n, size)``, of which each row's squares sum to at most ``NORM ** 2``; floats that hold them."""
        vectors = np.empty((len(X), self.size))
        for start in range(0, len(X), _ROWS):
            rows = slice(start, start + _ROWS)
            vectors[rows] = self._of(self._columns(X[rows]))
        return vectors

    def _of(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        raw = self._raw(columns)
        # Component by component: numpy's own sums may add in another order where there are fewer rows.
        squares = np.zeros(len(raw))
        for component in raw.T:
            squares += component * component
        shrink = _REST / np.maximum(np.sqrt(squares), self._length)
        vectors = np.full((len(raw), self.size), float(_BIAS))
        vectors[:, :-1] = np.trunc(raw * shrink[:, None])
        return vectors

    def _raw(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Before the length is bounded, ``(n, components)``."""
        projected = columns @ self._projection  # exact: integers below 2**53, in whatever order they are added
        if self._kind == "pca":
            return np.asarray((projected - self._offset) * self._stretch)
        turned = np.floor((projected + self._offset) / (_COLUMN * _WEIGHT / _TURN))
        return np.asarray(_COSINES[(turned % _TURN).astype(np.intp)])

    def _columns(self, X: Features) -> NDArray[np.float64]:
        """Integers ``(n, columns)``, in ``_COLUMN``-ths."""
        X = X.astype(np.float64).reshape(len(X), -1)
        if self._scaled:
            X = np.asarray(self._transformer.transform(X))
        limit = _REACH / _COLUMN
        return np.asarray(np.rint(np.nan_to_num(np.clip(X, -limit, limit)) * _COLUMN))

    @cached_property
    def _transformer(self) -> Any:
        return preprocessing.standard(self._schema, self._public)

    @cached_property
    def _fitted(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Projection ``(columns, components)`` and offset ``(components,)``, integers both."""
        columns = self._columns(self._public) / _COLUMN
        if self._kind == "pca":
            count = min(self._num_components, *columns.shape)
            pca = PCA(count, random_state=random_state(self._seed, "principal components")).fit(columns)
            projection = np.rint(pca.components_.T * _WEIGHT)
            return projection, np.rint(pca.mean_ @ projection * _COLUMN)
        rng = generator(self._seed, "random features")
        some = columns[rng.permutation(len(columns))[:_COMPARED]]
        distances = pairwise_distances(some)
        width = float(np.median(distances[distances > 0])) if distances.any() else 1.0
        # In turns, not radians.
        projection = rng.normal(0, _WEIGHT / (2 * np.pi * width), (columns.shape[1], self._num_components))
        projection *= np.minimum(1, _LARGEST / np.abs(projection).sum(axis=0))
        offset = rng.integers(_COLUMN * _WEIGHT, size=self._num_components)
        return np.rint(projection), offset.astype(np.float64)

    @property
    def _projection(self) -> NDArray[np.float64]:
        return self._fitted[0]

    @property
    def _offset(self) -> NDArray[np.float64]:
        return self._fitted[1]

    @cached_property
    def _stretch(self) -> NDArray[np.float64]:
        """For each principal component: small ones are made larger, as steps of descent are the same for all."""
        variances = ((self._columns(self._public) @ self._projection - self._offset) ** 2).mean(axis=0)
        return np.asarray(np.maximum(variances / max(1.0, variances.max()), _LEAST_VARIANCE) ** (-_FLATTENED / 2))

    @cached_property
    def _length(self) -> float:
        """What becomes length one: the median of the public examples. Longer ones are shortened."""
        if self._kind == "random":
            return 1.0
        raw = self._raw(self._columns(self._public))
        return max(1.0, float(np.median(np.sqrt((raw * raw).sum(axis=1)))))


def _is_image(public: Features, schema: Schema) -> bool:
    if public.dtype.kind not in "biuf":
        raise DataError(f"features must be numbers, not {public.dtype}: encode text and dates first")
    if public.ndim != 2:
        return True
    pixels = public.dtype.kind == "f" and public.shape[1] >= _PIXELS and not schema.categorical
    # With a missing value it is no image: the comparison is false.
    return pixels and bool(public.min() >= 0 and public.max() <= 1)
