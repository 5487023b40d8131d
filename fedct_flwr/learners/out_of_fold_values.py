"""What models say of a silo's own records that they have not seen, where a number is predicted.

Losses are squared errors in units of the values' variance: 1 is what the mean of all values has.
"""

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedct_flwr.learners.out_of_fold import Evidence, OwnRecords
from fedct_flwr.types import Examples, Groups


class OwnValues(OwnRecords):
    """A silo's own records with values, divided once: high and low values are dealt out alike.

    ``groups`` ``(n,)`` are kept together; ``hasty`` as for ``OwnRecords``.
    """

    def __init__(self, private: Examples, rng: Generator, groups: Groups | None = None, *, hasty: bool = False) -> None:
        super().__init__(private, rng, groups, hasty=hasty)
        self._variance = float(private.y.var()) or 1.0

    @property
    def can_tell(self) -> bool:
        """Whether they can speak for or against a model: at least two different values to ask about."""
        return len(np.unique(self.y)) > 1

    @property
    def know_classes(self) -> bool:
        """Of values there is nothing to tell apart."""
        return True

    def compare(self, first: NDArray[np.float64], second: NDArray[np.float64]) -> Evidence:
        """How much better the ``second`` values are than the first, both as ``said`` gives them, ``(asked,)``."""
        return Evidence.of(self._losses(first) - self._losses(second))

    def loss(self, predicted: NDArray[np.float64]) -> float:
        """The mean loss of values."""
        return float(self._losses(predicted).mean())

    def _losses(self, predicted: NDArray[np.float64]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = (predicted - self.y) ** 2 / self._variance
        return found
