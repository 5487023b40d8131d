"""A silo that votes for one class, whatever it is asked, as all who collude with it do. For simulation only.

A minority that votes together for a class of its choice is the strongest that a poisoned vote can be: M. Fang, X. Cao,
J. Jia, N. Gong, "Local model poisoning attacks to Byzantine-robust federated learning", USENIX Security 2020, has the
like for weights.
"""

from typing import Self

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.types import LABEL_DTYPE, Features, HardLabels


class Colluder:
    """Learns nothing and answers with class ``chosen``. Satisfies ``Learner`` and ``SoftFittable``."""

    def __init__(self, chosen: int) -> None:
        self._chosen = chosen

    def fit(self, X: Features, y: HardLabels, sample_weight: NDArray[np.float64] | None = None) -> Self:
        """Nothing."""
        return self

    def predict(self, X: Features) -> HardLabels:
        """The chosen class for each example, ``(n,)``."""
        return np.full(len(X), self._chosen, dtype=LABEL_DTYPE)

    def probabilities(self, X: Features, num_classes: int) -> NDArray[np.float64]:
        """All on the chosen class, ``(n, num_classes)``."""
        found = np.zeros((len(X), num_classes))
        found[:, self._chosen] = 1
        return found

    def check_soft(self) -> None:
        """It has nothing to learn."""
