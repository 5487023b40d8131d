"""Grades of risk: parts of one size of what is ranked. Light, as coordinators make grades of silos' grades."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

GRADES: Final = 5
NAMES: Final = tuple(str(grade) for grade in range(1, GRADES + 1))
"""Names of the grades as classes: 1 is the lowest risk."""


def grades(risk: NDArray[np.floating[Any]], parts: int = GRADES) -> NDArray[np.int64]:
    """The part of each risk ``(n,)`` when they are ordered and cut into ``parts`` of one size, from 0; ties share one.

    >>> grades(np.array([0.3, 0.1, 0.2, 0.1]), parts=2)
    array([1, 0, 1, 0])
    """
    place = (rankdata(risk) - 0.5) / max(1, len(risk))
    found: NDArray[np.int64] = np.minimum((place * parts).astype(np.int64), parts - 1)
    return found
