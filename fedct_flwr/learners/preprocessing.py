"""Imputing, scaling and one-hot encoding for tables, with statistics of the public set and the silo's own data."""

from typing import Any, Final

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fedct_flwr.datasets.schema import Schema
from fedct_flwr.types import DataError, Features, TrainingError

_IMAGES: Final = 4
"""Axes of images."""


def fitted(kind: str, schema: Schema, *references: Features) -> Any:
    """What a learner's ``preprocessing`` calls for, fitted to all of these examples; None where nothing is to be done.

    That is so with 'none', and with images, which are numbers in 0..1 as they come. Raises as ``standard``.
    """
    if kind == "none" or references[0].ndim == _IMAGES:
        return None
    return standard(schema, np.concatenate(references) if len(references) > 1 else references[0])


def standard(schema: Schema, reference: Features) -> Any:
    """A fitted transformer: numeric columns imputed by their mean and scaled, categorical ones one-hot.

    A missing category becomes a category of its own. ``reference`` ``(n, columns)`` are the examples whose
    statistics are used: the public set and the silo's own private data, nothing else.
    Raises DataError where features are no table.
    """
    if reference.ndim != 2:
        raise DataError(
            f"preprocessing = 'standard' is for tables, but features have shape {reference.shape[1:]}: use 'none'"
        )
    categorical = list(schema.categorical)
    numeric = [i for i in range(reference.shape[1]) if i not in categorical]
    # A column nobody here has ever measured stays, as zeros: silos and public set keep the same columns.
    scale = make_pipeline(SimpleImputer(strategy="mean", keep_empty_features=True), StandardScaler())
    encode = make_pipeline(
        SimpleImputer(strategy="constant", fill_value=-1, keep_empty_features=True),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    )
    transformer = ColumnTransformer([("numeric", scale, numeric), ("categorical", encode, categorical)])
    try:
        return transformer.fit(reference.astype(np.float64, copy=False))
    except ValueError as error:
        raise DataError(f"the features cannot be preprocessed: {error}") from error


def transformed(transformer: Any, X: Features) -> Features:
    """Features that have gone through a fitted transformer (None for none). Raises TrainingError if they cannot."""
    try:
        return X if transformer is None else transformer.transform(X.astype(np.float64, copy=False))
    except Exception as error:
        raise TrainingError(f"the features could not be preprocessed: {error}") from error
