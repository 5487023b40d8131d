"""Checks of a trained model's output, which never repair it: errors quote no value of a single example."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.types import LABEL_DTYPE, MAX_CLASSES, HardLabels, TrainingError, Values

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
    if not _are_classes(found, num_classes):
        raise TrainingError(f"{model} answered {_range(found)}: {expected}, as fit was given them")
    labels: HardLabels = found.astype(LABEL_DTYPE)
    return labels


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

    ``answer`` ``(num_examples, k)`` has a column for each of the ``k`` classes ``known``. Raises TrainingError.

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
    shares = _array(answer, model, expected)
    # NumPy would take a single column for all classes.
    if shares.shape != (num_examples, len(columns)):
        raise TrainingError(f"{model} answered probabilities of shape {shares.shape}: {expected}")
    found = np.zeros((num_examples, num_classes))
    found[:, columns] = shares
    check_probabilities(found, model=model, expected=expected)
    return np.maximum(found, 0.0, out=found)


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


def _are_classes(found: NDArray[Any], num_classes: int) -> bool:
    # In their own type: a cast would bring what lies outside back inside. NaN and infinity are on no side.
    inside = bool(((found >= 0) & (found <= num_classes - 1)).all())
    return inside and bool(found.dtype.kind != "f" or (found == np.floor(found)).all())


def _range(found: NDArray[Any]) -> str:
    """The range, without a value of a single example but the least and the largest."""
    if missing := np.count_nonzero(~np.isfinite(found)):
        return f"numbers of which {missing:,} of {found.size:,} are not finite"
    return f"numbers from {float(found.min()):,.6g} to {float(found.max()):,.6g}"
