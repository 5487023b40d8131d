"""The table that a user's own code gets: each column with the dtype that the tables of the study have.

Everything that names columns, chooses them by dtype, or compares their values then does what it does outside.
"""

import importlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline

from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.learners.catalog import LIBRARIES, package_of
from fedct_flwr.learners.preprocessing import Stateless
from fedct_flwr.learners.text import parts_of, strings_in
from fedct_flwr.text.printable import suggest
from fedct_flwr.types import Features, LearnerError

_OF_CATEGORIES: Final = (
    "ColumnTransformer", "FunctionTransformer", "OneHotEncoder", "OrdinalEncoder", "TargetEncoder", "SimpleImputer",
    "HistGradientBoostingClassifier", "HistGradientBoostingRegressor",
)  # fmt: skip
_BOOSTED: Final = ("HistGradientBoostingClassifier", "HistGradientBoostingRegressor")


def table_for(model: Any, learner: str, named: Iterable[str], schema: Schema) -> "Table":
    """The study's columns as a DataFrame. Raises LearnerError for a column that is ``named`` and not there."""
    names = [column.name for column in schema.columns]
    if unknown := next((name for name in named if name not in names), None):
        raise LearnerError(f"learner {learner!r} names the column {unknown!r}: {suggest(unknown, names)}")
    parts = parts_of(model)
    numbers = set(names) if all(map(_takes_numbers, parts)) else _as_numbers(parts, names) if schema.texts else set()
    # Boosted trees take no strings.
    kinds = [kind for reader in _readers(model) for kind in type(reader).__mro__]
    boosted = any(kind.__name__ in _BOOSTED or package_of(kind) in LIBRARIES[1:] for kind in kinds)
    forms = [
        [column.held.dtype if column.held.dtype in ("int64", "bool") else "", [], []]
        if not column.categories or column.name in numbers
        else _form(column, "category" if boosted else "str")
        for column in schema.columns
    ]
    return Table(names, list(schema.texts), forms)


def _form(column: Column, text: str) -> list[Any]:
    """The form of a category, see ``Table``: its table's own, or ``text``."""
    known, held = list(column.categories or ()), column.held
    if held.dtype != "category" or not {*known} <= {*held.names}:
        return [text, known, [*known]]
    values = dict(zip(held.names, held.values, strict=True))
    return ["ordered" if held.ordered else "category", [values[name] for name in known], list(held.values)]


def _takes_numbers(part: Any) -> bool:
    """Whether a part takes numbers alone, as most of scikit-learn's estimators do."""
    return package_of(type(part)) == "sklearn" and type(part).__name__ not in _OF_CATEGORIES


def _readers(model: Any) -> Iterator[Any]:
    """The estimators within this one that get columns of the table as they are."""
    if isinstance(model, Pipeline):
        model = model.steps[0][1]
    known = package_of(type(model)) == "sklearn"
    names = ("transformers", "transformer_list", "estimators") if known else ()
    inner = [part for name in names for _, part, *_ in getattr(model, name, None) or ()]
    inner += [getattr(model, name, None) for name in ("remainder", "estimator", "regressor")]
    inner = [part for part in inner if hasattr(part, "get_params")]
    yield from (reader for part in inner for reader in _readers(part)) if inner else [model]


def _as_numbers(parts: Sequence[Any], names: list[str]) -> set[str]:
    """Columns that a part passes on next to words, or gives to parts of numbers: strings would join neither."""
    found: set[str] = set()
    for part in parts:
        if isinstance(part, ColumnTransformer):
            chosen = [(inner, _chosen(columns, names)) for _, inner, columns in part.transformers]
            some = any(callable(columns) for *_, columns in part.transformers)
            rest = set() if some else {*names}.difference(*(columns for _, columns in chosen))
            for inner, columns in [*chosen, (part.remainder, rest)]:
                numeric = hasattr(inner, "get_params") and all(map(_takes_numbers, _readers(inner)))
                found |= {*columns} if numeric or inner == "passthrough" else set()
    return found


def _chosen(columns: Any, names: list[str]) -> list[str]:
    """The columns that names, positions, or a mask mean; none of a function, which chooses by dtype."""
    if words := strings_in(columns):
        return words
    places = list(columns) if isinstance(columns, tuple) else columns
    try:
        return list(np.atleast_1d(np.array(names, dtype=object)[places]))
    except (IndexError, TypeError):
        return []


class Table(Stateless):
    """All columns by their names and in their order, as a pandas DataFrame.

    Strings where there is text, and elsewhere what ``forms`` says of each column: ``int64`` or ``bool``, ``str``,
    ``category`` or ``ordered``, or nothing for floats; its values by their positions in the study's categories; and all
    those of a category in their order.
    """

    def __init__(self, names: list[str], texts: list[int], forms: list[list[Any]]) -> None:
        self.names = names
        self.texts = texts
        self.forms = forms

    def transform(self, X: Features) -> Any:
        """A DataFrame of n rows. Raises LearnerError without pandas."""
        try:
            pandas = importlib.import_module("pandas")
        except ImportError:
            raise LearnerError("a learner of your own gets its columns in a DataFrame: pip install pandas") from None
        return pandas.DataFrame({name: self._column(X, number, pandas) for number, name in enumerate(self.names)})

    def _column(self, X: Features, position: int, pandas: Any) -> Any:
        if position in self.texts:
            return X[:, position]
        values = X[:, position].astype(np.float64)
        dtype, known, order = self.forms[position]
        if not known:
            # New records may have gaps where those of the study have none.
            whole = dtype and not np.isnan(values).any() and np.array_equal(as_held := values.astype(dtype), values)
            return as_held if whole else values
        # A value that the public set does not have is missing.
        codes = np.nan_to_num(np.where(values < len(known), values, -1), nan=-1).astype(np.int32)
        if dtype == "str":
            return np.append(np.array(known, dtype=object), np.nan)[codes]
        places = np.append([order.index(value) for value in known], -1)
        return pandas.Categorical.from_codes(places[codes], categories=order, ordered=dtype == "ordered")
