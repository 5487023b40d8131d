"""Columns of text: which learners read them, and in what form they get them.

Features with text are arrays of objects: strings in the columns of text, floats elsewhere. A learner's transformer
gives them their form, and is part of its model file.
"""

from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags

from fedct_flwr import learners
from fedct_flwr.config.learner import AUTO, LearnerSettings
from fedct_flwr.datasets.federated import AXES
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.learners import preprocessing
from fedct_flwr.learners.catalog import EMBEDDING, LANGUAGE, LIBRARIES, NAMES, TFIDF, TRANSFORMER, make, package_of
from fedct_flwr.learners.preprocessing import Stateless
from fedct_flwr.learners.sklearn import is_estimator, leaves
from fedct_flwr.learners.trained_model import apply
from fedct_flwr.text.printable import listed
from fedct_flwr.types import Features, LearnerError

Reading: TypeAlias = Literal["nothing", "tf-idf", "sentences", "tokens", "texts", "table", "choice"]
"""A learner's form of text: nothing; numbers by TF-IDF; an encoder's embeddings; tokens; one text for each record;
all columns by their names; or nothing or TF-IDF, whichever suits the records."""
_READINGS: Final[dict[str, Reading]] = {TFIDF: "tf-idf", EMBEDDING: "sentences", TRANSFORMER: "tokens"}
_PROBED: Final[dict[str, Any]] = {"num_classes": 2, "num_features": 1, "num_channels": 3}
_BY_COLUMN: Final = (
    "categorical_features", "monotonic_cst", "interaction_cst", "cat_features", "text_features", "enable_categorical",
    "monotone_constraints", "interaction_constraints",
)  # fmt: skip
"""Parameters of scikit-learn's, XGBoost's and CatBoost's estimators that name or number columns."""
_OF_LIGHTGBM: Final = ("categorical_feature", "categorical_column", "cat_feature", "cat_column")
"""Its names for the numbers of columns that are categories."""
_PASSING: Final = (
    "SearchCV", "CalibratedClassifierCV", "ThresholdClassifierCV", "ThresholdClassifier", "VotingClassifier",
    "VotingRegressor", "StackingClassifier", "StackingRegressor",
)  # fmt: skip
"""Ends of the names of estimators that pass features on to those within as they are."""
_VECTORIZERS: Final = (CountVectorizer, HashingVectorizer)
_NO_COLUMNS: Final = ("from_dtype", "pairwise", "no_interactions")
_INSTEAD: Final = f"use {TFIDF!r}, or a scikit-learn pipeline of your own that begins with the text"


def transformer_for(settings: LearnerSettings, schema: Schema, *references: Features) -> Any:
    """Preprocessing before this learner, fitted to these examples ``(n, ...)``; None without any.

    Of several things that ``auto`` may choose from, all of them (``automatic.Views``).

    Raises LearnerError for a learner that cannot be made, or reads text alone where there is none or none where there
    is nothing else; DataError for features that cannot be preprocessed.
    """
    preprocessed = references[0].ndim == AXES or settings.preprocessing != "none"
    if settings.name == AUTO and preprocessed and (views := learners.views_for(schema, *references)) is not None:
        return views
    if not schema.texts and settings.name in _READINGS:
        raise LearnerError(
            f"learner {settings.name!r} reads columns of text, and none is named: name them in text-columns, or in "
            "data.toml or study.toml as text"
        )
    reading, model = reading_of(settings, schema)
    if reading == "table":
        return learners.table_for(model, settings.name, _columns_named(model) or (), schema)
    if reading == "texts":
        return Texts(list(schema.texts))
    encoder = learners.reading_params(settings.params, settings.name) if settings.name in LANGUAGE else {}
    if reading == "tokens":
        return learners.Tokens(list(schema.texts), **encoder).fit(references[0])
    if reading in ("tf-idf", "sentences"):
        if settings.preprocessing == "none":
            raise LearnerError(f"preprocessing = 'none' has no effect on learner {settings.name!r}: leave it out")
        words = learners.Sentences(**encoder) if encoder else preprocessing.Words()
        return preprocessing.standard(schema, *references, texts=words)
    if schema.texts and not schema.without_texts:
        raise LearnerError(f"learner {settings.name!r} reads no text, and all columns hold text: {_INSTEAD}")
    if settings.preprocessing == "none" or references[0].ndim == AXES:
        return preprocessing.Numbers(list(schema.without_texts)) if schema.texts else None
    if settings.by_path and settings.preprocessing == AUTO:
        model = _made(settings, schema) if model is None else model
        # fedct itself trains a network, and scales its numbers.
        if hasattr(model, "get_params"):
            found = preprocessing.standard(schema, *references, scaled=False, imputed=not takes_missing(model))
            params = model.get_params(deep=True).items()
            numbered = [key for key, value in params if key.split("__")[-1] in _OF_LIGHTGBM and _is_by_number(value)]
            first = references[0][:1]
            if numbered and apply(found, first).shape[1] != first.shape[1] - len(schema.texts):
                raise LearnerError(
                    f"learner {settings.name!r} numbers columns in {numbered[0]!r}, but some category becomes a column "
                    "for each of its values: set preprocessing to 'none', where it is one column"
                )
            return found
    return preprocessing.standard(schema, *references)


