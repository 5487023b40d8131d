"""Silos whose votes are the opposite of the others', as where one writes 1 for healthy and the others 1 for ill.

Agreement is corrected for chance: J. Cohen, "A coefficient of agreement for nominal scales", Educational and
Psychological Measurement 20(1), 1960. Else silos that all say the most frequent class would seem to agree.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.consensus.label_matrix import LabelMatrix
from fedct_flwr.types import SiloName


def kappas(matrix: LabelMatrix) -> NDArray[np.float64]:
    """Cohen's kappa of each two silos ``(silos, silos)``, on the examples that both voted on; at most 1.

    How much more often they vote the same than by chance with the same shares of classes, of how much more they could.
    0 where that says nothing: without common examples, or if both always vote for the same class.

    >>> kappas(LabelMatrix(["a", "b"], np.uint8([[0, 0, 1, 1], [0, 1, 1, 1]]), 2))[0, 1]
    np.float64(0.5)
    """
    cast = (matrix.votes < matrix.num_classes).astype(np.float32)
    shared = np.maximum(cast @ cast.T, 1).astype(np.float64)
    same, chance = np.zeros_like(shared), np.zeros_like(shared)
    for c in range(matrix.num_classes):
        chose = (matrix.votes == c).astype(np.float32)
        same += chose @ chose.T
        # How often the one voted for a class where the other voted at all.
        times = chose @ cast.T
        chance += times * times.T
    chance /= shared**2
    kappa: NDArray[np.float64] = np.divide(
        same / shared - chance, 1 - chance, out=np.zeros_like(same), where=chance < 1
    )
    return kappa


_OPPOSITE: Final = -0.3
_AGREE: Final = 0.3
_FEWEST_EXAMPLES: Final = 50
_MOST_EXAMPLES: Final = 2000
_FEWEST_SILOS: Final = 3
_MOST_SILOS: Final = 100
_FAR: Final = 3.0
"""Standard errors of a kappa below what chance explains, at least."""


def opposed(matrix: LabelMatrix) -> dict[SiloName, float]:
    """Each silo whose votes are the opposite of all others', and its mean kappa with them; the most opposed first.

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
