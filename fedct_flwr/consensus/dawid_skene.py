"""Dawid-Skene: from hard votes alone, how good each silo is at each class, and what the labels are then.

A. P. Dawid, A. M. Skene, "Maximum likelihood estimation of observer error-rates using the EM algorithm", Applied
Statistics 28(1), 1979. With two classes this is STAPLE: S. K. Warfield, K. H. Zou, W. M. Wells, "Simultaneous truth and
performance level estimation (STAPLE)", IEEE Transactions on Medical Imaging 23(7), 2004.

Who is right where two silos disagree, their votes do not tell: with fewer than three silos there is nothing to estimate
from (Zhang, Chen, Zhou, Jordan, "Spectral methods meet EM", NeurIPS 2014, arXiv:1406.3824, begins with three groups).

The default for hard labels; with class-balanced silos where they know few of a class. It does not hold where nearly
half of the silos err in the same way while the others differ: benchmarks/results/README.md, 14.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fedct_flwr.consensus.counting import Ballot, Consensus, State, plurality, tally
from fedct_flwr.consensus.label_matrix import LabelMatrix, label_matrix, no_rows, rows_of, unanimous, with_rows
from fedct_flwr.types import HardLabels, SiloName

_PSEUDO_COUNT: Final = 0.5
"""Added to each count, so that what was not seen is not held to be impossible."""
_TOLERANCE: Final = 1e-3
_CAP: Final = 50
_UNIT: Final = 1 << 20
"""Probabilities that differ by less than one part in so many are equal."""
_FEWEST: Final = 3
"""Silos whose votes tell how good each is."""
_CONFUSION: Final = "confusion"


class Estimate(NamedTuple):
    """What EM found.

    ``posterior`` ``(examples, classes)``: rows sum to 1. ``confusion`` ``(silos, classes, classes)``: how likely the
    silo votes for the second class where the first is right; rows sum to 1. ``priors`` ``(classes,)``.
    """

    posterior: NDArray[np.float64]
    confusion: NDArray[np.float64]
    priors: NDArray[np.float64]
    iterations: int


def estimate(matrix: LabelMatrix, *, tolerance: float = _TOLERANCE, cap: int = _CAP) -> Estimate:
    """Dawid and Skene's estimate from the votes of at least one silo, beginning with the vote shares.

    Ends when no probability changes by more than ``tolerance``, or after ``cap`` iterations. An abstention tells
    nothing; an example without votes has the classes' shares among the others. Beside the votes, memory is that of
    four tables ``(examples, classes)`` of floats, and of one silo's votes as integers of 32 bits.

    crowd-kit's ``DawidSkene`` does the same in pandas frames with a row of three columns for each vote: many times
    slower, and many bytes for one.

    >>> votes = np.uint8([[0, 0, 1], [0, 1, 1], [1, 0, 0]])
    >>> estimate(LabelMatrix(["a", "b", "c"], votes, 2), cap=1).confusion[2].round(3)
    array([[0.562, 0.437],
           [0.643, 0.357]])
    """
    silos, examples = matrix.votes.shape
    classes = matrix.num_classes
    ones, starts = np.ones(examples), np.arange(examples + 1, dtype=np.int32)

    def voted(silo: int) -> csr_array:
        # Which class the silo voted for, (examples, classes + 1) with abstentions last. Its products gather and count
        # rows: many times faster than numpy's bincount with weights.
        row = matrix.votes[silo].astype(np.int32)
        return csr_array((ones, row, starts), shape=(examples, classes + 1))

    posterior = np.zeros((examples, classes))
    for silo in range(silos):
        posterior += voted(silo) @ np.eye(classes + 1, classes)
    posterior += posterior.sum(axis=1, keepdims=True) == 0
    posterior /= posterior.sum(axis=1, keepdims=True)
    iterations, change = 0, np.inf
    while change > tolerance and iterations < cap:
        iterations += 1
        counts = posterior.sum(axis=0) + _PSEUDO_COUNT
        priors = counts / counts.sum()
        confusion = np.stack([(voted(silo).T @ posterior)[:classes].T for silo in range(silos)]) + _PSEUDO_COUNT
        confusion /= confusion.sum(axis=2, keepdims=True)
        logs = np.zeros((silos, classes + 1, classes))
        logs[:, :classes] = np.log(confusion).transpose(0, 2, 1)
        scores = np.tile(np.log(priors), (examples, 1))
        for silo in range(silos):
            scores += voted(silo) @ logs[silo]
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=1, keepdims=True)
        change = float(np.abs(scores - posterior).max(initial=0.0))
        posterior = scores
    return Estimate(posterior, confusion, priors, iterations)


def dawid_skene(num_classes: int, *, tolerance: float = _TOLERANCE, cap: int = _CAP) -> Consensus:
    """The consensus that takes the most probable class of each example.

    Equally probable ones are tied as in ``plurality``. Where all votes cast agree, their label stands, also against
    the estimate: so a single silo's votes are the consensus, and unanimous ones. ABSTAIN where nobody voted. In a round
    in which fewer than three silos vote, all count the same, as in ``plurality``.

    Every round is estimated from its own votes, so the same votes give the same labels. The state keeps each silo's
    last confusion matrix, for whoever wants to look at it: ``report`` has its diagonal, the ``recall`` of each class,
    and their mean.
    """

    def init(silos: Sequence[SiloName]) -> State:
        return no_rows(_CONFUSION, num_classes, num_classes)

    def apply(
        ballots: Iterable[Ballot], incumbent: HardLabels, state: State, rng: Generator
    ) -> tuple[HardLabels, State]:
        matrix = label_matrix(ballots, len(incumbent), num_classes)
        if sum(bool((row < num_classes).any()) for row in matrix.votes) < _FEWEST:
            return plurality(tally(matrix.votes, len(incumbent), num_classes), incumbent, rng), state
        found = estimate(matrix, tolerance=tolerance, cap=cap)
        counts = np.rint(found.posterior * _UNIT).astype(np.int32)
        agreed, vote = unanimous(matrix)
        counts[agreed] = np.eye(num_classes + 1, num_classes, dtype=np.int32)[vote[agreed]]
        labels = plurality(counts, incumbent, rng)
        return labels, with_rows(state, _CONFUSION, matrix.silos, found.confusion)

    def report(state: State) -> dict[SiloName, dict[str, Any]]:
        recalls = {silo: np.diagonal(confusion) for silo, confusion in rows_of(state, _CONFUSION).items()}
        return {
            silo: {"recall": recall.round(4).tolist(), "balanced_accuracy": round(float(recall.mean()), 4)}
            for silo, recall in recalls.items()
        }

    return Consensus(init, apply, report)
