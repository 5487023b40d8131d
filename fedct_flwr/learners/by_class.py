"""Parameters of estimators that go by class: keyed by it, ordered by it, or counting classes.

A study numbers its classes 0, 1, ... in their order; an estimator is given them by the user's own names or by these
numbers. A silo may lack some: its estimator is trained on the classes at hand, and only these get probabilities.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from fedct_flwr.text.printable import quoted
from fedct_flwr.types import LearnerError

_KEYED: Final = ("class_weight", "class_weights")
_ORDERED: Final = ("priors", "class_prior", "class_weights")
_COUNTING: Final = "num_class"
_CLASSES: Final = "class_names"
_NAMING: Final = ("pos_label", _CLASSES)
_DENSE: Final = ("xgboost", "imodels")
"""Packages whose classifiers want the classes at hand numbered 0, 1, ... without gaps."""
_OF_MANY: Final = ("multiclass", "softmax", "multiclassova", "multiclass_ova", "ova", "ovr")
"""LightGBM's objectives for more than two classes."""
_NUMBERING: Final = ("BaggingClassifier", "HistGradientBoostingClassifier", "StackingClassifier", "VotingClassifier")
"""Scikit-learn's classifiers that number them so themselves, before a parameter by class is looked at."""


def wants_dense(estimator: Any) -> bool:
    """Whether the estimator, or a part of it, knows classes as 0, 1, ... without gaps alone."""
    parts = [estimator, *(estimator.get_params(deep=True).values() if hasattr(estimator, "get_params") else ())]
    kinds = {type(part) for part in parts}
    return any(kind.__module__.partition(".")[0] in _DENSE or kind.__name__ in _NUMBERING for kind in kinds)


def by_number(estimator: Any, classes: Sequence[str], num_classes: int) -> Any:
    """The estimator with what it has by class keyed by numbers; ``classes`` are the study's names, if they are known.

    Raises LearnerError for a key that is no class.
    """
    changed: dict[str, Any] = {
        key: {_number(named, classes, num_classes, key): weight for named, weight in value.items()}
        for key, value in _params(estimator, _KEYED).items()
        if isinstance(value, Mapping)
    }
    for key, value in _params(estimator, _NAMING).items():
        named = value if isinstance(value, list | tuple) else [value]
        found = [_number(each, classes, num_classes, key) for each in named]
        changed[key] = found if named is value else found[0]
    return copied(estimator).set_params(**changed) if changed else estimator


def copied(estimator: Any) -> Any:
    """An untrained copy. CatBoost's estimators do not stand scikit-learn's ``clone`` where a parameter is a list."""
    try:
        return clone(estimator)
    except RuntimeError:
        return copy.deepcopy(estimator)


def for_classes(estimator: Any, present: NDArray[Any], num_classes: int, *, dense: bool) -> Any:
    """The estimator for a silo that holds the classes ``present`` ``(k,)``, in ascending order.

    ``dense``: it is trained on their positions 0..k-1 and not on their numbers.
    """
    kept = present.tolist()
    changed: dict[str, Any] = {}
    for key, value in _params(estimator, (*_KEYED, *_ORDERED, _COUNTING, _CLASSES)).items():
        if key.endswith(_CLASSES):
            changed[key] = [kept.index(each) if dense else each for each in value if each in kept]
        elif isinstance(value, Mapping):
            changed[key] = {(code if dense else each): value.get(each, 1) for code, each in enumerate(kept)}
        elif key.endswith(_COUNTING):
            changed[key] = len(kept) if len(kept) > 2 else None
        elif not isinstance(value, str) and np.ndim(value) == 1 and len(value) == num_classes != len(kept):
            own = np.asarray(value, dtype=np.float64)[kept]
            changed[key] = own if key.endswith("weights") else own / own.sum()
    objectives = {key: value for key, value in _params(estimator, ("objective",)).items() if len(kept) == 2}
    # With two classes XGBoost and LightGBM count none, and their objectives of many ask for a number.
    changed |= {key: "binary:logistic" for key, value in objectives.items() if str(value).startswith("multi:")}
    changed |= {key: "binary" for key, value in objectives.items() if value in _OF_MANY}
    return copied(estimator).set_params(**changed) if changed else estimator


def _params(estimator: Any, names: Sequence[str]) -> dict[str, Any]:
    """The parameters of these names, of the estimator and of its parts, that are set."""
    found = estimator.get_params(deep=True) if hasattr(estimator, "get_params") else {}
    return {key: value for key, value in found.items() if key.split("__")[-1] in names and value is not None}


def _number(named: Any, classes: Sequence[str], num_classes: int, key: str) -> int:
    """The number of a class that is named by the user's own value, or by its number.

    >>> [_number(key, ("1", "2"), 2, "class_weight") for key in (1, "2", 2.0)]
    [0, 1, 1]
    >>> [_number(key, ("no", "yes"), 2, "class_weight") for key in ("yes", 0, "1")]
    [1, 0, 1]
    """
    if str(named) in classes:
        return classes.index(str(named))
    values = [_as_float(name) for name in classes]
    value = _as_float(named)
    if value is not None and classes and None not in values:
        if value in values:
            return values.index(value)
    elif value is not None and value.is_integer() and 0 <= value < num_classes:
        return int(value)
    known = f"it has {', '.join(map(quoted, classes))}" if classes else f"there are {num_classes}, numbered from 0"
    raise LearnerError(f"{key} names the class {quoted(str(named))}, which the study does not have: {known}")


def _as_float(text: Any) -> float | None:
    try:
        return float(text)
    except (TypeError, ValueError):
        return None
