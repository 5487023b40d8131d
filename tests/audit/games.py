"""Games against each mechanism: scores of refits with one record and without, in the worst case that is known for it.

Noise is seeded, each refit anew, so that a game always ends the same. What is promised is the event that the mechanism
itself says it spends. Many refits of one canary: Jagielski, Ullman, Oprea, "Auditing differentially private machine
learning", NeurIPS 2020, with the limits of Clopper and Pearson.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
from dp_accounting import DpEvent, GaussianDpEvent, get_epsilon_gaussian
from numpy.typing import NDArray
from scipy.special import betaincinv

from fedct_flwr.datasets.schema import Schema
from fedct_flwr.labelers.labeler import Asked
from fedct_flwr.labelers.public_features import NORM, PublicFeatures
from fedct_flwr.privacy.accounting import epsilon
from fedct_flwr.privacy.randomness import SimulatedNoise
from fedct_flwr.types import ABSTAIN, Examples

CONFIDENCE = 0.999
_DELTAS = (1e-5, 1e-3, 0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)

Play = Callable[[bool, SimulatedNoise], Any]
"""A refit, with the record or without, and the attacker's score of what came out: a number, or an array of scores of
releases that are independent of each other."""

Scores = tuple[np.ndarray, np.ndarray]
"""Of refits with the record, and of as many without."""

NUMERIC = Schema.numeric(("no", "yes"), ("a", "b", "c"))
PUBLIC = np.random.default_rng(0).normal(size=(50, 3))
FEATURES = PublicFeatures(PUBLIC, NUMERIC, num_components=3, kind="linear", seed=0)
CANARY = Examples(np.full((1, 3), 2.0), np.array([1], dtype=np.int16))
ANOTHER = Examples(CANARY.X, np.array([0], dtype=np.int16))


def noise(*seed: int) -> SimulatedNoise:
    return SimulatedNoise(np.random.default_rng(seed))


class Refuted(NamedTuple):
    """``lower``: epsilon is at least that, at ``delta``, where ``promised`` was said. ``broken``: it is more."""

    lower: float
    promised: float
    delta: float

    @property
    def broken(self) -> bool:
        """Whether the promise does not hold."""
        return self.lower > self.promised


def outcome(play: Play, event: DpEvent, refits: int) -> Refuted:
    """What so many refits with the record and as many without prove."""
    return against(scores_of(play, refits), event)


def scores_of(play: Play, refits: int) -> Scores:
    """Scores that may be held against several promises."""
    inside, outside = (
        np.hstack([play(bit, noise(bit, number)) for number in range(refits)]).astype(float) for bit in (True, False)
    )
    return inside, outside


def against(scores: Scores, event: DpEvent) -> Refuted:
    """What the scores prove where this event is promised."""

    @lru_cache
    def promised(delta: float) -> float:
        if isinstance(event, GaussianDpEvent):
            return get_epsilon_gaussian(event.noise_multiplier, delta)  # exact, and at once
        return float(epsilon(event, delta).upper)

    return against_promise(*scores, promised, CONFIDENCE)


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


def asked(private: Examples, public: np.ndarray = PUBLIC, votes: Any = None) -> Asked:
    nobody = np.full(len(public), ABSTAIN, dtype=np.int16)
    return Asked(private, public, nobody, nobody if votes is None else votes, np.arange(len(public)))


def crowded(labeler: Any, crowd: int = 100) -> Play:
    """DP-linear: a record against a crowd that is sure of the other class, where its gradient is the longest."""
    same = np.repeat(CANARY.X, crowd, axis=0)
    others = np.zeros(crowd, dtype=np.int16)
    both = Examples(np.vstack([same, CANARY.X]), np.append(others, CANARY.y))
    alone = Examples(same, others)
    direction = np.outer(FEATURES(CANARY.X)[0], [-1, 1])

    def play(there: bool, noise: SimulatedNoise) -> float:
        labeler.reset()
        labeler.answer(asked(both if there else alone), noise)
        return float((labeler._weights * direction).sum())

    return play


class ByHeart:
    """Says the class of its last record of everything."""

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: None = None) -> Self:
        self._label = y[-1]
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.full(len(X), self._label, dtype=np.int16)


CROWD = Examples(np.repeat(ANOTHER.X, 50, axis=0), np.zeros(50, dtype=np.int16))
"""So many records of the other class that each of three teachers has one, but for one draw in 10^8."""
WITH_CROWD = Examples(np.vstack([CROWD.X, CANARY.X]), np.append(CROWD.y, CANARY.y))


def taught(transfer: Any, queries: int) -> Play:
    """FedKT-L2: the record turns the vote of one teacher; students repeat it; each lesson has noise of its own.

    A score is the number of partitions that were won over, for each of the queries: given who teaches whom, which
    makes no difference here, they are as independent as refits are.
    """
    public = np.zeros((queries, 3))

    def play(there: bool, noise: SimulatedNoise) -> np.ndarray:
        return np.asarray(transfer.answer(asked(WITH_CROWD if there else CROWD, public), noise)[:, 1])

    return play


def summed(labeler: Any, silos: int) -> Play:
    """The joint labeler: a coordinator sends weights under which the record's gradient is the longest."""
    vectors = labeler.vectors(CANARY.X)
    weights = 100.0 * np.outer(vectors[0] / NORM, [1, -1])
    along = np.outer(vectors[0] / NORM, [1, -1])
    y = np.array([1], dtype=np.int16)

    def play(there: bool, noise: SimulatedNoise) -> float:
        rows = slice(0, 1 if there else 0)
        total = 0.0
        for _ in range(labeler.plan.steps):
            own = [labeler.summand(vectors[rows], y[rows], weights, noise)]
            own += [labeler.summand(vectors[:0], y[:0], weights, noise) for _ in range(silos - 1)]
            opened = np.sum(own, axis=0, dtype=np.uint64).view(np.int64).reshape(weights.shape)
            total += float((opened * along).sum())
        return total

    return play


def descended(labeler: Any, private: Examples, public: np.ndarray) -> Play:
    """DP-SGD: the weights after one step, along the record's gradient."""
    import torch

    labeler.reset()
    begun = [parameter.detach().clone() for parameter in labeler._trained]
    X, y = torch.from_numpy(private.X.astype(np.float32)), torch.from_numpy(private.y.astype(np.int64))
    direction = labeler._clipped_sum(X, y, torch.ones(1))

    def play(there: bool, noise: SimulatedNoise) -> float:
        labeler.reset()
        labeler.answer(asked(private if there else Examples(private.X[:0], private.y[:0]), public), noise)
        moved = zip(begun, labeler._trained, direction, strict=True)
        return float(sum(((old - new).detach() * along).sum() for old, new, along in moved))

    return play
