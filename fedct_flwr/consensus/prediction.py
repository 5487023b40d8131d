"""Prediction consensus: each silo learns from the others' probabilities, weighed by its trust in them.

D. Fan, C. Mendler-Dünner, M. Jaggi, "Collaborative learning via prediction consensus", NeurIPS 2023
(arXiv:2305.18497), Algorithm 1. Trust is a row-stochastic matrix: row ``i`` says how silo ``i`` weighs each silo, by
the similarity of their predictions. A column that sums to less than 1 belongs to a silo that the others do not follow.

With naive trust all silos learn the mean, as in distributed distillation (I. Bistritz, A. J. Mann, N. Bambos,
"Distributed distillation for on-device learning", NeurIPS 2020) and FedMD (D. Li, J. Wang, arXiv:1910.03581).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedct_flwr.consensus.counting import Ballot, Consensus, State, TrustMatrix, plurality
from fedct_flwr.types import UNITS, Answers, DataError, HardLabels, SiloName, SoftVotes

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
    """Whether all silos always count the same: then the mean, or the median of values, takes the place of trust."""


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
    """Naive trust in every round: all silos count the same. ``measure`` is unused, as all rules are made alike."""
    return TrustRule(dict, lambda silos, votes, state: (uniform(len(silos)), state), even=True)


def dynamic(measure: Similarity = similarity) -> TrustRule:
    """Trust by each round alone: it becomes more even as silos agree (Claim 3), and forgives bad ones."""
    return TrustRule(dict, lambda silos, votes, state: (trust(measure(votes)), state))


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

_ROWS: Final = "rows"
_VOTERS: Final = "voters"
_VOTES: Final = "votes"
_RULE: Final = "rule_"
_UNIT: Final = 1 << 20
"""Mean probabilities that differ by less than 1 / _UNIT are equal."""
_OFF: Final = UNITS * float(np.finfo(np.float32).eps)
"""Largest error of whole units after a passage as probabilities in single precision."""

_Share: TypeAlias = Callable[[SoftVotes, Answers, Generator], Answers]
"""Turns the mean of the silos' targets ``(examples, classes)`` into shared answers, given the previous ones."""

_Mix: TypeAlias = Callable[[NDArray[np.float64], SoftVotes], SoftVotes]
"""Mixes votes ``(silos, examples, classes)`` by a silo's weights, which sum to 1, into its targets."""


def prediction_consensus(num_classes: int, rule: TrustRule) -> Consensus:
    """One target for each silo: the mean of all silos' probabilities, weighed by its trust in them.

    Absent silos are excluded from all targets. A silo that comes back learns by the trust that it had when it
    was last there, in those who voted meanwhile; in one that it does not know, as much as in the others on average.

    Formal guarantee: none. A silo knows its own part of its target, so where few silos vote the rest tells it much of
    what each other one has said.

    The labels that all share, for ``labels.csv`` and a student, are the likeliest classes of the mean of the targets.
    The state keeps the last votes ``(voters, examples, classes)``, of which targets are made when they are asked for.
    """

    def likeliest(mean: SoftVotes, incumbent: HardLabels, rng: Generator) -> HardLabels:
        return plurality(np.rint(_UNIT * mean).astype(np.int32), incumbent, rng)

    return _by_trust(num_classes, rule, likeliest, _mean if rule.even else targets_of)


def consensus_of_values(rule: TrustRule) -> Consensus:
    """The same for a quantity: votes are values ``(examples, 1)``, and all silos share the mean of the targets.

    Where all silos count the same, targets are their median, as one silo's values could move a mean anywhere (D. Yin et
    al., "Byzantine-robust distributed learning", ICML 2018, Def. 1). ``rule`` has a
    measure of values, such as ``similarity_of_values``. Guarantees are the same.
    """
    return _by_trust(1, rule, lambda mean, incumbent, rng: mean[:, 0], _median if rule.even else targets_of)


