"""Imputing, scaling and one-hot encoding for tables, with statistics of the public set and the silo's own data.

Beyond ``MOST_VALUES`` the rarest categories get no column: their examples have zeros in all of the category's.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fedct_flwr.datasets.schema import Schema
from fedct_flwr.learners.trained_model import ARRAYS, as_input
from fedct_flwr.types import DataError, Features


class Stateless(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Base of transformers without a state: only ``transform`` is missing."""

    def fit(self, X: Features, y: Any = None) -> Self:
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True


MOST_VALUES: Final = 1 << 26
"""Values of one-hot columns, of all examples that are learned from (512 MB in double precision)."""
_MISSING: Final = -1
"""The category of a missing value."""
_ENOUGH: Final = 20
"""Values, and gaps, of a column at a silo from which on each fold and each bootstrap has some of both."""
_OF_WORDS: Final[dict[str, Any]] = {"sublinear_tf": True, "ngram_range": (1, 2)}
_MOST_WORDS: Final = 50_000


def standard(
    schema: Schema, *references: Features, texts: Any = None, scaled: bool = True, imputed: bool = True
) -> Any:
    """A fitted transformer: numeric columns imputed by their mean and ``scaled``, categorical ones one-hot.

    Categories come after all numbers. Where numbers are not scaled, each column keeps its place and a category of two
    values is one column. A missing category becomes one of its own. Unless ``imputed``, missing numbers stay in columns
    of which the last reference has 20 gaps and 20 values.
    Columns of text are left out, or become what a copy of ``texts`` makes of each; with ``Words`` the result is sparse.
    ``references``, each ``(n, columns)``, are the public set and the silo's own private data. Raises DataError where
    features are no table, or there is nothing to learn.
    """
    for reference in references:
        if reference.ndim != 2:
            raise DataError(
                f"preprocessing = 'standard' is for tables, but features have shape {reference.shape[1:]}: use 'none'"
            )
    together, categorical = np.concatenate(references), list(schema.categorical)
    numeric = [i for i in range(together.shape[1]) if i not in {*categorical, *schema.texts}]
    # Strings make all values of an array objects.
    first = [Numbers()] if schema.texts else []
    # A column that has no value stays, as zeros: silos and public set keep the same columns.
    imputer = SimpleImputer(strategy="mean", keep_empty_features=True)
    scale = make_pipeline(*first, imputer, *([StandardScaler()] if scaled else []))
    kept = [] if imputed else [i for i in numeric if _has_both(references[-1][:, i])]
    known = _categories(together, categorical)

    def encode(columns: list[int]) -> Any:
        values = known if isinstance(known, str) else [known[categorical.index(i)] for i in columns]
        # As people encode by hand for an estimator of their own: two values are one column.
        drop = None if scaled else "if_binary"
        return make_pipeline(
            *first,
            SimpleImputer(strategy="constant", fill_value=_MISSING, keep_empty_features=True),
            OneHotEncoder(categories=values, drop=drop, handle_unknown="ignore", sparse_output=False),
        )

    parts = [("numeric", scale, numeric), ("categorical", encode(categorical), categorical)]
    if not scaled:
        # Parameters of a user's own estimator may have a value for each column.
        keep = make_pipeline(*first, SimpleImputer(strategy="constant", fill_value=np.nan, keep_empty_features=True))
        places = sorted([*numeric, *categorical])
        runs = [[*run] for _, run in groupby(places, key=lambda i: (i in categorical, i in kept))]
        made = [encode(run) if run[0] in categorical else keep if run[0] in kept else scale for run in runs]
        parts = [(f"columns{run[0]}", each, run) for run, each in zip(runs, made, strict=True)]
    words = [(f"text{i}", clone(texts), i) for i in schema.texts] if texts is not None else []
    table = as_input(together)
    if len(numeric) == table.shape[1] and not kept:
        # A ColumnTransformer takes most of the time on a few records. Its copy by columns decides the order of sums.
        transformer, table = scale, table[:, numeric]
    else:
        transformer = ColumnTransformer(parts + words, sparse_threshold=1.0 if isinstance(texts, Words) else 0.3)
    try:
        with ARRAYS():
            transformer.fit(table)
    except ValueError as error:
        raise DataError(f"the features cannot be preprocessed: {error}") from error
    return transformer


def _has_both(column: NDArray[Any]) -> bool:
    """Whether a column ``(n,)`` has enough gaps and enough values."""
    gaps = int(np.isnan(column.astype(np.float64)).sum())
    return min(gaps, len(column) - gaps) >= _ENOUGH


def _categories(reference: Features, categorical: Sequence[int]) -> Any:
    """For each column the values that get a one-hot column: all, or the most frequent up to ``MOST_VALUES`` in all."""
    columns = [np.nan_to_num(reference[:, i].astype(np.float64), nan=_MISSING) for i in categorical]
    found = [np.unique(column, return_counts=True) for column in columns]
    most = MOST_VALUES // max(1, len(reference))
    if sum(len(values) for values, _ in found) <= most:
        return "auto"
    # Of equally rare ones all go: which of them stays should not depend on their order.
    least = np.sort(np.concatenate([counts for _, counts in found]))[-most - 1] + 1
    return [values[counts >= min(least, counts.max())] for values, counts in found]


class Words(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Scikit-learn's TF-IDF of the most frequent 50,000 words and pairs of words, kept as one text and one array."""

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
