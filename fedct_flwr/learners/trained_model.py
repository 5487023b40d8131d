"""A trained model: what it is given, checks of its output, and its file in skops format.

The checks never repair an output, and errors quote no value of a single example.

Files are written in a third of skops' time and bytes, and read where all types are known. skops builds objects without
calling what is in the file; its own list of harmless types has all of scikit-learn's estimators. A forged value may end
the process that reads it, so ``models.loading`` has one of its own.
"""

import importlib
import io
import json
import sys
import threading
import zipfile
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import BaseEstimator
from sklearn.feature_extraction.text import CountVectorizer

from fedct_flwr.types import LABEL_DTYPE, MAX_CLASSES, DataError, Features, HardLabels, TrainingError, Values

TOLERANCE: Final = 5e-3
"""By how much a row of probabilities may miss 1: half precision rounds each of them."""
_BELOW_ZERO: Final = -1e-6
"""Smallest result of rounding a probability of 0."""


def classes_of(
    answer: Any, num_examples: int, num_classes: int = MAX_CLASSES, *, model: str = "the model"
) -> HardLabels:
    """An answer as classes ``(num_examples,)`` in 0..num_classes-1: whole numbers of any type, in one column at most.

    Truth values are classes where there are two. Raises TrainingError, which names the ``model``, for anything else.

    >>> classes_of([[1.0], [0.0]], 2, 2)
    array([1, 0], dtype=int16)
    """
    expected = f"give one class for each of {num_examples:,} examples, a whole number from 0 to {num_classes - 1:,}"
    found = _numbers(answer, num_examples, model, expected)
    if found.dtype.kind == "b" and num_classes > 2:
        raise TrainingError(f"{model} answered truth values: {expected}")
    # In their own type: a cast would bring what lies outside back inside. NaN and infinity are on no side.
    inside = bool(((found >= 0) & (found <= num_classes - 1)).all())
    if not inside or (found.dtype.kind == "f" and (found != np.floor(found)).any()):
        raise TrainingError(f"{model} answered {_range(found)}: {expected}, as fit was given them")
    return np.asarray(found.astype(LABEL_DTYPE))


def places_of(answer: Any, labels: NDArray[Any], num_examples: int, *, model: str = "the model") -> HardLabels:
    """The places ``(num_examples,)`` of an answer's labels among ``labels``. Raises TrainingError for another label.

    >>> places_of([["yes"], ["no"]], np.array(["no", "yes"]), 2)
    array([1, 0], dtype=int16)
    """
    expected = f"give one label for each of {num_examples:,} examples, as fit was given them"
    found = np.asarray(answer)
    if np.ma.is_masked(answer) or found.shape not in ((num_examples,), (num_examples, 1)):
        raise TrainingError(f"{model} answered {found.dtype} of shape {found.shape}: {expected}")
    # CatBoost answers truth values as text.
    places = {name: place for place, label in enumerate(labels.tolist()) for name in (label, str(label))}
    codes = np.array([places.get(label, -1) for label in found.reshape(num_examples).tolist()], dtype=LABEL_DTYPE)
    if (codes < 0).any():
        raise TrainingError(f"{model} answered {found.dtype}, not all of them labels: {expected}")
    return codes


def values_of(answer: Any, num_examples: int, *, model: str = "the model") -> Values:
    """An answer as values of a quantity ``(num_examples,)``, finite, in double precision. Raises TrainingError.

    >>> values_of([[1], [2]], 2)
    array([1., 2.])
    """
    expected = f"give one finite number for each of {num_examples:,} examples"
    found = _numbers(answer, num_examples, model, expected).astype(np.float64)
    if not np.isfinite(found).all():
        raise TrainingError(f"{model} answered {_range(found)}: {expected}")
    return found


def probabilities_of(
    answer: Any, known: Any, num_examples: int, num_classes: int, *, model: str = "the model"
) -> NDArray[np.float64]:
    """Probabilities of each class ``(num_examples, num_classes)``, 0 for those that are not ``known``.

    ``answer`` ``(num_examples, k)`` has a column for each of the ``k`` classes ``known``, by name or in their order.
    Raises TrainingError.

    >>> probabilities_of([[0.25, 0.75]], [0, 2], 1, 3)
    array([[0.25, 0.  , 0.75]])
    """
    columns = classes_of(known, np.size(known), num_classes, model=f"{model}, asked for its classes,")
    if len(np.unique(columns)) != len(columns):
        raise TrainingError(f"{model} names a class twice in classes_: give each class one column of predict_proba")
    expected = (
        f"predict_proba must give {len(columns)} probabilities that sum to 1 for each of {num_examples:,} examples, "
        "one for each of classes_"
    )
    shares = _array(in_order(answer, known), model, expected)
    # NumPy would take a single column for all classes.
    if shares.shape != (num_examples, len(columns)):
        raise TrainingError(f"{model} answered probabilities of shape {shares.shape}: {expected}")
    found = np.zeros((num_examples, num_classes))
    found[:, columns] = shares
    check_probabilities(found, model=model, expected=expected)
    return np.maximum(found, 0.0, out=found)


