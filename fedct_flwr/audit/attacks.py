"""Attacks on one run: each gives a score for each candidate, higher for likelier members. Pure functions.

Shapes: ``labels`` ``(rounds, n)`` with ABSTAIN where nothing was said, ``probabilities`` ``(rounds, n, classes)`` with
NaN there, true classes ``y`` ``(n,)``.
"""

from collections.abc import Callable
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
    said = labels != ABSTAIN
    right = (labels == y) & said
    return np.asarray(np.where(said.any(axis=0), right.sum(axis=0) / np.maximum(1, said.sum(axis=0)), 0.5))


def calibrated(own: Scores, others: NDArray[np.float64]) -> Scores:
    """A score less the mean of what silos without the record score, ``(silos, n)``: easy records are right anyway.

    Watson et al., "On the importance of difficulty calibration in membership inference attacks", ICLR 2022.
    """
    return np.asarray(own - others.mean(axis=0))


def near(labels: NDArray[np.int16], y: HardLabels) -> Scores:
    """Share of rounds and of public neighbours ``(rounds, n, neighbours)`` that are labeled as the candidate is."""
    rounds, n, neighbours = labels.shape
    flat = labels.transpose(0, 2, 1).reshape(rounds * neighbours, n)
    return agreement(flat, y)


def true_probability(probabilities: NDArray[np.floating], y: HardLabels) -> Scores:
    """Mean probability of the true class over the rounds; 1 / classes where there was none."""
    own = probabilities[:, np.arange(len(y)), y].astype(np.float64)
    said = np.isfinite(own)
    total = np.where(said, own, 0).sum(axis=0)
    return np.asarray(np.where(said.any(axis=0), total / np.maximum(1, said.sum(axis=0)), 1 / probabilities.shape[2]))


def confidence(probability: Scores) -> Scores:
    """Log-odds of the true class, which are near to normal (Carlini et al., IEEE S&P 2022, §IV)."""
    p = np.clip(probability, _LEAST, 1 - _LEAST)
    return np.asarray(np.log(p) - np.log1p(-p))


def gradient(opened: NDArray[np.float64], own: NDArray[np.float64]) -> Scores:
    """How much of the opened gradients lies along each candidate's own.

    ``opened`` ``(steps, size, classes)``, ``own`` ``(steps, n, size, classes)``.
    Li, Li and Ribeiro, "Effective passive membership inference attacks in federated learning against overparameterized
    models", ICLR 2023.
    """
    along = np.einsum("tsc,tnsc->tn", opened, own)
    lengths = np.sqrt(np.einsum("tnsc,tnsc->tn", own, own))
    return np.asarray((along / np.maximum(lengths, _LEAST)).sum(axis=0))


def boundary(
    predict: Callable[[Features], HardLabels], X: Features, y: HardLabels, public: Features, rng: Generator
) -> Scores:
    """Share of changed copies that are still labeled right: how far a record is from the decision boundary.

    A copy has a share of its fields from a public example, which works for numbers, categories and pixels (label-only:
    Choquette-Choo et al., "Label-only membership inference attacks", ICML 2021).
    """
    right = np.zeros(len(y))
    for share in _SHARES:
        for _ in range(_COPIES):
            strangers = public[rng.integers(len(public), size=len(X))]
            changed = np.where(rng.random(X.shape) < share, strangers, X).astype(X.dtype)
            right += predict(changed) == y
    # The record itself counts as much as all copies: no copy may hide that it is right.
    return np.asarray(right / (2 * len(_SHARES) * _COPIES) + (predict(X) == y) / 2)
