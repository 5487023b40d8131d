"""Attacks that compare a run with others whose members the attacker knows: shadow runs. Pure functions.

Each refit is attacked with all others as shadow runs, so its own memberships are read by nobody.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

_PRIOR: Final = 2.0
"""Refits that the mean effect of membership counts as, where one record's own is estimated from few."""
_TINY: Final = 1e-9

_Floats = NDArray[np.float64]


def lira(signals: _Floats, members: NDArray[np.bool_]) -> _Floats:
    """Log-likelihood ratio of a signal under "member" against "not", both ``(refits, candidates)``.

    Normal distributions with one variance for all (Carlini et al., IEEE S&P 2022, Algorithm 1, with few shadow
    models). A record's own effect is shrunk towards the mean effect of all. Raises ValueError below 3 refits.
    """
    if len(signals) < 3:
        raise ValueError(f"{len(signals)} refits: shadow runs need 3")
    return _by_others(len(signals), lambda own, others: _ratio(signals[own], signals[others], members[others]))


def _ratio(signal: _Floats, shadows: _Floats, members: NDArray[np.bool_]) -> _Floats:
    inside, outside = members.sum(axis=0), (~members).sum(axis=0)
    effect = shadows[members].mean() - shadows[~members].mean() if members.any() and not members.all() else 0.0
    level = (shadows - effect * members).mean(axis=0)
    low = (np.where(~members, shadows, 0).sum(axis=0) + _PRIOR * level) / (outside + _PRIOR)
    high = (np.where(members, shadows, 0).sum(axis=0) + _PRIOR * (level + effect)) / (inside + _PRIOR)
    variance = float(((shadows - np.where(members, high, low)) ** 2).mean()) + _TINY
    return np.asarray(((signal - low) ** 2 - (signal - high) ** 2) / (2 * variance))


def rmia(probability: _Floats, population: _Floats) -> _Floats:
    """Share of known non-members that the candidate's likelihood ratio beats.

    ``probability`` ``(refits, candidates)`` and ``population`` ``(refits, strangers)`` are of true classes (Zarifzadeh,
    Liu, Shokri, "Low-cost high-power membership inference attacks", ICML 2024, with gamma 1, offline). Raises
    ValueError below 2 refits.
    """
    if len(probability) < 2:
        raise ValueError(f"{len(probability)} refits: reference runs need 2")

    def beaten(own: int, others: NDArray[np.bool_]) -> _Floats:
        mine = probability[own] / (probability[others].mean(axis=0) + _TINY)
        theirs = population[own] / (population[others].mean(axis=0) + _TINY)
        return np.asarray(np.searchsorted(np.sort(theirs), mine, side="right") / max(1, len(theirs)))

    return _by_others(len(probability), beaten)


def _by_others(refits: int, score: Callable[[int, NDArray[np.bool_]], _Floats]) -> _Floats:
    """Scores ``(refits, candidates)`` of each refit by all others, which a mask ``(refits,)`` tells."""
    return np.stack([score(own, np.arange(refits) != own) for own in range(refits)])
