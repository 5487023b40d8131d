"""Dawid-Skene: estimate each silo's quality at each class, and the labels, from hard votes alone.

A. P. Dawid, A. M. Skene, "Maximum likelihood estimation of observer error-rates using the EM algorithm", Applied
Statistics 28(1), 1979. With two classes this is STAPLE: S. K. Warfield, K. H. Zou, W. M. Wells, "Simultaneous truth and
performance level estimation (STAPLE)", IEEE Transactions on Medical Imaging 23(7), 2004.

EM estimates the classes' shares from the labels that it is about to decide. Where silos favour the frequent class, each
iteration confirms it, and rare classes vanish. So the shares serve one thing only, to estimate the confusion matrices:

1. EM begins with all classes equally probable, and goes on from there with their estimated shares. A Dirichlet prior
   holds these even unless the votes speak against it: they often do not, as with two silos.
   Another prior is for few public examples, which say little of one silo: seven examples of each class, as all silos
   vote on average, count with a silo's own (benchmarks/results/ablation.md).
2. The label is the class under which the votes are most probable; shares are no evidence. This is Bayes' decision where
   an error in a rare class costs as much as one in a frequent class, thus for balanced accuracy.

Then a vote for a class that the silo seldom names says much, and the votes of a silo that names a single class say
nothing. MACE holds the prior uniform throughout (D. Hovy, T. Berg-Kirkpatrick, A. Vaswani, E. Hovy, "Learning whom to
trust with MACE", NAACL 2013) and misreads good silos of a rare class: docs/decisions.md links figures.

The default for hard labels. It does not hold where nearly half of the silos err in the same way while the others
differ: benchmarks/results/README.md, 14.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fedct_flwr.consensus.counting import Ballot, Consensus, State
from fedct_flwr.consensus.label_matrix import LabelMatrix, label_matrix, unanimous
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, HardLabels, SiloName

_SILOS: Final = "silos"


def rows_of(state: State, name: str) -> dict[SiloName, NDArray[np.float64]]:
    """Each silo's array ``name``."""
    return dict(zip(state[_SILOS].tolist(), state[name], strict=True)) if state else {}


def _with_rows(state: State, name: str, silos: Sequence[SiloName], rows: NDArray[np.float64]) -> State:
    """State with new arrays for these silos. Absent silos keep theirs."""
    known = rows_of(state, name) | dict(zip(silos, rows, strict=True))
    names = sorted(known)
    return {_SILOS: np.array(names, dtype=np.str_), name: np.stack([known[silo] for silo in names])}


_PSEUDO_COUNT: Final = 0.5
"""Added to each count, so that unseen votes are not impossible."""
_SHARED: Final = 7.0
"""Examples of each class, voted on as all silos do on average, that are added to a silo's own."""
_EVEN: Final = 10.0
"""Examples of each class added when the classes' shares are estimated."""
_TOLERANCE: Final = 1e-3
_CAP: Final = 200
_UNDECIDED: Final = 0.98
"""A class that is at least so probable, relative to the most probable one, is as good as it: pseudo-counts alone make
that much of a difference where the votes tell nothing."""
_FEWEST: Final = 3
"""Fewest silos whose quality can be estimated (Zhang et al., "Spectral methods meet EM", arXiv:1406.3824)."""
_CONFUSION: Final = "confusion"
_BLOCK: Final = 1 << 18
"""Votes of a block."""


class Estimated(NamedTuple):
    """Result of EM.

    ``posterior`` ``(examples, classes)``: rows sum to 1. ``confusion`` ``(silos, classes, classes)``: how likely the
    silo votes for the second class where the first is right; rows sum to 1. ``priors`` ``(classes,)``.
    """

    posterior: NDArray[np.float64]
    confusion: NDArray[np.float64]
    priors: NDArray[np.float64]
    iterations: int


