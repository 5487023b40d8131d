"""Objects with ``fit`` and ``predict`` but without scikit-learn's parameters, as estimators."""

import copy
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import has_fit_parameter

from fedct_flwr.learners.trained_model import in_order
from fedct_flwr.types import TrainingError


class Plain(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """A classifier whose ``fit`` trains a copy of an object that has ``fit`` and ``predict``."""

    def __init__(self, wrapped: Any) -> None:
        self.wrapped = wrapped

    def fit(self, X: Any, y: Any) -> Self:
        """Train a copy, whatever its ``fit`` returns."""
        return self._fit(X, y)

    def predict(self, X: Any) -> Any:
        """Predictions of the copy."""
        return self.trained_.predict(X)

    @available_if(lambda self: hasattr(self.wrapped, "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Probabilities ``(n, k)`` of the copy, for its ``classes_``, or for sorted ones where it names none.

        Raises TrainingError for columns whose names are no classes where it has no ``classes_`` either.
        """
        found = in_order(self.trained_.predict_proba(X), self.classes_)
        unnamed = not hasattr(found, "columns") or [*found.columns] == [*range(len(found.columns))]
        if not unnamed and not hasattr(self.trained_, "classes_"):
            raise TrainingError(
                f"{type(self.wrapped).__name__}.predict_proba names its columns otherwise than the classes: name them "
                "as fit got the labels, or set classes_ in fit"
            )
        return found

    def _fit(self, X: Any, y: Any, **weights: Any) -> Self:
        self.trained_ = copy.deepcopy(self.wrapped)
        self.trained_.fit(X, y, **weights)
        self.classes_ = getattr(self.trained_, "classes_", np.unique(y))
        return self


class Weighted(Plain):
    """The same for an object whose ``fit`` takes sample weights."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train a copy with weights ``(n,)``, if there are any."""
        return self._fit(X, y, **({} if sample_weight is None else {"sample_weight": sample_weight}))


def as_estimator(learner: Any) -> Any:
    """Wrap a classifier with ``fit`` and ``predict`` as a scikit-learn estimator, which trains a copy of it.

    The estimator takes sample weights if ``learner.fit`` does.
    """
    return (Weighted if has_fit_parameter(learner, "sample_weight") else Plain)(learner)