def in_order(answer: Any, classes: Any) -> Any:
    """A DataFrame's columns ``(n, k)`` in the order of ``classes`` ``(k,)`` if these are its names; else the answer."""
    places = {str(name): place for place, name in enumerate(getattr(answer, "columns", ()))}
    names = [*map(str, np.asarray(classes).tolist())] if places else []
    named = places and len(names) == len(answer.columns) and places.keys() == {*names}
    return np.asarray(answer)[:, [places[name] for name in names]] if named else answer


def check_probabilities(
    found: NDArray[np.floating[Any]],
    *,
    model: str = "the model",
    expected: str = "probabilities must be in 0..1 and sum to 1 for each example",
) -> None:
    """Raise TrainingError unless rows ``(n, classes)`` are probabilities that sum to 1, within ``TOLERANCE``."""
    sums = found.sum(axis=1)
    # A test for valid values, not for invalid ones, also catches NaN.
    if not found.min(initial=0.0) >= _BELOW_ZERO:
        raise TrainingError(f"{model} answered probabilities, {_range(found)}: {expected}")
    if not np.abs(sums - 1).max(initial=0.0) <= TOLERANCE:
        raise TrainingError(
            f"{model} answered probabilities that sum to between {sums.min():.4g} and {sums.max():.4g}: {expected}"
        )


def _numbers(answer: Any, num_examples: int, model: str, expected: str) -> NDArray[Any]:
    """An answer as numbers ``(num_examples,)`` of whatever type."""
    found = _array(answer, model, expected)
    if found.shape not in ((num_examples,), (num_examples, 1)):
        raise TrainingError(f"{model} answered {found.dtype} of shape {found.shape}: {expected}")
    return found.reshape(num_examples)


def _array(answer: Any, model: str, expected: str) -> NDArray[Any]:
    """An answer as an array of numbers of any shape."""
    try:
        if np.ma.is_masked(answer):
            raise TrainingError(f"{model} answered with values left out by a mask: {expected}")
        found = np.asarray(answer)
        if found.dtype == object and all(isinstance(value, int | float | np.number | np.bool_) for value in found.flat):
            found = np.asarray(found.tolist())
    except (ValueError, TypeError, RuntimeError, OverflowError):
        raise TrainingError(f"{model} answered a {type(answer).__name__} that is no array: {expected}") from None
    if found.dtype.kind not in "biuf":
        raise TrainingError(f"{model} answered {found.dtype} of shape {found.shape}: {expected}")
    return found


def _range(found: NDArray[Any]) -> str:
    """The range, without a value of a single example but the least and the largest."""
    if missing := np.count_nonzero(~np.isfinite(found)):
        return f"numbers of which {missing:,} of {found.size:,} are not finite"
    return f"numbers from {float(found.min()):,.6g} to {float(found.max()):,.6g}"


ARRAYS: Final = partial(config_context, transform_output="default")
"""A user may set scikit-learn to give DataFrames: our steps keep no names of columns, and other threads do not know."""


def transformed(transformer: Any, X: Features) -> Features:
    """Features that have gone through a fitted transformer (None for none). Raises TrainingError if they cannot."""
    try:
        return X if transformer is None else apply(transformer, X)
    except Exception as error:
        raise TrainingError(f"the features could not be preprocessed: {error}") from error


def apply(transformer: Any, X: Features) -> Features:
    """Transform examples ``(n, columns)``."""
    with ARRAYS():
        found: Features = transformer.transform(as_input(X))
    return found


def rows(X: Features, which: NDArray[Any]) -> Features:
    """These rows of what went through a transformer, by a mask or by positions: of an array or of a DataFrame."""
    found: Features = X.iloc[which] if hasattr(X, "iloc") else X[which]
    return found


def as_input(X: Features) -> Features:
    """Features as transformers take them: tables in double precision, images and objects (text) as they are."""
    return X.astype(np.float64, copy=False) if X.ndim == 2 and X.dtype != np.object_ else X


