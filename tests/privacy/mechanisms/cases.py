"""What every mechanism claims, written down a second time: its output probabilities, and the worst adjacent inputs."""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from dp_accounting import DpEvent
from scipy.stats import chi2

from fedct_flwr.privacy.accounting import epsilon
from fedct_flwr.privacy.mechanisms import (
    MECHANISMS,
    Gaussian,
    Gumbel,
    Laplace,
    Mechanism,
    RandomizedResponse,
    Xor,
)

Output = int | tuple[int, ...]
Input = int | tuple[int, ...]
REACH = 60
"""Noise is written down up to here: less than 1e-12 of it lies beyond, with the scales used in tests."""


@dataclass(frozen=True)
class Case:
    """One mechanism on one public example, whose vote is a class, or the counts of all classes."""

    mechanism: Mechanism
    adjacent: tuple[tuple[Input, Input], ...]
    """Pairs of inputs that a unit can turn into each other; the worst are among them."""
    probabilities: Callable[[Input], Mapping[Output, float]]
    """Of each output, by the paper's formula."""
    claim: float
    """Epsilon per public example at delta = 0, by the docstring; infinite if it is none."""


def release(mechanism: Mechanism, vote: Input, times: int, noise) -> np.ndarray:
    """Independent outputs for the same vote, ``(times,)`` or ``(times, classes)``."""
    dtype = np.int16 if isinstance(vote, int) else np.int32
    return mechanism(np.tile(np.asarray(vote, dtype=dtype), (times,) + (1,) * np.ndim(vote)), noise)


def _xor(vote: Input, theta: float, classes: int) -> Mapping[Output, float]:
    flip = 1 / (1 + math.exp(theta))
    true = [int(c == vote) for c in range(classes)]
    return {
        bits: math.prod(flip if bit != truth else 1 - flip for bit, truth in zip(bits, true, strict=True))
        for bits in itertools.product((0, 1), repeat=classes)
    }


def _randomized_response(vote: Input, epsilon: float, classes: int) -> Mapping[Output, float]:
    if vote == -1:
        return dict.fromkeys(range(classes), 1 / classes)
    total = math.exp(epsilon) + classes - 1
    return {c: (math.exp(epsilon) if c == vote else 1) / total for c in range(classes)}


def _noisy_counts(vote: Input, log_weight: Callable[[int], float]) -> Mapping[Output, float]:
    """Of the first two counts; the third is left as drawn, its noise is independent and the same for both inputs."""
    noise = {x: math.exp(log_weight(x)) for x in range(-REACH, REACH + 1)}
    total = sum(noise.values())
    return {(vote[0] + x, vote[1] + y): noise[x] / total * noise[y] / total for x, y in itertools.product(noise, noise)}


def _gumbel(vote: Input, scale: float) -> Mapping[Output, float]:
    weights = [math.exp(count / scale) for count in vote]
    return {c: weight / sum(weights) for c, weight in enumerate(weights)}


def _pairs(*inputs: Input) -> tuple[tuple[Input, Input], ...]:
    return tuple(itertools.permutations(inputs, 2))


COUNTS = (((5, 4), (4, 5)), ((4, 5), (5, 4)), ((9, 0), (8, 1)), ((8, 1), (9, 0)), ((5, 3), (5, 4)), ((14, 1), (15, 0)))
THREE = (
    ((3, 1, 0), (2, 2, 0)),
    ((2, 2, 0), (3, 1, 0)),
    ((0, 4, 0), (0, 3, 1)),
    ((1, 1, 1), (0, 2, 1)),
    ((39, 1, 0), (40, 0, 0)),
)
TWICE = (((6, 3), (4, 5)), ((4, 5), (6, 3)), ((9, 0), (7, 2)), ((18, 2), (20, 0)))

