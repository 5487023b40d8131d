"""Imputing, scaling and one-hot encoding for tables, with statistics of the public set and the silo's own data.

What is fitted is scikit-learn's ``ColumnTransformer``, which model files and ONNX files know. It is fitted and applied
here in fewer steps, to the same bits: a thousand silos that prepare the same public set spend most of a round on it.

Two columns of 5,000 categories in 20,000 public examples are a file of half a megabyte, and 1.6 GB one-hot. Beyond
``MOST_VALUES`` the rarest categories get no column: their examples have zeros in all columns of the category.
"""

import copy
import sys
import weakref
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache, partial
from typing import Any, Final, Literal, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fedct_flwr.datasets.schema import Schema
from fedct_flwr.learners.stateless import Stateless
from fedct_flwr.types import DataError, Features, TrainingError

MOST_VALUES: Final = 1 << 26
"""Values of one-hot columns, of all examples that are learned from (512 MB in double precision)."""
_FREQUENT: Final = 0.001
"""Share of the examples from which on a category is kept in any case: no column has more than 1,000 of them."""


def kept(counts: Sequence[NDArray[np.int64]], examples: int) -> list[NDArray[np.bool_]]:
    """Which categories of each column are kept, ``(categories,)`` each, of how many examples each has; one at least.

    >>> [mask.tolist() for mask in kept([np.array([3, 1]), np.array([2, 2])], 4)]
    [[True, True], [True, True]]
    """
    room = MOST_VALUES // max(1, examples)
    # Of equally rare ones all go or none: which of them stays should not depend on their order.
    ordered = np.sort(np.concatenate([*counts, np.zeros(0, np.int64)]))[::-1]
    least = ordered[room] + 1 if room < len(ordered) else 0
    return [own >= min(least, _FREQUENT * examples, own.max(initial=0)) for own in counts]


_IMAGES: Final = 4
"""Axes of images."""
_NUMERIC: Final = "numeric"
_CATEGORICAL: Final = "categorical"
_MISSING: Final = -1
"""The category of a missing value."""
_BLOCK: Final = 512
_BLOCK_VALUES: Final = 1 << 22
"""Values of numeric columns that are copied at a time, to be scaled (32 MB)."""
_NARROW: Final = 1000
"""One-hot columns up to which all examples are predicted at once, to the bit as ever."""
_OF_WORDS: Final[dict[str, Any]] = {"sublinear_tf": True, "ngram_range": (1, 2)}
_MOST_WORDS: Final = 50_000


def fitted(kind: str, schema: Schema, *references: Features, texts: Any = None) -> Any:
    """What a learner's ``preprocessing`` calls for, fitted to all of these examples; None where nothing is to be done.

    That is so with 'none', and with images, which are numbers in 0..1 as they come. ``texts``, and errors, are as for
    ``standard``.
    """
    if kind == "none" or references[0].ndim == _IMAGES:
        return None
    return standard(schema, *references, texts=texts)


def standard(schema: Schema, *references: Features, texts: Any = None) -> Any:
    """A fitted transformer: numeric columns imputed by their mean and scaled, categorical ones one-hot.

    A missing category becomes a category of its own. Columns of text are left out, or become what a copy of the
    transformer ``texts`` makes of each of them; with ``Words`` the result is sparse. ``references``, each
    ``(n, columns)``, are the examples whose statistics are used, as if below one another: the public set and the silo's
    own private data, nothing else.
    Raises DataError where features are no table.
    """
    for reference in references:
        if reference.ndim != 2:
            raise DataError(
                f"preprocessing = 'standard' is for tables, but features have shape {reference.shape[1:]}: use 'none'"
            )
    if schema.texts:
        return _beside_text(schema, np.concatenate(references) if len(references) > 1 else references[0], texts)
    width = references[0].shape[1]
    known = _known(references, schema.categorical)
    try:
        fitted = copy.copy(_encoding(width, schema.categorical, known))
        fitted.transformers_ = [
            (name, _fitted_scaling(references, columns) if name == _NUMERIC and columns else step, columns)
            for name, step, columns in fitted.transformers_
        ]
    except ValueError as error:
        raise DataError(f"the features cannot be preprocessed: {error}") from error
    return fitted