def estimate(
    matrix: LabelMatrix,
    *,
    begin: NDArray[np.float64] | None = None,
    even: float = _PSEUDO_COUNT,
    shared: float = _SHARED,
    cap: int = _CAP,
) -> Estimated:
    """Dawid and Skene's estimate from the votes of at least one silo.

    ``begin`` ``(examples, classes)`` is the posterior to begin with, by default the vote shares. ``even`` is added to
    the number of examples of each class, so infinity holds all classes equally probable. ``shared`` examples of each
    class, voted on as all silos do on average, are added to each silo's. Ends when no probability changes by more than
    .001, or after ``cap`` iterations. An abstention tells nothing; an example without votes has the classes'
    shares among the others. Memory is that of the votes, of a few tables ``(examples, classes)`` of floats, and of 12
    bytes for each of the votes that are looked at together.

    crowd-kit's ``DawidSkene`` does the same in pandas frames with a row of three columns for each vote: many times
    slower, and many bytes for one.

    >>> votes = np.uint8([[0, 0, 1], [0, 1, 1], [1, 0, 0]])
    >>> estimate(LabelMatrix(["a", "b", "c"], votes, 2), shared=0, cap=1).confusion[2].round(3)
    array([[0.562, 0.437],
           [0.643, 0.357]])
    """
    votes = _Votes(matrix)
    silos, examples, classes = votes.shape
    posterior = begin if begin is not None else _shares(votes)
    iterations, change = 0, np.inf
    while change > _TOLERANCE and iterations < cap:
        iterations += 1
        counts = posterior.sum(axis=0) + even
        priors = counts / counts.sum() if np.isfinite(even) else np.full(classes, 1 / classes)
        confusion = votes.counted(posterior)[:, :classes].transpose(0, 2, 1)
        # A silo that names a single class has no part in the average, and nothing of it.
        several = (confusion.sum(axis=1) > 0).sum(axis=1) > 1
        average = confusion[several].sum(axis=0) + _PSEUDO_COUNT
        confusion += _PSEUDO_COUNT + np.multiply.outer(several * shared, average / average.sum(axis=1, keepdims=True))
        confusion /= confusion.sum(axis=2, keepdims=True)
        logs = np.zeros((silos, classes + 1, classes))
        logs[:, :classes] = np.log(confusion).transpose(0, 2, 1)
        scores = votes.added(np.tile(np.log(priors), (examples, 1)), logs)
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=1, keepdims=True)
        change = float(np.abs(scores - posterior).max(initial=0.0))
        posterior = scores
    return Estimated(posterior, confusion, priors, iterations)


