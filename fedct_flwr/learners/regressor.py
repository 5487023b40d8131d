"""Any scikit-learn regressor as a learner of a quantity that refits from scratch every round."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_regressor
from sklearn.utils.validation import has_fit_parameter

from fedct_flwr.learners.answered import values_of
from fedct_flwr.learners.catalog import SOME_REGRESSORS
from fedct_flwr.learners.sklearn import SklearnLearner, is_kind, last_step, seeded, weight_parameter
from fedct_flwr.types import Answers, Features, LearnerError, Values


def prepare_regressor(estimator: Any, name: str, random_state: int) -> Any:
    """Set every ``random_state`` left open, also inside pipelines. Raises LearnerError for what is no regressor."""
    if not is_kind(estimator, is_regressor):
        raise LearnerError(f"learner {name!r} is no regressor, and here a number is predicted: {SOME_REGRESSORS}")
    return seeded(estimator, name, random_state)


class SklearnRegressor(SklearnLearner):
    """A scikit-learn regressor behind a transformer that is already fitted (or none).

    ``packages`` are those whose types its files may hold, beside scikit-learn's.
    """

    def fit(self, X: Features, y: Answers, sample_weight: NDArray[np.float64] | None = None) -> Self:
        """Train a fresh clone on values ``(n,)``."""
        weights = {} if sample_weight is None else {weight_parameter(self._template): sample_weight}
        return self._train(clone, X, y, weights)

    def predict(self, X: Features) -> Values:
        """The value of each example, ``(n,)``, finite."""
        return values_of(self._asked("predict", X), X.shape[0], model=self._name)

    def probabilities(self, X: Features, num_classes: int) -> None:
        """None: a value is no class."""

    def check_soft(self) -> None:
        """Raise LearnerError unless it takes sample weights."""
        if not has_fit_parameter(last_step(self._template), "sample_weight"):
            kind = type(last_step(self._template)).__name__
            raise LearnerError(f"{kind} takes no sample weights, so it cannot learn others' values: {SOME_REGRESSORS}")