def _by_trust(width: int, rule: TrustRule, share: _Share, mixed: _Mix) -> Consensus:
    def init(silos: Sequence[SiloName]) -> State:
        none = np.empty(0, dtype=np.str_)
        votes = np.empty((0, 0, width), dtype=np.float32)
        return {_SILOS: none, _ROWS: np.empty((0, 0)), _VOTERS: none, _VOTES: votes, **_prefixed(rule.init())}

    def apply(ballots: Iterable[Ballot], incumbent: Answers, state: State, rng: Generator) -> tuple[Answers, State]:
        cast = sorted(ballots, key=lambda ballot: ballot[0])
        voters, votes = [silo for silo, _ in cast], np.stack([vote for _, vote in cast])
        before = {name.removeprefix(_RULE): value for name, value in state.items() if name.startswith(_RULE)}
        matrix, after = rule.apply(voters, votes, before)
        return share(mixed(matrix.mean(axis=0), votes), incumbent, rng), {
            **_with_rows(state, voters, matrix),
            _VOTERS: np.array(voters, dtype=np.str_),
            _VOTES: votes,
            **_prefixed(after),
        }

    def targets(state: State, silo: SiloName) -> SoftVotes | None:
        if silo not in state[_SILOS].tolist():
            return None
        return mixed(_rows_among(state, [silo], state[_VOTERS].tolist())[0], state[_VOTES])

    def trust(state: State) -> TrustMatrix:
        voters = state[_VOTERS].tolist()
        return TrustMatrix(voters, _rows_among(state, voters, voters))

    def report(state: State) -> dict[SiloName, dict[str, Any]]:
        silos, matrix = trust(state)
        # The mean is 1.
        return {silo: {"trust": round(float(given), 4)} for silo, given in zip(silos, matrix.sum(axis=0), strict=True)}

    return Consensus(init, apply, report, targets, trust)


def _prefixed(state: State) -> State:
    return {_RULE + name: value for name, value in state.items()}


def _mean(weights: NDArray[np.float64], votes: SoftVotes) -> SoftVotes:
    """The mean of all. It is exact for probabilities in whole units: in floats, it would depend on the silos' order."""
    units = np.zeros(votes.shape[1:], dtype=np.int64)
    for vote in votes:
        exact = UNITS * vote.astype(np.float64)
        whole = np.rint(exact)
        if np.abs(exact - whole).max(initial=0.0) > _OFF:
            return targets_of(np.full(len(votes), 1 / len(votes)), votes)
        units += whole.astype(np.int64)
    shares: SoftVotes = (units / (UNITS * len(votes))).astype(np.float32)
    return shares


def _median(weights: NDArray[np.float64], votes: SoftVotes) -> SoftVotes:
    """The median of all, whose weights are equal."""
    middle: SoftVotes = np.median(votes, axis=0)
    return middle


def _rows_among(state: State, silos: Sequence[SiloName], voters: Sequence[SiloName]) -> NDArray[np.float64]:
    """The last trust of these silos, each known, in those who voted: ``(silos, voters)``, rows sum to 1."""
    place = {silo: number for number, silo in enumerate(state[_SILOS].tolist())}
    rows = state[_ROWS][np.ix_([place[silo] for silo in silos], [place[silo] for silo in voters])]
    known = ~np.isnan(rows)
    usual = np.sum(rows, axis=1, keepdims=True, where=known) / np.maximum(known.sum(axis=1, keepdims=True), 1)
    rows = np.where(known, rows, usual)
    # A silo that trusts none of them trusts all equally.
    sums = rows.sum(axis=1, keepdims=True)
    shares: NDArray[np.float64] = np.divide(rows, sums, out=np.full_like(rows, 1 / len(voters)), where=sums > 0)
    return shares


def _with_rows(state: State, voters: Sequence[SiloName], matrix: NDArray[np.float64]) -> State:
    """Last trust of each silo in each other, by name; NaN for two that never voted in the same round.

    Trust is a share of those who voted, so what a silo that votes now was found to trust others earlier is set to the
    scale of this round, by the silos of both: with naive trust all have the same share, however many there were.
    """
    before = state[_SILOS].tolist()
    silos = sorted({*before, *voters})
    rows, now = _placed(state[_ROWS], before, silos), [silos.index(silo) for silo in voters]
    earlier = rows[np.ix_(now, now)]
    both = ~np.isnan(earlier)
    sums = earlier.sum(axis=1, where=both)
    scales = np.divide(matrix.sum(axis=1, where=both), sums, out=np.ones_like(sums), where=sums > 0)
    rows[now] *= scales[:, np.newaxis]
    rows[np.ix_(now, now)] = matrix
    return {_SILOS: np.array(silos, dtype=np.str_), _ROWS: rows}