class _Votes:
    """The votes as sparse matrices, one for a block of silos. Products with them count votes and look up weights.

    That is faster than NumPy's indexing. A row is an example. It has a 1 in a column of its own, which carries the sum
    of the blocks before, and for each silo a 1 in the column of the class it voted for; abstaining is one more class.
    Sums run over silos and examples in their order, so results do not depend on the size of a block.
    """

    def __init__(self, matrix: LabelMatrix) -> None:
        self._matrix = matrix
        self.shape = (*matrix.votes.shape, matrix.num_classes)
        silos, examples = matrix.votes.shape
        self._each = max(1, min(silos, _BLOCK // max(1, examples)))
        self._starts = range(0, silos, self._each)
        # All blocks share it.
        self._ones = np.ones(examples * (1 + self._each))
        # All other blocks are made each time.
        self._only = self._block(0) if len(self._starts) == 1 else None

    def counted(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sums of ``values`` ``(examples, k)`` over each silo's votes for a class, ``(silos, classes + 1, k)``."""
        examples, width = values.shape
        found = [(block.T @ values)[examples:] for block in self._blocks()]
        return np.concatenate(found).reshape(-1, self._matrix.num_classes + 1, width)

    def added(self, start: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
        """``start`` ``(examples, k)`` plus ``values`` ``(silos, classes + 1, k)`` of what each silo voted for."""
        for first, block in zip(self._starts, self._blocks(), strict=True):
            start = block @ np.concatenate([start, np.concatenate(values[first : first + self._each])])
        return start

    def _blocks(self) -> Iterator[csr_array]:
        for first in self._starts:
            yield self._block(first) if self._only is None else self._only

    def _block(self, first: int) -> csr_array:
        votes, classes = self._matrix.votes[first : first + self._each], self._matrix.num_classes + 1
        silos, examples = votes.shape
        columns = np.empty((examples, 1 + silos), dtype=np.int32)
        columns[:, 0] = np.arange(examples)
        np.add(votes.T, examples + classes * np.arange(silos, dtype=np.int32), out=columns[:, 1:])
        starts = np.arange(0, columns.size + 1, 1 + silos, dtype=np.int32)
        ones = self._ones[: columns.size]
        return csr_array((ones, columns.ravel(), starts), shape=(examples, examples + silos * classes))


def _shares(votes: _Votes) -> NDArray[np.float64]:
    """Share of each class in an example's votes ``(examples, classes)``; equal shares without votes."""
    silos, examples, classes = votes.shape
    counts = votes.added(np.zeros((examples, classes)), np.tile(np.eye(classes + 1, classes), (silos, 1, 1)))
    counts += counts.sum(axis=1, keepdims=True) == 0
    counts /= counts.sum(axis=1, keepdims=True)
    return counts


def dawid_skene(num_classes: int) -> Consensus:
    """The consensus that takes the class under which the votes on an example are most probable.

    Where no class is more probable than another, the votes do not tell: the incumbent label stays if it is among these,
    else the example gets none. Where all votes cast agree, their label stands, also against the estimate: so a single
    silo's votes are the consensus, and unanimous ones. ABSTAIN where no silo voted. Of two silos that disagree, the one
    that names its class less often decides.

    Every round is estimated from its own votes, so the same votes give the same labels. The state keeps each silo's
    last confusion matrix: ``report`` has its diagonal, the ``recall`` of each class,
    and their mean. Fewer than three silos do not tell how good each is, and change no state.
    """
    unseen = {_SILOS: np.empty(0, dtype=np.str_), _CONFUSION: np.empty((0, num_classes, num_classes))}

    def apply(
        ballots: Iterable[Ballot], incumbent: HardLabels, state: State, rng: Generator
    ) -> tuple[HardLabels, State]:
        matrix = label_matrix(ballots, len(incumbent), num_classes)
        voting = sum(bool((row < num_classes).any()) for row in matrix.votes)
        if not voting:
            return np.full(len(incumbent), ABSTAIN, dtype=LABEL_DTYPE), state
        fair = estimate(matrix, even=np.inf)
        found = estimate(matrix, begin=fair.posterior, even=_EVEN)
        labels = _decided(found.posterior / found.priors, incumbent)
        agreed, vote = unanimous(matrix)
        labels[agreed] = np.where(vote == num_classes, ABSTAIN, vote.astype(LABEL_DTYPE))[agreed]
        return labels, _with_rows(state, _CONFUSION, matrix.silos, found.confusion) if voting >= _FEWEST else state

    def report(state: State) -> dict[SiloName, dict[str, Any]]:
        recalls = {silo: np.diagonal(confusion) for silo, confusion in rows_of(state, _CONFUSION).items()}
        return {
            silo: {"recall": recall.round(4).tolist(), "balanced_accuracy": round(float(recall.mean()), 4)}
            for silo, recall in recalls.items()
        }

    return Consensus(lambda silos: unseen, apply, report)


def _decided(likelihood: NDArray[np.float64], incumbent: HardLabels) -> HardLabels:
    """The most likely class; in a tie the incumbent if it is among the best, else ABSTAIN."""
    examples = np.arange(len(likelihood))
    labels: HardLabels = likelihood.argmax(axis=1).astype(LABEL_DTYPE)
    leaders = likelihood >= _UNDECIDED * likelihood.max(axis=1, keepdims=True)
    undecided = leaders.sum(axis=1) > 1
    # np.where evaluates both sides, so an abstaining incumbent must still index a class.
    stays = (incumbent != ABSTAIN) & leaders[examples, np.maximum(incumbent, 0)]
    labels[undecided] = np.where(stays, incumbent, ABSTAIN)[undecided]
    return labels
