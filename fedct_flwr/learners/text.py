"""Columns of text: which learners read them, and in what form they get them.

Features with text are arrays of objects: strings in the columns of text, floats elsewhere. What turns them into what a
learner takes is its transformer, which is part of its model file.
"""

import importlib
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.pipeline import FeatureUnion, Pipeline

from fedct_flwr.config import LearnerSettings
from fedct_flwr.config.learner import AUTO
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.learners import preprocessing
from fedct_flwr.learners.catalog import (
    EMBEDDING,
    LANGUAGE,
    NETWORKS,
    REGRESSORS,
    SHORT_NAMES,
    TFIDF,
    TRANSFORMER,
    make,
    make_regressor,
)
from fedct_flwr.learners.language import Encoder, Sentences, Tokens, unusual
from fedct_flwr.learners.preprocessing import Stateless
from fedct_flwr.text.printable import listed
from fedct_flwr.types import Features, LearnerError

Reading: TypeAlias = Literal["nothing", "tf-idf", "sentences", "tokens", "texts", "table", "choice"]
"""What a learner takes of text: nothing; numbers by TF-IDF; an encoder's embeddings; tokens; one text for each record;
all columns by their names; or nothing or TF-IDF, whichever suits the records."""

_IMAGES: Final = 4
"""Axes of images."""
_READINGS: Final[dict[str, Reading]] = {TFIDF: "tf-idf", EMBEDDING: "sentences", TRANSFORMER: "tokens"}
_PROBED: Final = {"num_classes": 2, "num_features": 1, "num_channels": 3}
_INSTEAD: Final = f"use {TFIDF!r}, or a scikit-learn pipeline of your own that begins with the text"


def transformer_for(settings: LearnerSettings, schema: Schema, *references: Features) -> Any:
    """What features go through before this learner, fitted to these examples ``(n, ...)``; None where nothing is done.

    Of several things that ``auto`` may choose from, all of them (``views.Views``).

    Raises LearnerError for a learner that cannot be made, or reads text alone where there is none or none where there
    is nothing else; DataError for features that cannot be preprocessed.
    """
    if settings.name == AUTO and (references[0].ndim == _IMAGES or settings.preprocessing != "none"):
        # What may be chosen is made of learners, which import this.
        from fedct_flwr.learners.views import views_for

        if (views := views_for(schema, *references)) is not None:
            return views
    if not schema.texts:
        if settings.name in (TFIDF, *LANGUAGE):
            raise LearnerError(
                f"learner {settings.name!r} reads columns of text, and none is named: name them in text-columns, or in "
                "data.toml or study.toml as text"
            )
        return preprocessing.fitted(settings.preprocessing, schema, *references)
    reading = reading_of(settings, number=schema.outcome.number)
    if reading == "texts":
        return Texts(list(schema.texts))
    if reading == "table":
        return Table([column.name for column in schema.columns], list(schema.texts))
    if reading == "tokens":
        return Tokens(list(schema.texts), *_encoder(settings)[:2]).fit(references[0])
    if reading in ("tf-idf", "sentences"):
        if settings.preprocessing == "none":
            raise LearnerError(f"preprocessing = 'none' has no effect on learner {settings.name!r}: leave it out")
        if reading == "tf-idf":
            return preprocessing.fitted("standard", schema, *references, texts=preprocessing.Words())
        encoder = _encoder(settings)
        sentences = Sentences(encoder.folder, encoder.max_length, encoder.layers)
        return preprocessing.fitted("standard", schema, *references, texts=sentences)
    others = schema.without_texts
    if not others:
        raise LearnerError(f"learner {settings.name!r} reads no text, and all columns hold text: {_INSTEAD}")
    if settings.preprocessing == "none":
        return preprocessing.Numbers(list(others))
    return preprocessing.fitted("standard", schema, *references)


def reading_of(settings: LearnerSettings, *, number: bool = False) -> Reading:
    """What a learner of these settings takes of text.

    One that begins with a vectorizer of scikit-learn's takes texts; one that holds a vectorizer deeper down, or comes
    by an import path with ``preprocessing = 'none'``, takes the table. Raises LearnerError for one that cannot be made.
    """
    name = settings.name
    if name in _READINGS:
        return _READINGS[name]
    if name == AUTO:
        return "nothing" if settings.preprocessing == "none" else "choice"
    if name in SHORT_NAMES or name in REGRESSORS or name in NETWORKS:
        return "nothing"
    model = make_regressor(name, settings.params) if number else make(name, settings.params, **_PROBED)
    if not hasattr(model, "get_params"):
        return "nothing"
    if _is_vectorizer(_first(model)):
        return "texts"
    inside = any(map(_is_vectorizer, model.get_params(deep=True).values()))
    return "table" if inside or settings.preprocessing == "none" else "nothing"


