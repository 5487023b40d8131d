"""What silos train, as ``simulate()`` is given it: names, or objects, as values of the run config.

An object whose class can be imported, and whose parameters JSON can hold, becomes its import path and its parameters:
so a run folder says what was trained, and silos that are other processes can make it. Any other stays in memory.
"""

import copy
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from types import FunctionType
from typing import Any, Final, NamedTuple

import joblib
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from fedct_flwr.learners.build import is_network
from fedct_flwr.learners.by_class import copied
from fedct_flwr.learners.catalog import HeldLearner
from fedct_flwr.learners.sklearn import functions_in
from fedct_flwr.text.suggest import suggest
from fedct_flwr.types import LearnerError, SiloName

_DIGITS: Final = 16
_NUMBERS: Final = itertools.count(1)


class Plain(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """A learner that has ``fit`` and ``predict`` alone, as an estimator: each fit trains a copy of it."""

    def __init__(self, learner: Any) -> None:
        self.learner = learner

    def fit(self, X: Any, y: Any) -> "Plain":
        """Train a copy, whatever its ``fit`` returns."""
        self.classes_, self.learner_ = np.unique(y), copy.deepcopy(self.learner)
        self.learner_.fit(X, y)
        return self

    def predict(self, X: Any) -> Any:
        """What the copy predicts."""
        return self.learner_.predict(X)


class Given(NamedTuple):
    """A learner as the run config names it, and the object, where it is held in memory."""

    name: str
    params: dict[str, Any]
    held: HeldLearner | None = None


def learners_of(learner: Any, silos: Sequence[SiloName]) -> tuple[dict[str, Any], list[HeldLearner]]:
    """Run-config values for one learner, or for a mapping with one for each silo, and what they hold in memory.

    A name alone says nothing of parameters: those are ``learner-params``. Raises LearnerError.
    """
    if isinstance(learner, str):
        return {"learner": learner}, []
    if not isinstance(learner, Mapping):
        given = given_learner(learner, "learner")
        return {"learner": given.name, "learner-params": json.dumps(given.params)}, _held([given])
    for name in learner:
        if name not in silos:
            raise LearnerError(f"learner names {name!r}, which is no silo: {suggest(str(name), silos)}")
    if missing := [silo for silo in silos if silo not in learner]:
        raise LearnerError(f"learner names none for silo {missing[0]!r}: give one for each silo, or one for all")
    all_given = [given_learner(learner[silo], f"learner of silo {silo!r}") for silo in silos]
    params = json.dumps([given.params for given in all_given])
    return {"learner": [given.name for given in all_given], "learner-params": params}, _held(all_given)


def given_learner(learner: Any, what: str) -> Given:
    """One learner. Raises LearnerError for another object."""
    if isinstance(learner, str):
        return Given(learner, {})
    if isinstance(learner, type):
        raise LearnerError(f"{what} is the class {learner.__name__}: give an object of it, {learner.__name__}()")
    if is_network(learner):
        return _in_memory(learner, [_top(type(learner))], deep=True)
    # What predicts only once it is fitted, such as a stack, has the method in its class.
    there = [*dir(type(learner)), *dir(learner)]
    if not all(method in there for method in ("fit", "predict")):
        raise LearnerError(
            f"{what} is of type {type(learner).__name__}: give an estimator in scikit-learn's manner, a torch "
            "module, a short name or an import path"
        )
    if not all(method in there for method in ("get_params", "set_params")):
        return _in_memory(Plain(learner), {_top(type(learner))}, deep=False)
    found = _by_path(learner)
    parts = [learner, *(value for value in learner.get_params(deep=True).values() if hasattr(value, "get_params"))]
    return found or _in_memory(
        learner, {*map(_top, functions_in(learner)), *(_top(type(part)) for part in parts)}, deep=False
    )


def _held(given: Iterable[Given]) -> list[HeldLearner]:
    return [one.held for one in given if one.held]


def _by_path(estimator: Any) -> Given | None:
    """Its class by import path, with parameters that differ from the class's own; None where that is not the same."""
    kind = type(estimator)
    try:
        fresh = kind().get_params(deep=False)
        params = {
            name: value for name, value in estimator.get_params(deep=False).items()
            if name not in fresh or repr(value) != repr(fresh[name])
        }  # fmt: skip
        # Tuples, numbers of NumPy and the like would come back as something else.
        exact = repr(json.loads(json.dumps(params))) == repr(params)
    except Exception:  # what a user's class may raise when it is made without parameters
        return None
    path = _path(kind)
    return Given(path, params) if path and exact else None


def _path(kind: type) -> str | None:
    """Where any process of this machine can import a class from, by its public name if it has one."""
    if kind.__module__ == "__main__" or "." in kind.__qualname__:
        return None
    parts = kind.__module__.split(".")
    public = list(itertools.takewhile(lambda part: not part.startswith("_"), parts))
    for module in (".".join(public), kind.__module__):
        try:
            if module and getattr(import_module(module), kind.__name__, None) is kind:
                return f"{module}.{kind.__name__}"
        except ImportError:
            continue
    return None


def _in_memory(learner: Any, packages: Iterable[str], *, deep: bool) -> Given:
    kind = type(learner)
    try:
        digest = str(joblib.hash(learner))[:_DIGITS]
    except Exception:  # whatever pickling a user's object raises
        # A run with it cannot be resumed, as its learner cannot be compared with another.
        digest = f"unnamed-{next(_NUMBERS)}"
    original = copy.deepcopy(learner) if deep else copied(learner)
    name = f"{kind.__module__}.{kind.__qualname__}@{digest}".replace("<", "").replace(">", "").replace(",", "")
    held = HeldLearner(name, lambda: copy.deepcopy(original) if deep else copied(original), set(packages))
    return Given(name, {}, held)


def _top(kind: type | FunctionType) -> str:
    return kind.__module__.partition(".")[0]
