"""Trust-weighted consensus on probabilities: each silo weighs the others by the similarity of their predictions.

D. Fan, C. Mendler-Dünner, M. Jaggi, "Collaborative learning via prediction consensus", NeurIPS 2023 (arXiv:2305.18497).
Trust is a row-stochastic matrix: row ``i`` says how silo ``i`` weighs each silo. A column that sums to less than 1
belongs to a silo that the others do not follow.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.consensus.counting import State
from fedct_flwr.types import DataError, SiloName, SoftVotes

Matrix: TypeAlias = NDArray[np.float64]
"""``(silos, silos)``."""

Similarity: TypeAlias = Callable[[SoftVotes], Matrix]

TOLERANCE: Final = 5e-3
"""Tolerance for the sum of a row of probabilities: half precision rounds each of them."""

_NO_PROBABILITIES: Final = "probabilities must be numbers in 0..1 that sum to 1 for each example: look at the learner"
_BLOCK: Final = 1 << 17
"""Values per block, so that a block fits into the processor's cache."""
_MIN_STEP: Final = 64
_SILOS: Final = "silos"
_SIMILARITY: Final = "similarity"


class TrustRule(NamedTuple):
    """Mutual trust of the silos, from round to round.

    ``init()`` makes the state before the first round. ``apply(silos, votes, state)`` returns the trust among the silos
    of this round and the next state; ``votes`` ``(silos, examples, classes)`` are in the order of the names. The
    state's values are arrays, so that a checkpoint can hold them.
    """

    init: Callable[[], State]
    apply: Callable[[Sequence[SiloName], SoftVotes, State], tuple[Matrix, State]]
    even: bool = False
    """Whether all silos always count the same: then their sum is enough."""


def check_probabilities(votes: SoftVotes) -> None:
    """Raise DataError unless all of ``(..., classes)`` are in 0..1 and each row sums to 1, within ``TOLERANCE``."""
    # A test for valid values, not for invalid ones, also catches NaN.
    sums = votes.sum(axis=-1, dtype=np.float32)
    if not (votes.min(initial=0.0) >= 0 and np.abs(sums - 1).max(initial=0.0) <= TOLERANCE):
        raise DataError(_NO_PROBABILITIES)


