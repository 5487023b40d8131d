"""For classifiers that insist on the classes 0..k-1 where a silo knows only some of the study's."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils.metaestimators import available_if

from fedct_flwr.learners.answered import classes_of
from fedct_flwr.learners.binning import train
from fedct_flwr.types import Features, HardLabels


class Relabeled(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """Trains ``estimator`` on the classes at hand, numbered without gaps, and predicts in the study's label space.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> Relabeled(DecisionTreeClassifier()).fit(np.array([[0.0], [1.0]]), np.array([2, 7])).predict(np.array([[1.0]]))
    array([7])
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Features, y: HardLabels, **fit_params: Any) -> Self:
        """Train a clone of the estimator."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.estimator_ = train(clone(self.estimator), X, codes, **fit_params)
        return self

    def predict(self, X: Features) -> NDArray[Any]:
        """The class of each example in the numbering that ``fit`` was given."""
        codes = classes_of(
            self.estimator_.predict(X), X.shape[0], len(self.classes_), model=type(self.estimator_).__name__
        )
        labels: NDArray[Any] = self.classes_[codes]
        return labels

    @available_if(lambda self: hasattr(self.estimator_, "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Features) -> NDArray[Any]:
        """The probability of each of ``classes_``, ``(n, k)``."""
        probabilities: NDArray[Any] = self.estimator_.predict_proba(X)
        return probabilities
