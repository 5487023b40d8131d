"""Tally votes and decide a label for each public example: plurality, qualified majority, consistent voting.

All are pure functions on arrays. A consensus is a pair of them, ``init`` and ``apply`` (after fedjax's aggregators).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, Answers, HardLabels, SiloName, SoftVotes, VoteCounts, Votes

Ballot: TypeAlias = tuple[SiloName, Votes]
State: TypeAlias = dict[str, Any]
Decide: TypeAlias = Callable[[VoteCounts, HardLabels, Generator], HardLabels]


class TrustMatrix(NamedTuple):
    """Trust among ``silos``: row ``i`` of ``matrix`` ``(silos, silos)`` is what silo ``i`` gives each, in all 1."""

    silos: Sequence[SiloName]
    matrix: NDArray[np.float64]


class Consensus(NamedTuple):
    """Turns the silos' votes on the queried examples into targets.

    ``init(silos)`` makes the state before the first round. ``apply(ballots, incumbent, state, rng)`` returns
    the new labels ``(examples,)`` and the next state; ``incumbent`` are the labels these examples have now. Where a
    quantity is predicted, all of these are its values.
    Ballots may be a generator: each is used once and dropped. The state's values are arrays, so that a checkpoint can
    hold them. ``report(state)`` says what the rule thinks of each silo, as JSON takes it, for the round log.

    The labels are what silos learn next, unless the rule has ``targets``: then ballots are SoftVotes, and
    ``targets(state, silo)`` is what this silo learns of the examples that were asked about last
    ``(examples, classes)``, or None for one that has no part in it yet. ``trust(state)`` says whom it then trusts.
    """

    init: Callable[[Sequence[SiloName]], State]
    apply: Callable[[Iterable[Ballot], Answers, State, Generator], tuple[Answers, State]]
    report: Callable[[State], dict[SiloName, dict[str, Any]]] = lambda state: {}
    targets: Callable[[State, SiloName], SoftVotes | None] | None = None
    trust: Callable[[State], TrustMatrix] | None = None
    of_sum: Callable[[VoteCounts, Answers, State, Generator], tuple[Answers, State]] | None = None
    """Like ``apply``, for the sum of all silos' votes; None where the rule needs each silo's."""
    alike: Callable[[State], SoftVotes | None] | None = None
    """Like ``targets``, where they are the same for every silo, also for one that has not voted yet."""
    certify: Callable[[VoteCounts, int], NDArray[np.bool_]] | None = None
    """Like ``certified``; None where the rule cannot say which labels liars cannot change."""


_BYTE: Final = 255
_SHARES: Final = "shares"


def tally(votes: Iterable[HardLabels], num_examples: int, num_classes: int) -> VoteCounts:
    """Count the votes for each class, ``(examples, classes)``, without abstentions.

    One pass over the votes. Memory is examples x classes, whatever the number of silos: votes are counted in
    one byte per example and class, and carried over before a byte can overflow.

    >>> tally([np.int16([0, 1, -1]), np.int16([0, 0, -1])], num_examples=3, num_classes=2)
    array([[2, 0],
           [1, 1],
           [0, 0]], dtype=int32)
    """
    carried: VoteCounts | int = 0
    recent = np.zeros((num_classes, num_examples), dtype=np.uint8)
    hit = np.empty(num_examples, dtype=np.bool_)
    narrow = np.empty(num_examples, dtype=np.uint8 if num_classes < _BYTE else LABEL_DTYPE)
    for number, vote in enumerate(votes, start=1):
        # Comparing a whole vote with one class at a time keeps to SIMD; scattered increments are many times slower.
        np.copyto(narrow, vote, casting="unsafe")  # an abstention becomes 255, which is no class
        for c, row in enumerate(recent):
            np.equal(narrow, c, out=hit)
            np.add(row, hit.view(np.uint8), out=row)
        if number % _BYTE == 0:
            carried = carried + recent.astype(np.int32)
            recent[:] = 0
    return (carried + recent.astype(np.int32)).T


def plurality(counts: VoteCounts, incumbent: HardLabels, rng: Generator) -> HardLabels:
    """The class with the most votes; ABSTAIN where no silo voted.

    A tie keeps the incumbent label if that is among the leaders, otherwise the leaders draw lots. The paper's
    code gives ties to the lowest class id, which biases the labels; and if every round broke ties again, a
    consensus with one tie could never reach a fixed point (Abourayya et al., arXiv:2310.05696, Algorithm 1).

    >>> counts = np.int32([[2, 1, 0], [1, 1, 0], [0, 0, 0]])
    >>> plurality(counts, np.int16([1, 1, 1]), np.random.default_rng(0))
    array([ 0,  1, -1], dtype=int16)
    """
    by_class = np.ascontiguousarray(counts.T)
    most = by_class.max(axis=0)
    leaders = by_class == most
    # Where one class leads, the sum over all that lead is that class: many times faster than an argmax over rows.
    labels: HardLabels = np.zeros(len(most), dtype=LABEL_DTYPE)
    for c, leads in enumerate(leaders):
        labels += leads * LABEL_DTYPE(c)
    tied = np.flatnonzero((leaders.sum(axis=0, dtype=np.uint16) > 1) & (most > 0))
    if len(tied):
        lots = np.where(leaders[:, tied], rng.random((len(by_class), len(tied))), -1.0)
        drawn = lots.argmax(axis=0).astype(LABEL_DTYPE)
        now = incumbent[tied]
        # np.where evaluates both sides, so an abstaining incumbent must still index a class.
        stays = (now != ABSTAIN) & leaders[np.maximum(now, 0), tied]
        labels[tied] = np.where(stays, now, drawn)
    labels[most == 0] = ABSTAIN
    return labels


def qualified(counts: VoteCounts, incumbent: HardLabels, rng: Generator, *, quorum: float) -> HardLabels:
    """The plurality's label where its share of the votes cast is at least ``quorum``, else ABSTAIN.

    ``quorum`` is a share in (0, 1]; silos that abstain are not counted (arXiv:2310.05696, §5, "qualified majority").

    >>> counts = np.int32([[9, 1], [8, 2]])
    >>> qualified(counts, np.int16([-1, -1]), np.random.default_rng(0), quorum=0.9)
    array([ 0, -1], dtype=int16)
    """
    labels = plurality(counts, incumbent, rng)
    voters = counts.sum(axis=1)
    # Divide rather than multiply: 7 / 10 rounds to the same float as the literal 0.7, 0.7 * 10 is more than 7.
    labels[counts.max(axis=1) / np.maximum(voters, 1) < quorum] = ABSTAIN
    return labels


def certified(counts: VoteCounts, liars: int, *, quorum: float = 0.0) -> NDArray[np.bool_]:
    """Which labels no ``liars`` silos can change by voting otherwise ``(examples,)``, where all others vote as counted.

    A liar takes a vote from the winner for the runner-up: the label stays with a lead of more than two votes for each
    liar. A label above ``quorum`` also stays above it, with a vote less for each, and one below it below.

    >>> counts = np.int32([[5, 0], [4, 1], [3, 2]])
    >>> certified(counts, 1), certified(counts, 1, quorum=0.8)
    (array([ True,  True, False]), array([ True, False, False]))
    """
    second, first = np.partition(counts, -2, axis=1)[:, -2:].T
    voters = np.maximum(counts.sum(axis=1), 1)
    stays: NDArray[np.bool_] = (first - second > 2 * liars) & ((first - liars) / voters >= quorum)
    stays |= (first + liars) / voters < quorum
    return stays


def unanimous(counts: VoteCounts, votes: int) -> HardLabels:
    """The class that has all ``votes`` of an example ``(examples, classes)``, else ABSTAIN.

    >>> unanimous(np.int32([[2, 0], [1, 1], [0, 2]]), votes=2)
    array([ 0, -1,  1], dtype=int16)
    """
    return np.where(counts.max(axis=1) == votes, counts.argmax(axis=1), ABSTAIN).astype(LABEL_DTYPE)


def consistent(num_classes: int, votes: int, decide: Decide) -> Consensus:
    """FedKT's consistent voting on counts of ``votes`` students each: v_c = votes * #{silos whose students all say c}.

    ``decide`` decides on these counts (Li, He, Song, IJCAI 2021, arXiv:2010.01017, Algorithm 1, lines 14 to 22). A row
    where no silo is consistent is all zero: the paper's argmax would say class 0, ``plurality`` abstains.
    """
    count = counting(num_classes, lambda counts, incumbent, rng: decide(votes * counts, incumbent, rng))

    def apply(
        ballots: Iterable[Ballot], incumbent: HardLabels, state: State, rng: Generator
    ) -> tuple[HardLabels, State]:
        return count.apply(((silo, unanimous(cast, votes)) for silo, cast in ballots), incumbent, state, rng)

    return Consensus(count.init, apply, of_sum=count.of_sum)


def counting(
    num_classes: int, decide: Decide, certify: Callable[[VoteCounts, int], NDArray[np.bool_]] | None = None
) -> Consensus:
    """The stateless consensus that counts labels and decides on the counts."""

    def of_sum(total: VoteCounts, incumbent: HardLabels, state: State, rng: Generator) -> tuple[HardLabels, State]:
        return decide(total, incumbent, rng), state

    def apply(
        ballots: Iterable[Ballot], incumbent: HardLabels, state: State, rng: Generator
    ) -> tuple[HardLabels, State]:
        return of_sum(tally((votes for _, votes in ballots), len(incumbent), num_classes), incumbent, state, rng)

    return Consensus(lambda silos: {}, apply, of_sum=of_sum, certify=certify)


def shares_of_votes(num_classes: int) -> Consensus:
    """Plurality, where silos learn each class's share of the votes instead of the winner.

    Classes of an example without votes have equal shares. The state keeps the shares ``(examples, classes)``.
    """
    none_yet = np.empty((0, num_classes), dtype=np.float32)

    def apply(
        ballots: Iterable[Ballot], incumbent: HardLabels, state: State, rng: Generator
    ) -> tuple[HardLabels, State]:
        counts = tally((votes for _, votes in ballots), len(incumbent), num_classes)
        # Where no silo voted, as if each class had a vote.
        cast = np.where(counts.any(axis=1, keepdims=True), counts, 1)
        shares = (cast / cast.sum(axis=1, keepdims=True)).astype(np.float32)
        return plurality(counts, incumbent, rng), {_SHARES: shares}

    def alike(state: State) -> SoftVotes | None:
        return state[_SHARES] if len(state[_SHARES]) else None

    return Consensus(lambda silos: {_SHARES: none_yet}, apply, alike=alike)