def similarity(votes: SoftVotes) -> Matrix:
    """How much each silo finds its own view in the others', each example counting the more the surer it is of it.

    ``sim_ij = mean over x of cos(p_i(x), p_j(x)) / (1 + H_i(x))``, with the entropy ``H`` in nats (equation 6 and §4.2
    of the paper). Not symmetric, and in each row the diagonal is largest: silos are self-confident. ``votes``
    ``(silos, examples, classes)`` of any float type are computed with in single precision, in blocks of examples, so
    that memory does not grow with their number. Raises DataError for what are no probabilities.

    >>> similarity(np.float32([[[1, 0]], [[0, 1]]])).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    silos, examples, classes = votes.shape
    if not examples:
        raise DataError("there are no examples to compare the silos by: ask about at least one")
    found = np.zeros((silos, silos))
    step = max(_MIN_STEP, _BLOCK // (silos * classes))
    for start in range(0, examples, step):
        block = votes[:, start : start + step]
        # A class at a time: sums over classes then add long rows, which is many times faster than short sums.
        p = np.empty((classes, silos, block.shape[1]), np.float32)
        np.copyto(p, block.transpose(2, 0, 1), casting="same_kind")
        off = np.abs(p.sum(axis=0) - 1).max()
        work = p + np.finfo(np.float32).tiny
        with np.errstate(invalid="ignore"):
            np.log(work, out=work)
        work *= p
        one_and_entropy = 1 - work.sum(axis=0)
        # Negative numbers have no logarithm.
        if not (off <= TOLERANCE and np.isfinite(one_and_entropy).all()):
            raise DataError(_NO_PROBABILITIES)
        np.multiply(p, p, out=work)
        p /= np.sqrt(work.sum(axis=0))
        np.divide(p, one_and_entropy, out=work)
        for surer, unit in zip(work, p, strict=True):
            found += surer @ unit.T
    mean: Matrix = found / examples
    return mean


def similarity_of_values(values: NDArray[np.floating]) -> Matrix:
    """The similarity for regression, ``(silos, examples)`` or ``(silos, examples, 1)`` values: ``1 / (1 + d_ij / v)``.

    ``d_ij`` is the mean squared distance of two silos' values, which takes the place of the cosine (§3.2: squared
    distance instead of cross-entropy; the paper does not say by which formula its Appendix A.1 trusts). ``v``, the
    median over the silos of the variance of one's values over the examples, makes it free of units. All trust each
    other the same once they agree, as in Claim 3. Raises DataError for values that are not finite.

    >>> similarity_of_values(np.array([[-1.0, 1.0], [-1.0, 1.0], [0.0, 2.0]])).tolist()
    [[1.0, 1.0, 0.5], [1.0, 1.0, 0.5], [0.5, 0.5, 1.0]]
    """
    if not values.size or not np.isfinite(values).all():
        raise DataError("predicted values must be finite numbers, for at least one example: look at the learner")
    exact = values.astype(np.float64).reshape(len(values), -1)
    distance = np.stack([((exact - row) ** 2).mean(axis=1) for row in exact])
    unit = np.median(exact.var(axis=1))
    # Without a unit, silos that differ at all are not similar.
    relative = np.divide(distance, unit, out=np.where(distance > 0, np.inf, 0.0), where=unit > 0)
    found: Matrix = 1 / (1 + relative)
    return found


def trust(similarity: Matrix) -> Matrix:
    """Each row divided by its sum: row-stochastic. A silo that resembles no other trusts itself alone.

    >>> trust(np.array([[1.0, 1.0], [0.0, 0.5]])).tolist()
    [[0.5, 0.5], [0.0, 1.0]]
    """
    sums = similarity.sum(axis=1, keepdims=True)
    matrix: Matrix = np.divide(similarity, sums, out=np.eye(len(similarity)), where=sums > 0)
    return matrix


def uniform(num_silos: int) -> Matrix:
    """Naive trust: all silos count the same, for the mean of the probabilities."""
    return np.full((num_silos, num_silos), 1 / num_silos)


def targets_of(trust: NDArray[np.float64], votes: SoftVotes) -> SoftVotes:
    """Each silo's own soft targets, ``psi_i = sum_j W_ij p_j`` (equation 1): ``(silos, examples, classes)``.

    Of one row of trust, that silo's alone. Also for regression, ``votes`` ``(silos, examples)``.

    >>> targets_of(uniform(2), np.float32([[[1, 0]], [[0, 1]]])).tolist()
    [[[0.5, 0.5]], [[0.5, 0.5]]]
    """
    targets: SoftVotes = np.tensordot(trust.astype(np.float32), votes.astype(np.float32, copy=False), axes=1)
    return targets


def naive(measure: Similarity = similarity) -> TrustRule:
    """Naive trust in every round: all silos count the same."""

    def apply(silos: Sequence[SiloName], votes: SoftVotes, state: State) -> tuple[Matrix, State]:
        return uniform(len(silos)), state

    return TrustRule(dict, apply, even=True)


def dynamic(measure: Similarity = similarity) -> TrustRule:
    """Trust by each round alone: it becomes more even as silos agree (Claim 3), and forgives bad ones."""

    def apply(silos: Sequence[SiloName], votes: SoftVotes, state: State) -> tuple[Matrix, State]:
        return trust(measure(votes)), state

    return TrustRule(dict, apply)


def static(measure: Similarity = similarity) -> TrustRule:
    """Trust of the first round in which two silos both took part, however they change.

    A silo that is away takes its row and its column with it, and they come back with it; each row is divided by its
    sum over those that are there.
    """

    def init() -> State:
        return {_SILOS: np.empty(0, dtype=np.str_), _SIMILARITY: np.empty((0, 0))}

    def apply(silos: Sequence[SiloName], votes: SoftVotes, state: State) -> tuple[Matrix, State]:
        before = state or init()
        names = sorted({*before[_SILOS].tolist(), *silos})
        known = _placed(before[_SIMILARITY], before[_SILOS].tolist(), names)
        place = {name: number for number, name in enumerate(names)}
        present = np.ix_(*[[place[silo] for silo in silos]] * 2)
        if np.isnan(known[present]).any():
            known[present] = np.where(np.isnan(known[present]), measure(votes), known[present])
        return trust(known[present]), {_SILOS: np.array(names, dtype=np.str_), _SIMILARITY: known}

    return TrustRule(init, apply)


def _placed(matrix: Matrix, silos: Sequence[SiloName], names: Sequence[SiloName]) -> Matrix:
    """The matrix of some silos as one of more ``names``; NaN for the others."""
    larger = np.full((len(names), len(names)), np.nan)
    rows = [names.index(silo) for silo in silos]
    larger[np.ix_(rows, rows)] = matrix
    return larger


TRUSTS: Final[Mapping[str, Callable[..., TrustRule]]] = {"naive": naive, "static": static, "dynamic": dynamic}
"""Rules by the names that the paper gives them; each is made of the ``measure`` that trust follows."""