def _beside_text(schema: Schema, reference: Features, texts: Any) -> Any:
    """The transformer for examples with columns of text, fitted: what is fitted fast otherwise, and words if asked for.

    Raises DataError where there is nothing to learn.
    """
    categorical = list(schema.categorical)
    numeric = [i for i in range(reference.shape[1]) if i not in categorical and i not in schema.texts]
    # Strings make all values of an array objects.
    encode = make_pipeline(Numbers(), *(step for _, step in _encoder().steps))
    scale = make_pipeline(Numbers(), *(step for _, step in _scaling().steps))
    parts = [(_NUMERIC, scale, numeric), (_CATEGORICAL, encode, categorical)]
    words = [(f"text{i}", clone(texts), i) for i in schema.texts] if texts is not None else []
    transformer = ColumnTransformer(parts + words, **({"sparse_threshold": 1.0} if isinstance(texts, Words) else {}))
    try:
        return transformer.fit(as_input(_without_rare(reference, categorical)))
    except ValueError as error:
        raise DataError(f"the features cannot be preprocessed: {error}") from error


def _without_rare(reference: Features, categorical: Sequence[int]) -> Features:
    """The examples, with a frequent category in place of those that get no column; what is fitted knows no others."""
    columns = [reference[:, position].astype(np.float64) for position in categorical]
    found = _known([np.column_stack(columns)], range(len(columns))) if columns else ()
    replaced = reference
    for position, column, known in zip(categorical, columns, found, strict=True):
        whole = _whole(column)
        if (rare := ~np.isin(whole, known)).any():
            replaced = replaced.copy() if replaced is reference else replaced
            replaced[rare, position] = np.nan if known[0] == _MISSING else known[0]
    return replaced


def transformed(transformer: Any, X: Features) -> Features:
    """Features that have gone through a fitted transformer (None for none). Raises TrainingError if they cannot."""
    try:
        return X if transformer is None else apply(transformer, X)
    except Exception as error:
        raise TrainingError(f"the features could not be preprocessed: {error}") from error


def apply(transformer: Any, *parts: Features, single: bool = False) -> Features:
    """What ``transformer.transform`` gives of examples in several parts ``(n, columns)``, as if below one another.

    For any transformer; raises what that raises. ``single``: whoever takes it rounds to single precision, so that it
    may be rounded here.
    """
    parts = tuple(map(as_input, parts))
    steps = _own_steps(transformer, parts)
    if steps is None:
        found: Features = transformer.transform(np.concatenate(parts) if len(parts) > 1 else parts[0])
        return found
    numeric = steps.get(_NUMERIC)
    if _CATEGORICAL not in steps:
        return _scaled(steps[_NUMERIC], parts)
    offset, step = len(numeric.columns) if numeric else 0, steps[_CATEGORICAL]
    width = sum(map(len, step.last.categories_))
    # As NumPy puts them next to each other: what learners sum up in which order depends on it.
    order: Literal["F", "C"] = "F" if offset and width == 1 else "C"
    together = np.zeros((sum(map(len, parts)), offset + width), np.float32 if single else np.float64, order)
    end = 0
    for part in parts:
        shared = None if part.flags.writeable else once(part, step.last, partial(_encoded, step, part, width))
        # Some rows at a time, which then are in the processor's cache, and need no other copy.
        for start in range(0, len(part), _BLOCK):
            X = part[start : start + _BLOCK]
            rows = slice(end, end := end + len(X))
            if numeric:
                together[rows, :offset] = _scaled(numeric, [X])
            if shared is None:
                _encode(step, X, together[rows, offset:])
            else:
                together[rows, offset:] = shared[start : start + _BLOCK]
    return together