def reading_of(settings: LearnerSettings, schema: Schema) -> tuple[Reading, Any]:
    """Form of text for a learner, and the user's own learner, untrained. Raises LearnerError if it cannot be made.

    One that begins with a vectorizer of scikit-learn's takes texts. The table is for one that names or numbers columns,
    or holds a vectorizer deeper down; with ``preprocessing = 'none'`` also for one's own code, and where an estimator
    takes categories by their dtype. All others take numbers.
    """
    name, plain = settings.name, settings.preprocessing == "none"
    if name in _READINGS:
        return _READINGS[name], None
    if name == AUTO:
        return "nothing" if plain else "choice", None
    naming = any(key.split("__")[-1] in _BY_COLUMN and _is_set(value) for key, value in settings.params.items())
    if not schema.columns or (name in NAMES and (schema.texts or not naming)):
        return "nothing", None
    model = _made(settings, schema)
    if not hasattr(model, "get_params"):
        return "nothing", model
    if schema.texts and isinstance(_first(model), _VECTORIZERS):
        return "texts", model
    parts = parts_of(model)
    by_dtype = _takes_categories(_first(model)) and any(column.categories for column in schema.columns)
    own = by_dtype or any(package_of(type(part)) not in LIBRARIES for part in parts)
    mine = plain and (bool(schema.texts) or own)
    words = schema.texts and any(isinstance(part, _VECTORIZERS) for part in parts)
    return "table" if mine or words or _columns_named(model) is not None else "nothing", model


def _made(settings: LearnerSettings, schema: Schema) -> Any:
    return make(settings.name, settings.params, number=schema.outcome.number, **_PROBED)


def parts_of(model: Any) -> list[Any]:
    """An estimator and all estimators within it."""
    return [model, *(part for part in model.get_params(deep=True).values() if hasattr(part, "get_params"))]


def takes_missing(model: Any) -> bool:
    """Whether a library's estimator wants empty cells as they are: it fills them first, or trains with them."""
    if isinstance(model, Pipeline):
        *before, last = [step for _, step in model.steps if hasattr(step, "get_params")]
        for step in before:
            if _fills(step):
                return True
            if not (type(step).__module__.startswith("sklearn.preprocessing") and _allows_missing(step)):
                return False
        return takes_missing(last)
    if package_of(type(model)) != "sklearn" or not type(model).__name__.endswith(_PASSING):
        return package_of(type(model)) in LIBRARIES and _allows_missing(model)
    tried = [*leaves([value for key, value in model.get_params(deep=False).items() if key.startswith("param_")])]
    # A search may put other estimators in the place of steps; a final estimator may get the features, too.
    replaces = any(is_estimator(one) or (isinstance(one, str) and one == "passthrough") for one in tried)
    if getattr(model, "passthrough", False) or replaces:
        return False
    parts = [part for _, part in getattr(model, "estimators", None) or [("", getattr(model, "estimator", None))]]
    return all(hasattr(part, "get_params") and takes_missing(part) for part in parts)


def _fills(step: Any) -> bool:
    """Whether no cell is empty after this step: it is an imputer or indicator of NaN, or unites such."""
    if isinstance(step, FeatureUnion):
        return all(_fills(part) for _, part in step.transformer_list)
    imputes = type(step).__module__.startswith("sklearn.impute")
    return imputes and step.missing_values != step.missing_values  # NaN alone


def _allows_missing(part: Any) -> bool:
    try:
        return bool(get_tags(part).input_tags.allow_nan)
    except (AttributeError, TypeError, ValueError):  # what estimators without tags raise
        return False


def _takes_categories(part: Any) -> bool:
    """Whether a library's estimator takes the categories of a table by their dtype, without being told their names."""
    params = part.get_params(deep=False) if hasattr(part, "get_params") else {}
    told = params.get("enable_categorical") is True or str(params.get("categorical_features")) == "from_dtype"
    return told or (package_of(type(part)) == "lightgbm" and not any(map(params.get, _OF_LIGHTGBM)))


def _is_set(value: Any) -> bool:
    return value is not None and value is not False and not (isinstance(value, str) and value in _NO_COLUMNS)


def _columns_named(model: Any) -> list[str] | None:
    """The columns that an estimator names; none where it numbers them or gets the table; None where it does neither."""
    meant = _columns_meant(model)
    return None if meant is None else [name for one in meant for name in strings_in(one)]