def unread(settings: LearnerSettings, schema: Schema) -> str:
    """One sentence on the columns that this learner does not use, as they hold text or none; empty if it uses all."""
    if not schema.texts:
        return ""
    reading = reading_of(settings, number=schema.outcome.number)
    texts = listed([schema.columns[position].name for position in schema.texts])
    if reading == "nothing":
        return f"learner {settings.name!r} reads no text and does not use {texts}: {_INSTEAD}, or leave the columns out"
    others = listed([schema.columns[position].name for position in schema.without_texts])
    if reading == "tokens" and others:
        return f"learner {settings.name!r} reads text alone and does not use {others}: {EMBEDDING!r} uses all columns"
    if reading == "texts" and others:
        return (
            f"learner {settings.name!r} begins with text and does not use {others}: begin it with a "
            "ColumnTransformer to use all columns"
        )
    return ""


def unusual_texts(settings: LearnerSettings, schema: Schema, *parts: Features) -> str:
    """One sentence on texts ``(n, columns)`` that this learner cuts or that are empty; empty if there are none.

    Raises LearnerError for a language model that cannot be loaded.
    """
    if settings.name not in LANGUAGE or not schema.texts:
        return ""
    encoder, _ = Encoder.of(settings.params, settings.name)
    columns = [list(schema.texts)] if settings.name == TRANSFORMER else [[position] for position in schema.texts]
    texts = ["\n".join(row) for part in parts for chosen in columns for row in part[:, chosen]]
    said = unusual(encoder, texts)
    return f"learner {settings.name!r}: {said}" if said else ""


def _encoder(settings: LearnerSettings) -> Encoder:
    """What a learner's parameters say of its language model. Raises LearnerError."""
    encoder, _ = Encoder.of(settings.params, settings.name)
    encoder.check()
    return encoder


def with_plain_numbers(model: Any) -> Any:
    """The trained model, whose vectorizers number words by Python's own integers.

    NumPy's would each become a file of its own within a model file: minutes for some ten thousand words.
    """
    inner = [
        *(step for _, step in getattr(model, "steps", ())),
        *(part for _, part, *_ in getattr(model, "transformers_", ())),
        *(part for _, part in getattr(model, "transformer_list", ())),
        *(getattr(model, name, None) for name in ("estimator_", "best_estimator_")),
    ]
    for part in inner:
        if isinstance(part, BaseEstimator):
            with_plain_numbers(part)
    if isinstance(model, CountVectorizer) and hasattr(model, "vocabulary_"):
        model.vocabulary_ = {word: int(number) for word, number in model.vocabulary_.items()}
    return model


class Texts(Stateless):
    """The text of each record, of several columns one below the other: what vectorizers take."""

    def __init__(self, columns: list[int]) -> None:
        self.columns = columns

    def transform(self, X: Features) -> NDArray[np.object_]:
        """Strings ``(n,)``."""
        return np.array(["\n".join(row) for row in X[:, self.columns]], dtype=object)


class Table(Stateless):
    """All columns by their names, as a pandas DataFrame: strings where there is text, floats elsewhere."""

    def __init__(self, names: list[str], texts: list[int]) -> None:
        self.names = names
        self.texts = texts

    def transform(self, X: Features) -> Any:
        """A DataFrame of n rows. Raises LearnerError without pandas."""
        try:
            pandas = importlib.import_module("pandas")
        except ImportError:
            raise LearnerError("a learner of your own gets text in a DataFrame: pip install pandas") from None
        columns = {
            name: X[:, position] if position in self.texts else X[:, position].astype(np.float64)
            for position, name in enumerate(self.names)
        }
        return pandas.DataFrame(columns)


def _first(model: Any) -> Any:
    """What gets the features first, also within a search or a calibration."""
    if isinstance(model, Pipeline):
        return _first(model.steps[0][1])
    if isinstance(model, FeatureUnion):
        return _first(model.transformer_list[0][1])
    inner = getattr(model, "estimator", None)
    return _first(inner) if isinstance(inner, BaseEstimator) else model


def _is_vectorizer(part: Any) -> bool:
    return isinstance(part, CountVectorizer | HashingVectorizer)
