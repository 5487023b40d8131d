"""All votes of a round as a matrix, for a consensus that reads them more than once.

And silos whose votes are the opposite of the others', as where one writes 1 for healthy and the others 1 for ill.
Agreement is corrected for chance: J. Cohen, "A coefficient of agreement for nominal scales", Educational and
Psychological Measurement 20(1), 1960. Else silos that all say the most frequent class would seem to agree.
"""

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.consensus.counting import Ballot
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, HardLabels, SiloName, VoteCounts

if TYPE_CHECKING:
    pass


_BYTE: Final = 255


class LabelMatrix(NamedTuple):
    """``votes`` ``(silos, examples)``: a class in 0..C-1, or C where the silo abstains; ``silos`` names the rows."""

    silos: list[SiloName]
    votes: NDArray[Any]
    num_classes: int


def label_matrix(ballots: Iterable[Ballot], num_examples: int, num_classes: int) -> LabelMatrix:
    """The ballots of a round. Memory is one byte for each silo and example; two beyond 254 classes.

    Rows are in an order that depends on the votes, so that sums over silos are the same to the last bit in whatever
    order they came and whatever they are called: a rounding error could else break a tie.

    >>> label_matrix([("b", np.int16([1, -1])), ("a", np.int16([0, 1]))], num_examples=2, num_classes=2).votes.tolist()
    [[1, 2], [0, 1]]
    """
    dtype = np.uint8 if num_classes < _BYTE else LABEL_DTYPE
    rows = []
    for silo, vote in ballots:
        row = np.where(vote < 0, num_classes, vote).astype(dtype)
        rows.append((hashlib.sha256(row.tobytes()).digest(), silo, row))
    rows.sort(key=lambda row: row[:2])
    # Filled row by row, and each row dropped: stacked, the votes would be there twice.
    votes = np.empty((len(rows), num_examples), dtype)
    silos = [silo for _, silo, _ in rows]
    for number in reversed(range(len(rows))):
        votes[number] = rows.pop()[2]
    return LabelMatrix(silos, votes, num_classes)


def unanimous(matrix: LabelMatrix) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Mask ``(examples,)`` where all votes cast agree, or there are none; and the vote there, or C ``(examples,)``."""
    lowest = matrix.votes.min(axis=0)
    agreed = np.ones(len(lowest), dtype=np.bool_)
    for row in matrix.votes:
        agreed &= (row == lowest) | (row == matrix.num_classes)
    return agreed, lowest


def kappas(matrix: LabelMatrix) -> NDArray[np.float64]:
    """Cohen's kappa of each pair of silos ``(silos, silos)``, on the examples that both voted on; at most 1.

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
"""Least number of standard errors of a kappa below chance."""


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


def agreed(labels: HardLabels, decided: HardLabels) -> float:
    """Share of a silo's labels that are the label decided on, of the examples that have one; 0 if none has.

    >>> agreed(np.int16([0, 1, 1]), np.int16([0, 0, -1]))
    0.5
    """
    labeled = np.flatnonzero(decided != ABSTAIN)
    return float((labels == decided)[labeled].mean()) if len(labeled) else 0.0


def counts_agreed(counts: VoteCounts, decided: HardLabels) -> float:
    """The same for votes ``(examples, classes)`` of a silo's students.

    >>> counts_agreed(np.int32([[2, 0], [1, 1], [0, 2]]), np.int16([0, 0, -1]))
    0.75
    """
    labeled = np.flatnonzero(decided != ABSTAIN)
    return float(counts[labeled, decided[labeled]].sum() / counts[labeled].sum()) if len(labeled) else 0.0
