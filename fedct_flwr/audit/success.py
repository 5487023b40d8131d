"""How well an attack tells members from non-members, with intervals.

Area under the ROC curve: DeLong's interval by clusters, as one record is attacked in several refits (N. Obuchowski,
Biometrics 53, 1997). The area of guesses "member" or "not" is the mean of the shares of members and others guessed
right. Lower bounds on epsilon: Steinke, Nasr, Jagielski, "Privacy auditing with one (1) training run", NeurIPS 2023,
Theorem 5.2 and Algorithm 1.
"""

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import binom

from fedct_flwr.scoring.assessment import delong
from fedct_flwr.scoring.intervals import Estimate, area


def auc(scores: NDArray[np.float64], members: NDArray[np.bool_]) -> Estimate:
    """Area by scores ``(refits, candidates)`` and members: the paper's VUL (App. E.1). Raises ValueError."""
    found, truth = scores.ravel(), members.ravel()
    yes, no = int(truth.sum()), int((~truth).sum())
    if not yes or not no:
        raise ValueError(f"{yes} members and {no} others: an area under the curve needs both")
    value, parts = delong(truth, found)
    by_record = parts.reshape(scores.shape).sum(axis=0)
    records = max(2, len(by_record))
    variance = float((by_record**2).sum()) * records / (records - 1)
    return area(value, variance, min(yes, no), max(yes, no))


def threshold_for(scores: NDArray[np.float64], members: NDArray[np.bool_]) -> float:
    """The threshold above which to guess "member" for the most right guesses, members and others weighing the same."""
    order = np.argsort(-scores, kind="stable")
    ranked, truth = scores[order], members[order]
    gain = np.cumsum(np.where(truth, 1 / max(1, truth.sum()), -1 / max(1, (~truth).sum())))
    # A threshold cannot part equal scores.
    ends = np.append(ranked[1:] < ranked[:-1], True)
    best = int(np.argmax(np.where(ends, gain, -np.inf)))
    return float(ranked[best] + ranked[best + 1]) / 2 if best + 1 < len(ranked) else -np.inf


def guesses(attacks: Mapping[str, NDArray[np.float64]], members: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Guess members ``(refits, candidates)``: half of the refits chooses for the other. Raises ValueError below 2."""
    refits = np.arange(len(members))
    if len(refits) < 2:
        raise ValueError(f"{len(refits)} refits: guesses need 2, as one chooses the threshold for the other")
    guessed = np.zeros(members.shape, dtype=bool)
    for own in (refits % 2 == 0, refits % 2 == 1):
        truth = members[~own].ravel()
        best = max(attacks, key=lambda name: delong(truth, attacks[name][~own].ravel())[0])
        guessed[own] = attacks[best][own] > threshold_for(attacks[best][~own].ravel(), truth)
    return guessed


CONFIDENCE: Final = 0.95
_LARGEST: Final = 100.0
_ERROR: Final = 1e-9
_SHARES: Final = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5)


class Guessed(NamedTuple):
    """Guesses on ``canaries``, each put in with probability 1/2: ``right`` of the ``guesses``; others abstained."""

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

    def excess(epsilon: float) -> float:
        return _chance(found, epsilon, delta) - (1 - confidence)

    if excess(0.0) > 0:
        return 0.0
    return _LARGEST if excess(_LARGEST) <= 0 else max(0.0, brentq(excess, 0.0, _LARGEST, xtol=_ERROR) - 2 * _ERROR)


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
    """A lower bound on epsilon from scores ``(refits, candidates)``: half of the refits chooses for the other."""
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
