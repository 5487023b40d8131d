"""Whether the noise in opened sums is as large as promised: a test of its variance.

Guesses alone tell half the noise from all of it in most games, and not in each: they read whether a sum is above a
threshold. Here the attacker knows all that the noise was added to, so that it reads the noise itself.
"""

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

_WAYS: Final = 2
_TESTS: Final = _WAYS + 1


class NoiseFound(NamedTuple):
    """Scale of the noise as a part of the promised one, and its upper limit at the test's confidence."""

    ratio: float
    high: float

    @property
    def broken(self) -> bool:
        """Whether the noise is too small."""
        return self.high < 1


def find_noise(sums: NDArray[np.float64], scale: float, confidence: float) -> NoiseFound:
    """Compare noise ``(sums, examples, classes)``, whose numbers are promised to be independent, of this scale.

    The least of three: of all single numbers; along votes that all go from the first class to the second; along votes
    of which every other one goes back. So noise that is shared between numbers, or the same in all sums, is found too.
    Raises ValueError for fewer than two sums or two classes.

    Formal guarantees:
        Of correct noise, ``broken`` is said with a probability of at most 1 - ``confidence``: a third of that for each
        test. The sum of squares of normal numbers, less their mean, has a chi-squared distribution. Discrete Gaussians
        of a scale of 2 and more have the moments of normal numbers to 1e-30, and sums of them the same distribution
        but for rounding.
    """
    if len(sums) < 2 or sums.shape[2] < 2:
        raise ValueError(f"noise of shape {sums.shape}: a variance needs two sums of two classes")
    ways = np.ones((_WAYS, sums.shape[1]))
    ways[1, 1::2] = -1
    along = (sums[:, :, 0] - sums[:, :, 1]) @ ways.T
    risk = (1 - confidence) / _TESTS
    squares = [
        (_squares(sums) / scale**2, (len(sums) - 1) * math.prod(sums.shape[1:])),
        *((_squares(one) / (2 * sums.shape[1] * scale**2), len(sums) - 1) for one in along.T),
    ]
    found = [
        NoiseFound(math.sqrt(total / freedom), math.sqrt(total / float(chi2.ppf(risk, freedom))))
        for total, freedom in squares
    ]
    return min(found, key=lambda one: one.high)


def _squares(numbers: NDArray[np.float64]) -> float:
    """Of deviations from each number's mean over the sums: what is always added hides nothing."""
    return float(((numbers - numbers.mean(axis=0)) ** 2).sum())
