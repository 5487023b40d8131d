"""Images and text as ``learner = "auto"`` takes them: views, each a fitted transformer, for candidates of their own.

Of images: typical patches, and pixels. Of tables with text: the table without it, and all columns with the TF-IDF of
words. A. Coates, A. Y. Ng, H. Lee, "An analysis of single-layer networks in unsupervised feature learning", AISTATS
2011: the centers of k-means over whitened patches, by distance, summed over regions.

Formal guarantees: patches are learned from the public set alone, and an image's features depend on that image alone.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, Self

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.cluster import MiniBatchKMeans

from fedct_flwr.datasets.federated import AXES, as_numbers
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.learners import preprocessing
from fedct_flwr.learners.automatic import BOOSTED, Candidate, Views
from fedct_flwr.learners.catalog import TFIDF
from fedct_flwr.learners.out_of_fold import one_thread
from fedct_flwr.learners.preprocessing import Stateless
from fedct_flwr.types import Features

_PIXELS: Final = 1024
"""Values of an image that trees and linear models get at most."""
_SIDE: Final = 32
"""Pixels of the longer side of an image whose patches are looked at."""
_PATCHES: Final = (3, 6)
"""Pixels of a patch's side: a quarter of the image's shorter one, but no fewer and no more."""
_CENTERS: Final = 64
_REGIONS: Final = 3
"""Regions along each side, in each of which patches are summed."""
_LEARNED_FROM: Final = 500
"""Public images whose patches are looked at."""
_LEARNED: Final = 20_000
"""Patches that centers are learned from."""
_AT_ONCE: Final = 100
_CONTRAST: Final = 0.01
_WHITENING: Final = 0.1
_DECIMALS: Final = 4
"""Digits that are kept: how sums are added up on another number of threads must decide nothing."""


class Pixels(Stateless):
    """The mean of each square of pixels, whose side is as short as leaves 1,024 values at most."""

    def transform(self, X: Features) -> NDArray[np.float64]:
        """Images ``(n, channels, height, width)`` as rows ``(n, values)``."""
        side = 1
        while _values(X.shape[1:], side) > _PIXELS:
            side += 1
        return _in_parts(X, lambda images: _shrunk(images, side).reshape(len(images), -1))


class Patches(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """How near the patches of each of nine regions are to 64 typical ones, in units of the public set's spread."""

    mean_: NDArray[np.float32]
    whitening_: NDArray[np.float32]
    centers_: NDArray[np.float32]
    offset_: NDArray[np.float64]
    scale_: NDArray[np.float64]

    def fit(self, X: Features, y: Any = None) -> Self:
        """Learn typical patches from at most 500 images ``(n, channels, height, width)``, spread over all of them."""
        some = X[:: -(-len(X) // _LEARNED_FROM)]
        rng = np.random.default_rng(0)
        found = np.concatenate([_patches(part).reshape(-1, _patches(part[:1]).shape[-1]) for part in _parts(some)])
        found = found[np.sort(rng.permutation(len(found))[:_LEARNED])]
        self.mean_ = found.mean(axis=0)
        found = found - self.mean_
        variances, directions = np.linalg.eigh(found.T.astype(np.float64) @ found / len(found))
        spread = np.sqrt(np.maximum(variances, 0) + _WHITENING)
        self.whitening_ = ((directions / spread) @ directions.T).astype(np.float32)
        whitened = found @ self.whitening_
        # Of images of one color all patches are the same one.
        different = len(np.unique(whitened[:: -(-len(whitened) // 1000)], axis=0))
        with one_thread():
            means = MiniBatchKMeans(min(_CENTERS, different), random_state=0, n_init=1).fit(whitened)
        self.centers_ = means.cluster_centers_.astype(np.float32)
        features = self._features(some)
        self.offset_, deviation = features.mean(axis=0), features.std(axis=0)
        self.scale_ = np.where(deviation > 10.0**-_DECIMALS, deviation, 1.0)
        return self

    def transform(self, X: Features) -> NDArray[np.float64]:
        """Rows ``(n, regions * centers)``."""
        return np.asarray(np.round((self._features(X) - self.offset_) / self.scale_, _DECIMALS))

    def _features(self, X: Features) -> NDArray[np.float64]:
        return _in_parts(X, self._of)

    def _of(self, images: Features) -> NDArray[np.float32]:
        whitened = (_patches(images) - self.mean_) @ self.whitening_
        squares = (whitened**2).sum(axis=-1, keepdims=True) + (self.centers_**2).sum(axis=1)
        distances = np.sqrt(np.maximum(squares - 2 * whitened @ self.centers_.T, 0))
        near = np.maximum(distances.mean(axis=-1, keepdims=True) - distances, 0)
        rows, columns = _regions(near.shape[1]), _regions(near.shape[2])
        sums = [near[:, row, column].mean(axis=(1, 2)) for row in rows for column in columns]
        return np.concatenate(sums, axis=1)


def patches_of(public: Features) -> Patches:
    """Those of a public set, learned once in a process for the same images."""
    some = public[:: -(-len(public) // _LEARNED_FROM)]
    return _learned(some.tobytes(), some.shape, some.dtype)


@lru_cache(maxsize=4)
def _learned(images: bytes, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Patches:
    return Patches().fit(np.frombuffer(images, dtype).reshape(shape))


def _values(shape: tuple[int, ...], side: int) -> int:
    channels, height, width = shape
    return int(channels * -(-height // side) * -(-width // side))


def _parts(X: Features) -> Iterator[Features]:
    for start in range(0, len(X), _AT_ONCE):
        yield X[start : start + _AT_ONCE]


def _in_parts(X: Features, of: Callable[[Features], NDArray[Any]]) -> NDArray[np.float64]:
    # Some at a time: steps on the way take hundreds of times the memory.
    if not len(X):
        return of(np.zeros((1, *X.shape[1:]), dtype=X.dtype))[:0].astype(np.float64)
    return np.concatenate([of(part) for part in _parts(X)]).astype(np.float64)


def _shrunk(images: Features, side: int) -> NDArray[np.float32]:
    """The means of squares ``(n, channels, height, width)``; those at the edge are as large as there is image."""
    numbers: NDArray[Any] = as_numbers(images).astype(np.float32, copy=False)
    if side == 1:
        return np.asarray(numbers, dtype=np.float32)
    for axis in (2, 3):
        starts = np.arange(0, numbers.shape[axis], side)
        sizes = np.diff(np.append(starts, numbers.shape[axis])).astype(np.float32)
        shape = [1, 1, 1, 1]
        shape[axis] = len(starts)
        numbers = np.add.reduceat(numbers, starts, axis=axis) / sizes.reshape(shape)
    return np.asarray(numbers, dtype=np.float32)


def _patches(images: Features) -> NDArray[np.float32]:
    """All patches ``(n, rows, columns, values)``, of the same brightness and contrast."""
    small = _shrunk(images, max(1, -(-max(images.shape[2:]) // _SIDE)))
    least, most = _PATCHES
    side = min(max(min(small.shape[2:]) // 4, least), most)
    height, width = (min(side, length) for length in small.shape[2:])
    windows = sliding_window_view(small, (height, width), axis=(2, 3)).transpose(0, 2, 3, 1, 4, 5)
    found = windows.reshape(*windows.shape[:3], -1)
    found = found - found.mean(axis=-1, keepdims=True)
    return np.asarray(found / np.sqrt(found.var(axis=-1, keepdims=True) + _CONTRAST), dtype=np.float32)


def _regions(length: int) -> list[slice]:
    """Up to three stretches of a length, together all of it."""
    edges = np.linspace(0, length, min(_REGIONS, length) + 1).astype(int)
    return [slice(first, last) for first, last in pairwise(edges)]


PATCHES: Final = "patches"
PIXELS: Final = "pixels"
TABLE: Final = "the other columns"
WORDS: Final = "all columns"
_OF_IMAGES: Final = (
    # Features are many and correlated: stronger than the default, which is best at no size of silo.
    Candidate("logistic-regression", strength=0.1, view=PATCHES),
    Candidate("random-forest", leaf=3, view=PATCHES),
    Candidate("random-forest", leaf=3, view=PIXELS),
)
_OF_TABLES: Final = (
    Candidate("logistic-regression", view=TABLE),
    Candidate("random-forest", leaf=3, view=TABLE),
    Candidate(BOOSTED, view=TABLE),
)
_OF_TEXT: Final = Candidate(TFIDF, view=WORDS)


def views_for(schema: Schema, *references: Features) -> Views | None:
    """The views of such examples, images' fitted to the first ``references``; None for tables. Raises DataError."""
    if references[0].ndim == AXES:
        return Views({PATCHES: patches_of(references[0]), PIXELS: Pixels()}, _OF_IMAGES, _OF_IMAGES[0], PATCHES)
    if not schema.texts:
        return None
    words = preprocessing.standard(schema, *references, texts=preprocessing.Words())
    if not schema.without_texts:
        return Views({WORDS: words}, (_OF_TEXT,), _OF_TEXT, "")
    table = preprocessing.standard(schema, *references)
    linear, *trees = _OF_TABLES
    return Views({TABLE: table, WORDS: words}, (linear, _OF_TEXT, *trees), _OF_TEXT, TABLE)
