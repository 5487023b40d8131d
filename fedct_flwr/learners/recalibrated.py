"""A trained model that states chances, made of one that ranks. It decides as before."""

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.learners.base import Probabilistic
from fedct_flwr.scoring import Predictor
from fedct_flwr.scoring.recalibration import Recalibration
from fedct_flwr.types import Answers, Features


class Recalibrated:
    """``learner``, whose probabilities are recalibrated (None: as they are)."""

    def __init__(self, learner: Predictor, how: Recalibration | None) -> None:
        self.learner, self._how = learner, how

    def predict(self, X: Features) -> Answers:
        return self.learner.predict(X)

    def probabilities(self, X: Features, num_classes: int) -> NDArray[np.float64] | None:
        found = self.learner.probabilities(X, num_classes) if isinstance(self.learner, Probabilistic) else None
        return found if found is None or self._how is None else self._how.apply(found)
