"""Imputing, scaling and one-hot encoding for tables, with statistics of the public set and the silo's own data."""

from collections.abc import Sequence
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fedct_flwr.datasets.schema import Schema
from fedct_flwr.types import DataError, Features, TrainingError

_IMAGES: Final = 4
"""Axes of images."""
_OF_WORDS: Final[dict[str, Any]] = {"sublinear_tf": True, "ngram_range": (1, 2)}
_MOST_WORDS: Final = 50_000


def fitted(kind: str, schema: Schema, *references: Features, texts: bool = False) -> Any:
    """What a learner's ``preprocessing`` calls for, fitted to all of these examples; None where nothing is to be done.

    That is so with 'none', and with images, which are numbers in 0..1 as they come. ``texts``, and errors, are as for
    ``standard``.
    """
    if kind == "none" or references[0].ndim == _IMAGES:
        return None
    return standard(schema, np.concatenate(references) if len(references) > 1 else references[0], texts=texts)


def standard(schema: Schema, reference: Features, *, texts: bool = False) -> Any:
    """A fitted transformer: numeric columns imputed by their mean and scaled, categorical ones one-hot.

    A missing category becomes a category of its own. Columns of text are left out, or become the TF-IDF of their words
    and pairs of words (``texts``); then what comes out is sparse. ``reference`` ``(n, columns)`` are the examples whose
    statistics are used: the public set and the silo's own private data, nothing else.
    Raises DataError where features are no table.
    """
    if reference.ndim != 2:
        raise DataError(
            f"preprocessing = 'standard' is for tables, but features have shape {reference.shape[1:]}: use 'none'"
        )
    categorical = list(schema.categorical)
    numeric = [i for i in range(reference.shape[1]) if i not in categorical and i not in schema.texts]
    # Strings make all values of an array objects.
    first = [Numbers()] if schema.texts else []
    # A column nobody here has ever measured stays, as zeros: silos and public set keep the same columns.
    scale = make_pipeline(*first, SimpleImputer(strategy="mean", keep_empty_features=True), StandardScaler())
    encode = make_pipeline(
        *first,
        SimpleImputer(strategy="constant", fill_value=-1, keep_empty_features=True),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    )
    parts = [("numeric", scale, numeric), ("categorical", encode, categorical)]
    if texts:
        words = [(f"text{i}", Words(), i) for i in schema.texts]
        transformer = ColumnTransformer(parts + words, sparse_threshold=1.0)
    else:
        transformer = ColumnTransformer(parts)
    try:
        return transformer.fit(as_input(reference))
    except ValueError as error:
        raise DataError(f"the features cannot be preprocessed: {error}") from error


def transformed(transformer: Any, X: Features) -> Features:
    """Features that have gone through a fitted transformer (None for none). Raises TrainingError if they cannot."""
    try:
        return X if transformer is None else transformer.transform(as_input(X))
    except Exception as error:
        raise TrainingError(f"the features could not be preprocessed: {error}") from error


def as_input(X: Features) -> Features:
    """Features as transformers take them: in double precision, or objects as they are where some are text."""
    return X if X.dtype == np.object_ else X.astype(np.float64, copy=False)


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


class Numbers(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Columns of objects as numbers, all or some of them."""

    def __init__(self, columns: list[int] | None = None) -> None:
        self.columns = columns

    def fit(self, X: Features, y: Any = None) -> Self:
        """Nothing is learned."""
        return self

    def transform(self, X: Features) -> Features:
        """Columns ``(n, columns)`` in double precision."""
        return np.asarray(X if self.columns is None else X[:, self.columns], dtype=np.float64)

    def __sklearn_is_fitted__(self) -> bool:
        return True
