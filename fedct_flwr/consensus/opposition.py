"""Silos whose votes are the opposite of all others': their labels are swapped, and count nothing.

A real silo's records cannot be seen, and a silo that writes 1 for healthy where others write 1 for ill looks like any
other. Its votes on public examples show it: they agree with the others' less than chance would (Cohen's kappa below 0),
while the others agree with each other.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.consensus.agreement import kappas
from fedct_flwr.consensus.label_matrix import LabelMatrix
from fedct_flwr.types import SiloName

_OPPOSITE: Final = -0.3
_AGREE: Final = 0.3
_FEWEST_EXAMPLES: Final = 50
_MOST_EXAMPLES: Final = 2000
_FEWEST_SILOS: Final = 3
_MOST_SILOS: Final = 100
_FAR: Final = 3.0
"""Standard errors of a kappa below what chance explains, at least."""


def opposed(matrix: LabelMatrix) -> dict[SiloName, float]:
    """Each such silo, and its mean kappa with the others; the most opposed first.

    None of fewer than three silos, as of two it is unknown which is wrong; none from fewer than 50 examples.

    >>> truth = np.arange(200, dtype=np.uint8) % 2
    >>> opposed(LabelMatrix(["a", "b", "c"], np.stack([truth, truth, 1 - truth]), 2))
    {'c': -1.0}
    """
    examples = matrix.votes.shape[1]
    if not _FEWEST_SILOS <= len(matrix.silos) <= _MOST_SILOS or examples < _FEWEST_EXAMPLES:
        return {}
    votes = matrix.votes[:, :: -(-examples // _MOST_EXAMPLES)]
    kappa = kappas(matrix._replace(votes=votes))
    limit = min(_OPPOSITE, -_FAR / np.sqrt(votes.shape[1]))
    found: dict[SiloName, float] = {}
    left = np.arange(len(matrix.silos))
    while len(left) >= _FEWEST_SILOS:
        means = _means(kappa, left)
        worst = int(means.argmin())
        others = np.delete(left, worst)
        if means[worst] > limit or _means(kappa, others).mean() < _AGREE:
            break
        found[matrix.silos[left[worst]]] = round(float(means[worst]), 3)
        left = others
    return found


def _means(kappa: NDArray[np.float64], silos: NDArray[np.int_]) -> NDArray[np.float64]:
    """Each silo's mean kappa with the other ones of these."""
    among = kappa[np.ix_(silos, silos)].copy()
    np.fill_diagonal(among, 0)
    means: NDArray[np.float64] = among.sum(axis=1) / (len(silos) - 1)
    return means
