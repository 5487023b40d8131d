"""Prediction consensus: each silo learns from the others' probabilities, weighed by its trust in them.

D. Fan, C. Mendler-Dünner, M. Jaggi, "Collaborative learning via prediction consensus", NeurIPS 2023
(arXiv:2305.18497), Algorithm 1; who trusts whom is in ``trust``. With naive trust all silos learn the mean, as in
distributed distillation (I. Bistritz, A. J. Mann, N. Bambos, "Distributed distillation for on-device learning",
NeurIPS 2020) and FedMD (D. Li, J. Wang, arXiv:1910.03581).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedct_flwr.consensus.counting import Ballot, Consensus, State, TrustMatrix, plurality
from fedct_flwr.consensus.trust import TrustRule, targets_of
from fedct_flwr.types import UNITS, Answers, HardLabels, SiloName, SoftVotes, Values

_SILOS: Final = "silos"
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
    measure of values, such as ``trust.similarity_of_values``. Guarantees are the same.
    """

    def mean_value(mean: SoftVotes, incumbent: Values, rng: Generator) -> Values:
        return mean[:, 0]

    return _by_trust(1, rule, mean_value, _median if rule.even else targets_of)


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
    rows = np.full((len(silos), len(silos)), np.nan)
    known, now = ([silos.index(silo) for silo in names] for names in (before, voters))
    rows[np.ix_(known, known)] = state[_ROWS]
    earlier = rows[np.ix_(now, now)]
    both = ~np.isnan(earlier)
    sums = earlier.sum(axis=1, where=both)
    scales = np.divide(matrix.sum(axis=1, where=both), sums, out=np.ones_like(sums), where=sums > 0)
    rows[now] *= scales[:, np.newaxis]
    rows[np.ix_(now, now)] = matrix
    return {_SILOS: np.array(silos, dtype=np.str_), _ROWS: rows}
