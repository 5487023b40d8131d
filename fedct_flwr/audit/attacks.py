"""Attacks: each gives a score for each candidate, higher for likelier members. Pure functions.

Shapes: ``labels`` ``(rounds, n)`` with ABSTAIN, ``probabilities`` ``(rounds, n, classes)`` with NaN, classes ``y``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.types import ABSTAIN, HardLabels

Scores = NDArray[np.float64]

_LEAST: Final = 1e-6


def gap(labels: HardLabels, y: HardLabels) -> Scores:
    """Whether the last label is right (Yeom et al., "Privacy risk in machine learning", CSF 2018).

    >>> gap(np.array([[0, 1], [1, 1]], dtype=np.int16), np.array([1, 0]))
    array([1., 0.])
    """
    last = np.full(labels.shape[1], ABSTAIN, dtype=labels.dtype)
    for row in labels:
        last = np.where(row != ABSTAIN, row, last)
    return np.where(last == ABSTAIN, 0.5, last == y).astype(np.float64)


def agreement(labels: HardLabels, y: HardLabels) -> Scores:
    """Share of rounds in which the label is right; .5 where there was none."""
    answered = labels != ABSTAIN
    right = (labels == y) & answered
    return np.asarray(np.where(answered.any(axis=0), right.sum(axis=0) / np.maximum(1, answered.sum(axis=0)), 0.5))


def true_probability(probabilities: NDArray[np.floating], y: HardLabels) -> Scores:
    """Mean probability of the true class over the rounds; 1 / classes where there was none."""
    own = probabilities[:, np.arange(len(y)), y].astype(np.float64)
    answered = np.isfinite(own)
    total = np.where(answered, own, 0).sum(axis=0)
    return np.asarray(
        np.where(answered.any(axis=0), total / np.maximum(1, answered.sum(axis=0)), 1 / probabilities.shape[2])
    )


def confidence(probability: Scores) -> Scores:
    """Log-odds of the true class, which are near to normal (Carlini et al., IEEE S&P 2022, §IV)."""
    p = np.clip(probability, _LEAST, 1 - _LEAST)
    return np.asarray(np.log(p) - np.log1p(-p))


def gradient(opened: NDArray[np.float64], own: NDArray[np.float64]) -> Scores:
    """How much of the opened gradients ``(steps, size, classes)`` lies along each own ``(steps, n, size, classes)``.

    Li, Li, Ribeiro, "Effective passive membership inference attacks in federated learning", ICLR 2023.
    """
    along = np.einsum("tsc,tnsc->tn", opened, own)
    lengths = np.sqrt(np.einsum("tnsc,tnsc->tn", own, own))
    return np.asarray((along / np.maximum(lengths, _LEAST)).sum(axis=0))


_PRIOR: Final = 2.0
"""Refits that the mean effect of membership counts as, where one record's own is estimated from few."""
_TINY: Final = 1e-9

_Floats = NDArray[np.float64]


def lira(signals: _Floats, members: NDArray[np.bool_]) -> _Floats:
    """Log-likelihood ratio of a signal under "member" against "not", both ``(refits, candidates)``.

    Each refit is attacked by all others. Normal distributions with one variance (Carlini et al., IEEE S&P 2022,
    Algorithm 1); a record's own effect is shrunk towards the mean effect of all. Raises ValueError below 3 refits.
    """
    refits = np.arange(len(signals))
    if len(refits) < SHADOWS:
        raise ValueError(f"{len(refits)} refits: shadow runs need {SHADOWS}")
    return np.stack([_ratio(signals[own], signals[refits != own], members[refits != own]) for own in refits])


def _ratio(signal: _Floats, shadows: _Floats, members: NDArray[np.bool_]) -> _Floats:
    inside, outside = members.sum(axis=0), (~members).sum(axis=0)
    effect = shadows[members].mean() - shadows[~members].mean() if members.any() and not members.all() else 0.0
    level = (shadows - effect * members).mean(axis=0)
    low = (np.where(~members, shadows, 0).sum(axis=0) + _PRIOR * level) / (outside + _PRIOR)
    high = (np.where(members, shadows, 0).sum(axis=0) + _PRIOR * (level + effect)) / (inside + _PRIOR)
    variance = float(((shadows - np.where(members, high, low)) ** 2).mean()) + _TINY
    return np.asarray(((signal - low) ** 2 - (signal - high) ** 2) / (2 * variance))


SHADOWS: Final = 3
"""Refits from which on the attack with shadow runs is tried."""


@dataclass(frozen=True, eq=False)
class Observation:
    """One adversary's view of a silo's ``n`` candidates, with true classes ``y`` ``(n,)``; None for unseen parts."""

    y: HardLabels
    labels: NDArray[np.int16] | None = None
    """``(rounds, n)``."""
    probabilities: NDArray[np.float64] | None = None
    """``(rounds, n, classes)``."""
    gradient: Scores | None = None
    """``(n,)``: see ``gradient``."""


def signals(seen: Observation) -> Iterator[tuple[str, Scores]]:
    """Each attack that needs one run alone, by name, with its scores ``(n,)``; first the one for shadow runs."""
    if seen.probabilities is not None:
        yield "confidence", confidence(true_probability(seen.probabilities, seen.y))
    if seen.labels is not None:
        if len(seen.labels) > 1:
            yield "agreement", agreement(seen.labels, seen.y)
        yield "gap", gap(seen.labels, seen.y)
    if seen.gradient is not None:
        yield "gradient", seen.gradient


def all_scores(
    refits: Sequence[Mapping[str, Observation]], members: Mapping[str, NDArray[np.bool_]]
) -> dict[str, NDArray[np.float64]]:
    """Scores ``(refits, candidates)`` by attack, of those that all refits and silos allow, silo after silo.

    ``members`` tells for each silo which candidates each refit trained on, ``(refits, candidates)``.
    """
    found: dict[str, list[NDArray[np.float64]]] = {}
    for silo, bits in members.items():
        by_refit = [dict(signals(refit[silo])) for refit in refits]
        own = {
            name: np.stack([one[name] for one in by_refit])
            for name in by_refit[0]
            if all(name in one for one in by_refit)
        }
        if len(refits) >= SHADOWS and own:
            own["lira"] = lira(next(iter(own.values())), bits)
        for name, scores in own.items():
            found.setdefault(name, []).append(scores)
    # An attack that is possible on some silos alone is none on all.
    return {name: np.hstack(parts) for name, parts in found.items() if len(parts) == len(members)}
