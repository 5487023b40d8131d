"""Lower bounds on epsilon from guesses: what a mechanism must have spent for an attacker to be right so often.

One run with many canaries: Steinke, Nasr, Jagielski, "Privacy auditing with one (1) training run", NeurIPS 2023,
Theorem 5.2 and Algorithm 1. Many refits of one canary: Jagielski, Ullman, Oprea, "Auditing differentially private
machine learning", NeurIPS 2020, with the limits of Clopper and Pearson.
"""

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv
from scipy.stats import binom

CONFIDENCE: Final = 0.95
GAME_CONFIDENCE: Final = 0.999
"""Of games on a mechanism alone, whose refits cost little. Of a thousand games on correct ones, at most one says that a
promise is broken, which stops a study."""
_LARGEST: Final = 100.0
_HALVINGS: Final = 40
_DELTAS: Final = (1e-5, 1e-3, 0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
_SHARES: Final = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5)


class Guessed(NamedTuple):
    """Of ``canaries`` that were put in with probability 1/2 each, so many ``guesses`` (others: abstained) are right."""

    right: int
    guesses: int
    canaries: int


def one_run(found: Guessed, delta: float, confidence: float = CONFIDENCE) -> float:
    """The largest epsilon that the guesses refute at this confidence; 0 where they refute none.

    Formal guarantees:
        For canaries that are in independently with probability 1/2, guesses that read the output alone, and a mechanism
        that is (epsilon, delta)-DP when one record is added or removed, the result is at most epsilon with probability
        ``confidence``. Several independent runs with canaries of their own are one mechanism of them all.
    """
    return _largest(lambda epsilon: _chance(found, epsilon, delta) <= 1 - confidence)


def _chance(found: Guessed, epsilon: float, delta: float) -> float:
    """The most likely that as many guesses are right, under (epsilon, delta)-DP (ibid., Theorem 5.2)."""
    right, guesses, canaries = found
    q = 1 / (1 + math.exp(-epsilon))
    chance = float(binom.sf(right - 1, guesses, q))
    if delta == 0:
        return chance
    steps = np.arange(1, right + 1)
    below = np.cumsum(binom.pmf(right - steps, guesses, q))
    worst = float((below / steps).max(initial=0.0))
    return min(1.0, chance + 2 * canaries * delta * worst)


def many_refits(hits: int, members: int, false_hits: int, others: int, delta: float, confidence: float) -> float:
    """The largest epsilon that is refuted by ``hits`` in ``members`` refits with the canary, ``false_hits`` without.

    Both ways round: a guess "not there" tells as much. Valid for one test that was chosen without these refits.
    """
    risk = (1 - confidence) / 4
    found = 0.0
    there, not_there = (hits, members, false_hits, others), (others - false_hits, others, members - hits, members)
    for right, of, wrong, of_others in (there, not_there):
        # Quantiles of beta distributions: scipy.stats checks its arguments a hundred times as long as this takes.
        low = float(betaincinv(right, of - right + 1, risk)) if right else 0.0
        high = float(betaincinv(wrong + 1, of_others - wrong, 1 - risk)) if wrong < of_others else 1.0
        if low > delta:
            found = max(found, math.log((low - delta) / high))
    return found


class Refuted(NamedTuple):
    """``lower``: epsilon is at least that, at ``delta``, where ``promised`` was said. ``broken``: it is more."""

    lower: float
    promised: float
    delta: float

    @property
    def broken(self) -> bool:
        """Whether the promise does not hold."""
        return self.lower > self.promised


def against_promise(
    with_canary: NDArray[np.float64],
    without: NDArray[np.float64],
    promised: Callable[[float], float],
    confidence: float,
) -> Refuted:
    """The bound that comes closest to a promise, or exceeds it most, of scores of refits with a canary and without.

    ``promised(delta)`` is epsilon at any delta: all of a mechanism's profile is promised, and where delta is larger
    fewer refits tell. Half of the refits choose delta and threshold, the other half measure (at ``confidence``).
    """
    (choose_in, measure_in), (choose_out, measure_out) = _halves(with_canary), _halves(without)
    best, chosen = -math.inf, (0.0, _DELTAS[0])
    everything = np.unique(np.concatenate([choose_in, choose_out]))
    # Between two scores: equal ones of the other half fall on the side that these fall on.
    cuts = np.append(np.quantile(everything, np.linspace(0.02, 0.98, 25)), (everything[1:] + everything[:-1])[:50] / 2)
    for cut in np.unique(cuts):
        counts = _counts(choose_in, choose_out, float(cut))
        for delta in _DELTAS:
            lower = many_refits(*counts, delta, confidence)
            # A promise takes its time to look up, and no promise is below 0.
            if lower > 0 and (margin := lower - promised(delta)) > best:
                best, chosen = margin, (float(cut), delta)
    cut, delta = chosen
    return Refuted(many_refits(*_counts(measure_in, measure_out, cut), delta, confidence), promised(delta), delta)


def _halves(scores: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return scores[::2], scores[1::2]


def _counts(inside: NDArray[np.float64], outside: NDArray[np.float64], cut: float) -> tuple[int, int, int, int]:
    return int((inside > cut).sum()), len(inside), int((outside > cut).sum()), len(outside)


def bound_of_run(attacks: dict[str, NDArray[np.float64]], members: NDArray[np.bool_], delta: float) -> float:
    """A lower bound on epsilon from scores ``(refits, candidates)`` of attacks that read one refit's output alone.

    Half of the refits choose the attack and how many guesses to abstain from, the other half are guessed.
    """
    even = np.arange(len(members)) % 2 == 0
    best, chosen = -1.0, ("", _SHARES[0])
    for name, scores in attacks.items():
        for share in _SHARES:
            found = one_run(_guess(scores[even], members[even], share), delta)
            if found > best:
                best, chosen = found, (name, share)
    name, share = chosen
    return one_run(_guess(attacks[name][~even], members[~even], share), delta)


def _guess(scores: NDArray[np.float64], members: NDArray[np.bool_], share: float) -> Guessed:
    """Guess "member" for this share of the highest scores and "not" for as many lowest; abstain from all others."""
    flat, truth = scores.ravel(), members.ravel()
    order = np.argsort(flat, kind="stable")
    each = max(1, int(share * len(flat)))
    right = int(truth[order[-each:]].sum() + (~truth[order[:each]]).sum())
    return Guessed(right, 2 * each, len(flat))


def _largest(refuted: Callable[[float], bool]) -> float:
    low, high = 0.0, 1.0
    if not refuted(low):
        return 0.0
    while refuted(high):
        if high >= _LARGEST:
            return high
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low
