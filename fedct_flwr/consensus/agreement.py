"""Agreement weights: a silo's vote counts the more, the more often others vote as it does.

After the trust of D. Fan, C. Mendler-Dünner, M. Jaggi, "Collaborative learning via prediction consensus", NeurIPS 2023
(arXiv:2305.18497), §3, with agreement of hard labels instead of the cosine of probabilities, and one target for all
silos. Agreement is corrected for chance: J. Cohen, "A coefficient of agreement for nominal scales", Educational and
Psychological Measurement 20(1), 1960. Else silos that all say the most frequent class would trust each other for it.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedct_flwr.consensus.counting import Ballot, Consensus, State, plurality
from fedct_flwr.consensus.label_matrix import LabelMatrix, label_matrix, no_rows, rows_of, with_rows
from fedct_flwr.types import HardLabels, SiloName

_TRUST: Final = "trust"
_UNIT: Final = 1 << 16
_BLOCK: Final = 1 << 18
"""Votes that are floats at a time; a product of matrices needs them, and they take four bytes each."""


def kappas(matrix: LabelMatrix) -> NDArray[np.float64]:
    """Cohen's kappa of each two silos ``(silos, silos)``, on the examples that both voted on; at most 1.

    How much more often they vote the same than by chance with the same shares of classes, of how much more they could.
    0 where that says nothing: without common examples, or if both always vote for the same class. Memory is that of the
    votes and of ``(classes, silos, silos)`` floats.

    >>> kappas(LabelMatrix(["a", "b"], np.uint8([[0, 0, 1, 1], [0, 1, 1, 1]]), 2))[0, 1]
    np.float64(0.5)
    """
    silos, classes = len(matrix.silos), matrix.num_classes
    both, same = np.zeros((silos, silos)), np.zeros((silos, silos))
    # How often the one voted for a class where the other voted at all.
    times = np.zeros((classes, silos, silos))
    block = max(1, _BLOCK // max(silos, 1))
    for start in range(0, matrix.votes.shape[1], block):
        votes = matrix.votes[:, start : start + block]
        cast = (votes < classes).astype(np.float32)
        both += cast @ cast.T
        for c in range(classes):
            chose = (votes == c).astype(np.float32)
            same += chose @ chose.T
            times[c] += chose @ cast.T
    chance = np.einsum("cij,cji->ij", times, times)
    shared = np.maximum(both, 1)
    chance /= shared**2
    kappa: NDArray[np.float64] = np.divide(
        same / shared - chance, 1 - chance, out=np.zeros_like(same), where=chance < 1
    )
    return kappa


def trusts(matrix: LabelMatrix) -> NDArray[np.float64]:
    """How much each silo is trusted ``(silos,)``, in 0..1: the mean of its kappas with the others, but none below 0.

    0 for all where no two silos agree.
    """
    kappa = np.maximum(kappas(matrix), 0)
    np.fill_diagonal(kappa, 0)
    trust: NDArray[np.float64] = kappa.sum(axis=0) / max(len(kappa) - 1, 1)
    return trust


def agreement(num_classes: int, *, trust: Literal["static", "dynamic"]) -> Consensus:
    """The consensus that counts votes with the trust in the silos that cast them, and decides as ``plurality``.

    ``static``: a silo's trust is that of the first round it takes part in; ``dynamic``: that of each round, in which
    silos agree more and more. Every silo has some say: the least weight is 1/65536 of the largest, so where it votes
    alone its label stands; and where no silo is trusted all count the same. The state keeps the trust of each silo,
    also while it is away; ``report`` tells it.
    """

    def init(silos: Sequence[SiloName]) -> State:
        return no_rows(_TRUST)

    def apply(
        ballots: Iterable[Ballot], incumbent: HardLabels, state: State, rng: Generator
    ) -> tuple[HardLabels, State]:
        matrix = label_matrix(ballots, len(incumbent), num_classes)
        found = dict(zip(matrix.silos, trusts(matrix), strict=True))
        if trust == "static":
            found |= {silo: value for silo, value in rows_of(state, _TRUST).items() if silo in found}
        values = np.array([found[silo] for silo in matrix.silos])
        counts = np.zeros((num_classes, len(incumbent)), dtype=np.int32)
        for weight, row in zip(_whole(values), matrix.votes, strict=True):
            for c, votes in enumerate(counts):
                votes += weight * (row == c)
        labels = plurality(counts.T, incumbent, rng)
        # A silo alone has no other to agree with: that is no reason for mistrust later.
        return labels, with_rows(state, _TRUST, matrix.silos, values) if len(values) > 1 else state

    def report(state: State) -> dict[SiloName, dict[str, Any]]:
        return {silo: {"trust": round(float(value), 4)} for silo, value in rows_of(state, _TRUST).items()}

    return Consensus(init, apply, report)


def _whole(values: NDArray[np.float64]) -> NDArray[np.int32]:
    """Weights as whole numbers: their sums are exact, so ties are ties."""
    unit = min(_UNIT, np.iinfo(np.int32).max // max(len(values), 1))
    most = values.max(initial=0.0)
    return np.maximum(np.rint(values / most * unit) if most > 0 else values, 1).astype(np.int32)


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

    It may write 1 for healthy where the others write 1 for ill.

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
