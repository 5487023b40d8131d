"""A classifier of one's own: anything that keeps to scikit-learn's rules.

    env PYTHONPATH=examples fedct simulate --learner own_classifier.NearestMean --set preprocessing=standard

It is cloned and refitted every round, on the silo's records and the consensus labels of the public set.
"""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin


class NearestMean(ClassifierMixin, BaseEstimator):
    """Predicts the class whose mean is nearest, the means drawn towards their center by ``shrinkage``."""

    def __init__(self, shrinkage: float = 0.0) -> None:
        self.shrinkage = shrinkage

    def fit(self, X: Any, y: Any) -> Self:
        """Remember the mean of each class."""
        self.classes_ = np.unique(y)
        means = np.stack([X[y == c].mean(axis=0) for c in self.classes_])
        self.means_ = means + self.shrinkage * (means.mean(axis=0) - means)
        return self

    def predict(self, X: Any) -> Any:
        """The class of each example."""
        distances = np.linalg.norm(X[:, None] - self.means_, axis=2)
        return self.classes_[distances.argmin(axis=1)]
