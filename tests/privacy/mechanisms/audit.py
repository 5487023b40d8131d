"""Checks that a mechanism keeps its claim. They find a broken one: ``test_planted.py`` holds them to it."""

import math
from collections import Counter
from collections.abc import Mapping

import numpy as np
from dp_accounting import DpEvent
from scipy.stats import chi2

from fedct_flwr.privacy.accounting import epsilon
from tests.privacy.mechanisms.cases import Case, Input, Output, release

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