CASES: dict[str, list[Case]] = {
    "xor": [
        Case(Xor(classes, theta), _pairs(-1, *range(classes)), lambda v, t=theta, k=classes: _xor(v, t, k), 2 * theta)
        for classes, theta in [(2, 0.3), (3, 1.0), (4, 0.01), (3, 3.0)]
    ],
    "randomized-response": [
        Case(
            RandomizedResponse(classes, epsilon),
            _pairs(-1, *range(classes)),
            lambda v, e=epsilon, k=classes: _randomized_response(v, e, k),
            epsilon,
        )
        for classes, epsilon in [(2, 0.5), (3, 1.0), (10, 0.1), (10, 4.0)]
    ],
    "laplace": [
        Case(
            Laplace(scale, votes),
            COUNTS if votes == 1 else TWICE,
            lambda v, s=scale: _noisy_counts(v, lambda x: -abs(x) / s),
            2 * votes / scale,
        )
        for scale, votes in [(1.0, 1), (2.0, 1), (2.0, 2)]
    ],
    "gaussian": [
        Case(
            Gaussian(scale, votes),
            COUNTS if votes == 1 else TWICE,
            lambda v, s=scale: _noisy_counts(v, lambda x: -x * x / (2 * s * s)),
            math.inf,
        )
        for scale, votes in [(1.0, 1), (3.0, 1), (3.0, 2)]
    ],
    "gumbel": [
        Case(Gumbel(scale, votes), adjacent, lambda v, s=scale: _gumbel(v, s), 2 * votes / scale)
        for scale, votes, adjacent in [(1.0, 1, COUNTS), (2.0, 2, TWICE), (4.0, 1, THREE), (0.5, 1, THREE)]
    ],
}

ALL = [(name, case) for name in MECHANISMS for case in CASES.get(name, [])]
IDS = [f"{name}-{number}" for name in MECHANISMS for number, _ in enumerate(CASES.get(name, []))]


# --- the audit: checks that a mechanism keeps its claim, to which ``test_planted.py`` holds them


RUNS = 100_000
DELTAS = (1e-6, 1e-3, 0.05)
CONFIDENCE = 1 - 1e-6
"""Of each statistical test: a suite of a hundred fails once in ten thousand times."""


def likelihood_ratio(p: Mapping[Output, float], q: Mapping[Output, float]) -> float:
    """Largest log-ratio of any output; outputs that are not written down for both are the far tail of the noise."""
    return max(math.log(p[output] / q[output]) for output in p.keys() & q.keys())


def divergence(p: Mapping[Output, float], q: Mapping[Output, float], eps: float) -> float:
    """Hockey-stick divergence: the least delta at ``eps``, for this pair."""
    return math.fsum(max(0.0, chance - math.exp(eps) * q.get(output, 0.0)) for output, chance in p.items())


def breaks_its_ratio(case: Case) -> bool:
    """Whether some output is more likely, on some adjacent input, than the claim allows."""
    return math.isfinite(case.claim) and any(
        likelihood_ratio(case.probabilities(a), case.probabilities(b)) > case.claim + 1e-9 for a, b in case.adjacent
    )


def breaks_its_event(case: Case, event: DpEvent | None = None) -> bool:
    """Whether one query has a larger delta than its event promises, at that epsilon."""
    event = event or case.mechanism.event(1)
    for delta in DELTAS:
        promised = epsilon(event, delta).upper
        for a, b in case.adjacent:
            if divergence(case.probabilities(a), case.probabilities(b), promised) > delta + 1e-9:
                return True
    return False


def outputs(case: Case, vote: Input, noise, runs: int = RUNS) -> Counter[Output]:
    """How often each output came, of ``runs`` (of counts, the first two)."""
    released = np.asarray(release(case.mechanism, vote, runs, noise), dtype=np.int64)
    known = next(iter(case.probabilities(vote)))
    if released.ndim == 1:
        values, counts = np.unique(released, return_counts=True)
        return Counter(dict(zip(values.tolist(), counts.tolist(), strict=True)))
    values, counts = np.unique(released[:, : len(known)], axis=0, return_counts=True)
    return Counter(dict(zip(map(tuple, values.tolist()), counts.tolist(), strict=True)))


def is_distributed_otherwise(seen: Counter[Output], expected: Mapping[Output, float]) -> bool:
    """Pearson's chi-squared test, outputs that are expected less than ten times taken together."""
    runs = seen.total()
    if seen.keys() - expected.keys():
        return True
    often = [output for output, chance in expected.items() if chance * runs >= 10]
    predicted = np.array([expected[output] * runs for output in often])
    observed = np.array([seen[output] for output in often])
    rest = runs - predicted.sum()
    if rest >= 10:
        predicted, observed = np.append(predicted, rest), np.append(observed, runs - observed.sum())
    statistic = float(((observed - predicted) ** 2 / predicted).sum())
    return bool(chi2.sf(statistic, max(1, len(predicted) - 1)) < 1 - CONFIDENCE)