def rows_at_a_time(transformer: Any) -> int:
    """How many examples of a table are encoded at once when they are predicted: fewer of those with very many columns.

    >>> rows_at_a_time(None) > 1_000_000_000
    True
    """
    fitted = getattr(transformer, "named_transformers_", {}).get(_CATEGORICAL)
    encoder = fitted.steps[-1][1] if isinstance(fitted, Pipeline) else None
    # Without categorical columns it is there, and not fitted.
    width = sum(map(len, getattr(encoder, "categories_", ())))
    return max(1, MOST_VALUES // width) if width > _NARROW else sys.maxsize


def _encoded(step: "_Step", X: NDArray[np.float64], width: int) -> NDArray[np.bool_]:
    """The categories of all rows, one-hot ``(n, width)``."""
    found = np.zeros((len(X), width), dtype=np.bool_)
    _encode(step, X, found)
    return found


def _encode(step: "_Step", X: NDArray[np.float64], found: NDArray[Any]) -> None:
    """Put a one where the category is, in rows of zeros."""
    rows, offset = np.arange(len(X)), 0
    for position, known in zip(step.columns, step.last.categories_, strict=True):
        values = _whole(X[:, position])
        at = np.minimum(np.searchsorted(known, values), len(known) - 1)
        found[rows, offset + at] = known[at] == values
        offset += len(known)


class _Step(NamedTuple):
    """What one of the two kinds of columns goes through, and which columns those are."""

    imputer: SimpleImputer
    last: Any
    columns: Any


@lru_cache(maxsize=64)
def _encoding(num_columns: int, categorical: tuple[int, ...], known: tuple[tuple[float, ...], ...]) -> Any:
    """The transformer of all whose categorical columns hold these values, fitted but for the numeric columns.

    By a table of as many rows as a column has values, in place of all examples: what is learned of a categorical column
    is which values it has.
    """
    table = np.zeros((max(map(len, known), default=1), num_columns))
    for position, values in zip(categorical, known, strict=True):
        table[:, position] = np.resize(np.array(values), len(table))
    others = set(categorical)
    # A column nobody here has ever measured stays, as zeros: silos and public set keep the same columns.
    numeric = [position for position in range(num_columns) if position not in others]
    found = ColumnTransformer([(_NUMERIC, _scaling(), numeric), (_CATEGORICAL, _encoder(), list(categorical))])
    found.fit(table)
    return found


def _encoder() -> Pipeline:
    return make_pipeline(
        SimpleImputer(strategy="constant", fill_value=_MISSING, keep_empty_features=True),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    )


def _scaling() -> Pipeline:
    return make_pipeline(SimpleImputer(strategy="mean", keep_empty_features=True), StandardScaler())


def _fitted_scaling(references: Sequence[Features], columns: Sequence[int]) -> Pipeline:
    """The steps of numeric columns, as ``Pipeline.fit`` would leave them; some columns at a time, to spare memory."""
    each = max(1, _BLOCK_VALUES // max(1, sum(map(len, references))))
    parts = [_scaled_block(_stacked(references, columns[at : at + each])) for at in range(0, len(columns), each)]
    if len(parts) == 1:
        return parts[0]
    steps = _scaling_alike(len(columns))
    for position, names in enumerate([("statistics_",), ("mean_", "var_", "scale_")]):
        for name in names:
            setattr(steps[position], name, np.concatenate([getattr(part[position], name) for part in parts]))
    steps[1].n_samples_seen_ = parts[0][1].n_samples_seen_
    return steps


def _scaled_block(block: NDArray[np.float64]) -> Pipeline:
    """The same for all of a few columns ``(n, columns)``."""
    if np.isnan(block).any():
        return _scaling().fit(block)
    # Where nothing is missing, a masked copy of all of it says no more than its mean, and filling it in gives it back.
    steps = _scaling_alike(block.shape[1])
    steps[0].statistics_ = block.sum(axis=0) / len(block)
    steps[1].fit(block)
    return steps


def _scaling_alike(columns: int) -> Pipeline:
    """The steps of so many numeric columns, fitted but for what they learn of the values."""
    return make_pipeline(*(copy.copy(step) for _, step in _scaling_of_zeros(columns).steps))


@lru_cache(maxsize=16)
def _scaling_of_zeros(columns: int) -> Pipeline:
    return _scaling().fit(np.zeros((1, columns)))


def _known(references: Sequence[Features], categorical: Sequence[int]) -> tuple[tuple[float, ...], ...]:
    """The values that each categorical column has in any of the references, sorted; without rare ones of very many."""
    found = []
    for position in categorical:
        each = [once(part, position, partial(_values_in, part, position)) for part in references]
        found.append(np.unique(np.concatenate(each)))
    rows = sum(map(len, references))
    if rows * sum(map(len, found)) > MOST_VALUES:
        masks = kept([_cells_of(references, *of) for of in zip(categorical, found, strict=True)], rows)
        found = [values[mask] for values, mask in zip(found, masks, strict=True)]
    return tuple(tuple(values.tolist()) for values in found)


def _cells_of(references: Sequence[Features], position: int, values: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
    """How many cells of a categorical column hold each of all its values, ``(values,)``."""
    columns = [np.asarray(part[:, position], np.float64) for part in references]
    at = [np.searchsorted(values, _whole(column)) for column in columns]
    return np.bincount(np.concatenate(at), minlength=len(values))


def _values_in(part: Features, position: int) -> NDArray[np.floating[Any]]:
    return _values(part[:, position])


def _whole(column: NDArray[np.float64]) -> NDArray[np.float64]:
    """A categorical column ``(n,)`` with the number of what is missing in place of NaN."""
    return np.where(np.isnan(column), _MISSING, column)


def _values(column: NDArray[np.float64]) -> NDArray[np.floating[Any]]:
    """The values that a categorical column has, sorted."""
    whole = _whole(column)
    codes = whole.astype(np.int64) - _MISSING if np.abs(whole).max(initial=0.0) < len(column) else None
    if codes is None or codes.min(initial=0) < 0 or (codes + _MISSING != whole).any():
        return np.unique(whole)
    # Positions among the categories, as a table's columns have them: counted many times faster than sorted.
    counted: NDArray[np.floating[Any]] = np.flatnonzero(np.bincount(codes)) + float(_MISSING)
    return counted


def _own_steps(transformer: Any, parts: Sequence[Features]) -> dict[str, _Step] | None:
    """The steps of a transformer that ``standard`` makes; None for others, and where scikit-learn would object."""
    if type(transformer) is not ColumnTransformer or any(X.ndim != 2 for X in parts) or not any(map(len, parts)):
        return None
    found = {}
    for name, step, columns in transformer.transformers_:
        if name not in (_NUMERIC, _CATEGORICAL) or type(step) is not Pipeline or len(step.steps) != 2:
            return None
        if not len(columns):
            continue
        imputer, last = (part for _, part in step.steps)
        wanted = StandardScaler if name == _NUMERIC else OneHotEncoder
        if type(imputer) is not SimpleImputer or type(last) is not wanted or len(columns) != last.n_features_in_:
            return None
        found[name] = _Step(imputer, last, columns)
    sizes = sum(len(step.columns) for step in found.values())
    fits = all(transformer.n_features_in_ == X.shape[1] == sizes and not np.isinf(X).any() for X in parts)
    return found if found and fits else None


def _scaled(step: _Step, parts: Sequence[Features]) -> NDArray[np.float64]:
    found = _stacked(parts, step.columns)
    missing = np.isnan(found)
    if missing.any():
        np.copyto(found, step.imputer.statistics_, where=missing)
    found -= step.last.mean_
    found /= step.last.scale_
    return found


def _stacked(parts: Sequence[Features], columns: Sequence[int]) -> NDArray[np.float64]:
    """Some columns of several tables below one another, a column after the other in memory: sums depend on that."""
    size = sum(map(len, parts))
    if size * len(columns) <= _BLOCK_VALUES:
        found: NDArray[np.float64] = np.concatenate([part[:, columns] for part in parts], dtype=np.float64)
        return found if found.flags.f_contiguous else np.array(found, order="F")
    # Copied once, where a copy of all of it counts.
    found, start = np.empty((size, len(columns)), order="F"), 0
    for part in parts:
        rows = found[start : start + len(part)]
        if list(columns) == list(range(columns[0], columns[0] + len(columns))):
            rows[:] = part[:, columns[0] : columns[0] + len(columns)]
        else:
            for position, column in enumerate(columns):
                rows[:, position] = part[:, column]
        start += len(part)
    return found


def as_input(X: Features) -> Features:
    """Features as transformers take them: tables in double precision, images and objects (text) as they are."""
    return X if X.dtype == np.object_ or X.ndim == _IMAGES else X.astype(np.float64, copy=False)


class Words(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Scikit-learn's TF-IDF of words and pairs of words, the most frequent 50,000 of them.

    Kept as one text and one array, where the vectorizer itself would be a part of a model file for each word.
    """

    words_: str
    weights_: NDArray[np.float64]

    def fit(self, texts: Sequence[str], y: Any = None) -> Self:
        """Learn words and how rare they are from strings ``(n,)``. Raises ValueError where there is no word."""
        vectorizer = TfidfVectorizer(max_features=_MOST_WORDS, **_OF_WORDS).fit(texts)
        self.words_ = "\n".join(vectorizer.get_feature_names_out())
        self.weights_ = vectorizer.idf_
        return self

    def transform(self, texts: Sequence[str]) -> Any:
        """A sparse matrix ``(n, words)``."""
        vectorizer = TfidfVectorizer(vocabulary=self.words_.split("\n"), **_OF_WORDS)
        vectorizer.idf_ = self.weights_
        return vectorizer.transform(texts)


class Numbers(Stateless):
    """Columns of objects as numbers, all or some of them."""

    def __init__(self, columns: list[int] | None = None) -> None:
        self.columns = columns

    def transform(self, X: Features) -> Features:
        """Columns ``(n, columns)`` in double precision."""
        return np.asarray(X if self.columns is None else X[:, self.columns], dtype=np.float64)


_MOST: Final = 256
"""Results that are kept at a time; further ones are made anew each time."""

_KEPT: Final[dict[tuple[int, Hashable], tuple[weakref.ref[Any], Any]]] = {}

T = TypeVar("T")


def once(X: NDArray[Any], key: Hashable, make: Callable[[], T]) -> T:
    """What ``make`` gives for this array and ``key``; kept if the array is read-only, for all that have the same array.

    Nobody may change it.
    """
    if X.flags.writeable:
        return make()
    name = (id(X), key)
    if (kept := _KEPT.get(name)) is not None:
        found: T = kept[1]
        return found
    found = make()
    if len(_KEPT) < _MOST:
        _KEPT[name] = (weakref.ref(X, lambda _: _KEPT.pop(name, None)), found)
    return found