_TORCH_OF_SKLEARN: Final = "sklearn.externals.array_api_compat.torch"
_IMPORTING: Final = threading.Lock()
_LONGEST_NAME: Final = 200
_HARMLESS: Final = {"collections.OrderedDict", "builtins.object"}
"""Containers in other packages' models (LightGBM's), and types that selectors of columns name."""
_TRUSTED: Final = ("sklearn", "numpy", "scipy", "fedct_flwr")
_KNOWN: Final = ("functools.partial",)
"""Packages and types in the models of this machine."""


def skops_io() -> ModuleType:
    """``skops.io`` without torch (180 MB, a second), which scikit-learn's wrapper of it would import."""
    with _IMPORTING:
        if "skops.io" in sys.modules or _TORCH_OF_SKLEARN in sys.modules:
            return importlib.import_module("skops.io")
        sys.modules[_TORCH_OF_SKLEARN] = ModuleType(_TORCH_OF_SKLEARN)
        try:
            return importlib.import_module("skops.io")
        finally:
            del sys.modules[_TORCH_OF_SKLEARN]


def dumps(model: Any) -> bytes:
    """The bytes of ``skops.io.dumps``, but for blanks. Raises like that, and ValueError for what no name leads to."""
    skops_io()
    import skops
    from skops.io._utils import SaveContext, get_state

    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        context = SaveContext(zip_file=file)
        # Whole objects stay alive meanwhile: skops knows them by where they are in memory.
        schema = {**get_state(model, context), "protocol": context.protocol, "_skops_version": skops.__version__}
        kinds = {each if isinstance(each, type | FunctionType) else type(each) for each in context.memo.values()}
        if any("<" in kind.__qualname__ for kind in kinds):
            raise ValueError("it holds a lambda, or what is defined within a function")
        file.writestr("schema.json", json.dumps(schema))
    return content.getvalue()


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


def read_object(
    content: bytes, what: str, packages: Collection[str], known: Collection[str] = (), advice: str = ""
) -> Any:
    """The object in a skops file ``what``, if all its types are ``known`` or from one of these ``packages``.

    Nothing is unpickled. Raises DataError for other types, which ends with ``advice``, and for a damaged file.
    """
    try:
        found = _types(content)
        if foreign := _foreign(found, packages, known):
            needed = " ".join(sorted({f"--package {name.partition('.')[0]}" for name in foreign}))
            raise DataError(f"{what} holds {', '.join(foreign)}, {advice.format(needed)}")
        return skops_io().loads(content, trusted=sorted(found))
    except DataError:
        raise
    except Exception as error:  # zipfile, skops and scikit-learn raise many types
        if isinstance(error, ModuleNotFoundError) and error.name in packages:
            raise DataError(
                f"{what} needs the package {error.name!r}, and Python finds none of this name: install it, or set "
                "PYTHONPATH to its folder"
            ) from None
        raise DataError(f"{what} is damaged, or not written by this program: {type(error).__name__}") from error


def _foreign(found: Collection[str], packages: Collection[str], known: Collection[str]) -> list[str]:
    return sorted(name for name in {*found} - _HARMLESS - {*known} if name.partition(".")[0] not in packages)


def _types(content: bytes) -> set[str]:
    """The types that skops does not know to be harmless, and all of scikit-learn's."""
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        # skops packs nothing: what is a few bytes here cannot become gigabytes.
        entries = file.infolist()
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
            raise ValueError("Packed")
        if sum(entry.file_size for entry in entries) > len(content):
            raise ValueError("Members that share bytes")
        named = set(_named(json.loads(file.read("schema.json"))))
    packaged = {name for name in named if name.partition(".")[0] not in ("builtins", "collections", "numpy", "scipy")}
    return packaged | set(skops_io().get_untrusted_types(data=content))


def _named(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("__class__"), str):
            name = f"{schema.get('__module__')}.{schema['__class__']}"
            # It is quoted in errors.
            if len(name) > _LONGEST_NAME or not all(part.isidentifier() for part in name.split(".")):
                raise ValueError("No name of a type")
            yield name
        schema = list(schema.values())
    if isinstance(schema, list):
        for item in schema:
            yield from _named(item)


def load_model(path: Path, packages: Collection[str] = ()) -> Any:
    """A pipeline that ``SklearnLearner.save`` wrote on this machine, of scikit-learn's types and these ``packages``'.

    XGBoost's, LightGBM's and CatBoost's models are in formats of their own within it, which their own parsers read. A
    forged file could hold a tree that reads out of bounds: for a file from elsewhere there is ``models.loading``.
    Raises DataError for other types or a damaged file.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read the model {path}: {error.strerror}") from None
    advice = "which is not trusted: use the model in the process that trains it, by simulate() or --in-process"
    return read_object(content, f"the model {path}", {*_TRUSTED, *packages}, _KNOWN, advice)
