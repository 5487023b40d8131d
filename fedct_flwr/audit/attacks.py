"""Attacks: each gives a score for each candidate, higher for likelier members. Pure functions.

Shapes: ``labels`` ``(rounds, n)`` with ABSTAIN, ``probabilities`` ``(rounds, n, classes)`` with NaN, classes ``y``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedct_flwr.types import ABSTAIN, Features, HardLabels

Scores = NDArray[np.float64]

_LEAST: Final = 1e-6
_SHARES: Final = (0.1, 0.2, 0.4, 0.6)
_COPIES: Final = 5


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


def calibrated(own: Scores, others: NDArray[np.float64]) -> Scores:
    """A score less the mean of what silos without the record score, ``(silos, n)`` (Watson et al., ICLR 2022)."""
    return np.asarray(own - others.mean(axis=0))


def near(labels: NDArray[np.int16], y: HardLabels) -> Scores:
    """Share of rounds and of public neighbours ``(rounds, n, neighbours)`` that are labeled as the candidate is."""
    rounds, n, neighbours = labels.shape
    flat = labels.transpose(0, 2, 1).reshape(rounds * neighbours, n)
    return agreement(flat, y)


def counted(opened: Scores, records: NDArray[np.float64], noise: float) -> Scores:
    """How far each of ``records`` ``(n, cells)`` explains counts ``(cells,)`` less those of all other records.

    Ridge regression, which shrinks as noise of this standard deviation asks for: the linear Bayes estimate of who is a
    member, where each is with probability 1/2.

    >>> counted(np.array([1.0, 0.0]), np.eye(2), 0.001).round(2)
    array([1., 0.])
    """
    apart = opened - records.sum(axis=0) / 2
    gram = records @ records.T + 4 * noise**2 * np.eye(len(records))
    return np.asarray(0.5 + np.linalg.solve(gram, records @ apart))


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


def boundary(
    predict: Callable[[Features], HardLabels], X: Features, y: HardLabels, public: Features, rng: Generator
) -> Scores:
    """Share of copies, with a share of fields from public examples, that are still labeled right.

    Choquette-Choo et al., "Label-only membership inference attacks", ICML 2021.
    """
    right = np.zeros(len(y))
    for share in _SHARES:
        for _ in range(_COPIES):
            strangers = public[rng.integers(len(public), size=len(X))]
            changed = np.where(rng.random(X.shape) < share, strangers, X).astype(X.dtype)
            right += predict(changed) == y
    # The record itself counts as much as all copies: no copy may hide that it is right.
    return np.asarray(right / (2 * len(_SHARES) * _COPIES) + (predict(X) == y) / 2)


_PRIOR: Final = 2.0
"""Refits that the mean effect of membership counts as, where one record's own is estimated from few."""
_TINY: Final = 1e-9

_Floats = NDArray[np.float64]


def lira(signals: _Floats, members: NDArray[np.bool_]) -> _Floats:
    """Log-likelihood ratio of a signal under "member" against "not", both ``(refits, candidates)``.

    Normal distributions with one variance (Carlini et al., IEEE S&P 2022, Algorithm 1); a record's own effect is shrunk
    towards the mean effect of all. Raises ValueError below 3 refits.
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
    Liu, Shokri, ICML 2024, with gamma 1, offline). Raises ValueError below 2 refits.
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


SHADOWS: Final = 3
"""Refits from which on attacks with shadow runs are tried."""


@dataclass(frozen=True, eq=False)
class Observation:
    """One adversary's view of a silo's ``n`` candidates, with true classes ``y`` ``(n,)``; None for unseen parts."""

    y: HardLabels
    labels: NDArray[np.int16] | None = None
    """``(rounds, n)``: answers for the candidates themselves."""
    probabilities: NDArray[np.float64] | None = None
    """``(rounds, n, classes)``."""
    others: NDArray[np.int16] | None = None
    """``(silos, rounds, n)``: the candidates' answers from silos without these records."""
    neighbours: NDArray[np.int16] | None = None
    """``(rounds, n, neighbours)``: answers for the public examples nearest to them."""
    population: NDArray[np.float64] | None = None
    """``(strangers,)``: probabilities of the true class of records that the silo does not have."""
    boundary: Scores | None = None
    """``(n,)``: see ``boundary``."""
    gradient: Scores | None = None
    """``(n,)``: see ``gradient``."""
    counts: Mapping[str, Scores] = field(default_factory=dict)
    """``(n,)``, by the attack's name: see ``counted``."""


def signals(seen: Observation) -> Iterator[tuple[str, Scores]]:
    """Each attack that needs one run alone, by name, with its scores ``(n,)``."""
    if seen.neighbours is not None:
        yield "near", near(seen.neighbours, seen.y)
    if seen.labels is not None and len(seen.labels):
        yield "gap", gap(seen.labels, seen.y)
        own = agreement(seen.labels, seen.y)
        if len(seen.labels) > 1:
            yield "agreement", own
        if seen.others is not None and len(seen.others):
            theirs = np.stack([agreement(labels, seen.y) for labels in seen.others])
            yield "calibrated", calibrated(own, theirs)
    if seen.probabilities is not None and len(seen.probabilities):
        yield "confidence", confidence(true_probability(seen.probabilities, seen.y))
    if seen.boundary is not None:
        yield "boundary", seen.boundary
    if seen.gradient is not None:
        yield "gradient", seen.gradient
    yield from seen.counts.items()


def all_scores(
    refits: Sequence[Mapping[str, Observation]], members: Mapping[str, NDArray[np.bool_]]
) -> dict[str, NDArray[np.float64]]:
    """Every attack of one seat: scores ``(refits, candidates)``, silo after silo, with ``members`` of shadow runs."""
    found: dict[str, list[NDArray[np.float64]]] = {}
    for silo, bits in members.items():
        by_refit = [dict(signals(refit[silo])) for refit in refits]
        names = [name for name in by_refit[0] if all(name in one for one in by_refit)]
        own = {name: np.stack([one[name] for one in by_refit]) for name in names}
        if len(refits) >= SHADOWS and own:
            best = next(
                name for name in ("confidence", "calibrated", "agreement", "gap", "near", "counts") if name in own
            )
            own["lira"] = lira(own[best], bits)
            true, strangers = [_true(refit[silo]) for refit in refits], [refit[silo].population for refit in refits]
            if all(one is not None for one in (*true, *strangers)):
                own["rmia"] = rmia(np.array(true), np.array(strangers))
        for name, scores in own.items():
            found.setdefault(name, []).append(scores)
    # An attack that is possible on some silos alone is none on all.
    return {name: np.hstack(parts) for name, parts in found.items() if len(parts) == len(members)}


def _true(seen: Observation) -> Scores | None:
    return None if seen.probabilities is None else true_probability(seen.probabilities, seen.y)
