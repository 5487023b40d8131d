"""Lower bounds on epsilon from guesses: what a mechanism must have spent for an attacker to be right so often.

One run with many canaries: Steinke, Nasr, Jagielski, "Privacy auditing with one (1) training run", NeurIPS 2023,
Theorem 5.2 and Algorithm 1.
"""

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

CONFIDENCE: Final = 0.95
_LARGEST: Final = 100.0
_HALVINGS: Final = 40
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