def _columns_meant(model: Any) -> list[Any] | None:
    """Names and numbers of columns in an estimator's parameters; None where it gets no table."""
    params = model.get_params(deep=True)
    parts = [part for part in (model, *params.values()) if isinstance(part, ColumnTransformer | FunctionTransformer)]
    # A transformer of one's own expects one's own table.
    first = _first(model)
    parts += [first] if hasattr(first, "transform") and package_of(type(first)) not in LIBRARIES else []
    # XGBoost takes categories by default from 3.3 on, which then is no choice.
    chosen_by = {key: value for key, value in params.items() if not (value is True and value is _default(model, key))}
    given = [value for key, value in chosen_by.items() if key.split("__")[-1] in _BY_COLUMN and _is_set(value)]
    if not parts and not given:
        return None
    return [*given, *(columns for part in parts for *_, columns in getattr(part, "transformers", ()))]


def _is_by_number(columns: Any) -> bool:
    """Whether columns are meant by their positions, or in a mask."""
    if isinstance(columns, Mapping | list | tuple | np.ndarray):
        return any(map(_is_by_number, columns))
    if isinstance(columns, slice):
        return any(map(_is_by_number, (columns.start, columns.stop)))
    return isinstance(columns, int | np.integer | np.bool_) and columns is not True


def _default(model: Any, key: str) -> Any:
    """Default of a parameter of a library's estimator, or of one within it."""
    *within, name = key.split("__")
    owner = model.get_params(deep=True)["__".join(within)] if within else model
    known = package_of(type(owner)) in LIBRARIES and name == "enable_categorical"
    return type(owner)().get_params(deep=False).get(name) if known else None


def strings_in(columns: Any) -> list[str]:
    """The names of columns in a parameter, also in lists and keys within it."""
    if isinstance(columns, str):
        # XGBoost takes lists as text, too.
        return [] if columns.startswith(("(", "[")) else [columns]
    if isinstance(columns, Mapping | list | tuple | np.ndarray):
        return [name for one in columns for name in strings_in(one)]
    return []


def misread(settings: LearnerSettings, schema: Schema, moved: str = "") -> Iterator[str]:
    """Sentences on columns that a user's own code gets as numbers, or in other places than its table has them.

    ``moved`` says which column stands where another one is in the public set.
    """
    dates = [column.name for column in schema.columns if column.held.dtype == "days"]
    wide = [column.name for column in schema.columns[:-1] if column.categories and len(column.categories) > 2]
    reading, model = (
        reading_of(settings, schema) if settings.by_path and (dates or moved or wide) else ("nothing", None)
    )
    fit = getattr(type(_first(model)), "fit", None) if reading == "nothing" and hasattr(model, "get_params") else None
    if wide and isinstance(fit, FunctionType) and package_of(fit) not in (*LIBRARIES, "imodels"):
        yield (
            f"learner {settings.name!r} gets a column for each value of {listed(wide)}, so later columns have other "
            "places: preprocessing = 'none' gives it the table"
        )
    if reading != "table":
        return
    if dates and any(map(_is_own, parts_of(model))):
        yield (
            f"learner {settings.name!r} gets {listed(dates)} as days since 1970, not as dates: "
            "pandas.to_datetime(days, unit='D') makes dates of them"
        )
    if moved and any(map(_is_by_number, _columns_meant(model) or ())):
        yield f"learner {settings.name!r} numbers columns in the order of the public set, and {moved}: name the columns"


def _is_own(part: Any) -> bool:
    """Whether code of the user's own is in this part."""
    return package_of(type(part)) not in LIBRARIES or isinstance(getattr(part, "func", None), FunctionType)


def unread(settings: LearnerSettings, schema: Schema) -> str:
    """One sentence on the columns that this learner does not use, as they hold text or none; empty if it uses all."""
    if not schema.texts:
        return ""
    reading, _ = reading_of(settings, schema)
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
    encoder = learners.reading_params(settings.params, settings.name)
    columns = [list(schema.texts)] if settings.name == TRANSFORMER else [[position] for position in schema.texts]
    texts = ["\n".join(row) for part in parts for chosen in columns for row in part[:, chosen]]
    sentence = learners.unusual(encoder["folder"], encoder["max_length"], texts)
    return f"learner {settings.name!r}: {sentence}" if sentence else ""


class Texts(Stateless):
    """The text of each record, of several columns one below the other: what vectorizers take."""

    def __init__(self, columns: list[int]) -> None:
        self.columns = columns

    def transform(self, X: Features) -> NDArray[np.object_]:
        """Strings ``(n,)``."""
        return np.array(["\n".join(row) for row in X[:, self.columns]], dtype=object)


def _first(model: Any) -> Any:
    """The part that gets the features first, also within a search or a calibration."""
    if isinstance(model, Pipeline):
        return _first(model.steps[0][1])
    if isinstance(model, FeatureUnion):
        return _first(model.transformer_list[0][1])
    inner = getattr(model, "estimator", None)
    return _first(inner) if isinstance(inner, BaseEstimator) else model
