"""Transformers that learn nothing, and so are fitted from the beginning."""

from typing import Any, Self

from sklearn.base import BaseEstimator, TransformerMixin

from fedct_flwr.types import Features


class Stateless(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """What is left to be said is ``transform``."""

    def fit(self, X: Features, y: Any = None) -> Self:
        """Nothing is learned."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True
