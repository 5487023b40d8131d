"""Learners that a user might bring, and that fail in the ways users' learners fail."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

SECRET = "patient 4711 has a secret"


class Raising(ClassifierMixin, BaseEstimator):
    """Fails with an exception that quotes data."""

    def fit(self, X: Any, y: Any) -> Self:
        raise ValueError(SECRET)

    def predict(self, X: Any) -> Any:
        raise ValueError(SECRET)


class SometimesOutside(ClassifierMixin, BaseEstimator):
    """Predicts a class that the study does not have if one of its records has a huge value."""

    def fit(self, X: Any, y: Any) -> Self:
        self.outside_ = bool(np.nanmax(X) > 1e9)
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), 7 if self.outside_ else 0)


def network(num_features: int, num_classes: int, width: int = 4) -> Any:
    """A network of a few dozen weights."""
    from torch import nn

    return nn.Sequential(nn.Linear(num_features, width), nn.ReLU(), nn.Linear(width, num_classes))


def normalized(num_features: int, num_classes: int) -> Any:
    """A network that learns from batches without noise."""
    from torch import nn

    return nn.Sequential(nn.Linear(num_features, 4), nn.BatchNorm1d(4), nn.Linear(4, num_classes))


def looking_up(num_features: int, num_classes: int) -> Any:
    """A network that looks its second feature up in a table of two rows: it fails where that is neither 0 nor 1."""
    import torch
    from torch import nn

    class LookingUp(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(2, 3)
            self.last = nn.Linear(num_features + 3, num_classes)

        def forward(self, X: Any) -> Any:
            return self.last(torch.cat([X / 100, self.table(X[:, 1].long())], dim=1))

    return LookingUp()


CLASSES = np.array(["healthy", "diseased"])
"""Of the hospitals' data, by their numbers."""


class Contrary(ClassifierMixin, BaseEstimator):
    """Predicts one class, which its random state decides."""

    def __init__(self, random_state: int | None = None) -> None:
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), CLASSES[(self.random_state or 0) % 2])
