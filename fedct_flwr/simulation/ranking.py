"""Which differences between methods mean something: paired over seeds, with intervals that respect shared records.

Under each seed all methods see the same split, so their differences are paired. Splits of one data set share most of
their training records, and the usual t-test takes the seeds for independent: with enough of them any difference becomes
significant. The corrected resampled t-test adds the share of test records to the variance (C. Nadeau, Y. Bengio,
"Inference for the generalization error", Machine Learning 52, 2003, §3.2, eq. 9):

    variance of the mean difference = (1 / seeds + test records / training records) * variance over the seeds

All methods are compared with the one of the highest mean, so their p-values are adjusted for as many comparisons
(S. Holm, Scandinavian Journal of Statistics 6, 1979).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from scipy import stats

LEVEL: Final = 0.95


class Standing(NamedTuple):
    """One method: its mean score over ``seeds``, and how far it is from the best.

    ``low`` and ``high`` are the 95% interval of the mean ``difference`` to the best, for this comparison alone. ``p``
    is adjusted for all comparisons. NaN where chance cannot be judged: a single seed, or seeds that change nothing.
    """

    name: str
    mean: float
    seeds: int
    difference: float
    low: float
    high: float
    p: float

    @property
    def differs(self) -> bool:
        """Whether it is worse than the best beyond chance."""
        return self.p < 1 - LEVEL


def ranked(scores: Mapping[str, Sequence[float]], test_per_train: float) -> list[Standing]:
    """Methods from the best mean to the worst; ``scores`` has a value for each seed, in the same order for all.

    ``test_per_train`` is the number of test records per training record. The best has no interval and no p-value.

    >>> scores = {"a": [0.9, 0.8, 0.85], "b": [0.5, 0.41, 0.44], "c": [0.8, 0.88, 0.8]}
    >>> [(standing.name, standing.differs) for standing in ranked(scores, test_per_train=0.1)]
    [('a', False), ('c', False), ('b', True)]
    """
    values = {name: np.asarray(of, dtype=np.float64) for name, of in scores.items()}
    order = sorted(values, key=lambda name: -values[name].mean())
    best = values[order[0]]
    judged = {name: _compared(values[name] - best, test_per_train) for name in order[1:]}
    adjusted = holm({name: p for name, (*_, p) in judged.items()})
    nan = math.nan
    standings = [Standing(order[0], float(best.mean()), len(best), 0.0, nan, nan, nan)]
    for name, (low, high, _) in judged.items():
        mean = float(values[name].mean())
        standings.append(Standing(name, mean, len(best), mean - standings[0].mean, low, high, adjusted[name]))
    return standings


def _compared(differences: np.ndarray, test_per_train: float) -> tuple[float, float, float]:
    """The 95% interval of a mean difference and its p-value, two-sided."""
    number = len(differences)
    spread = float(differences.var(ddof=1)) if number > 1 else 0.0
    # Seeds that all give the same say nothing of chance.
    if spread <= np.finfo(np.float64).eps ** 2:
        return math.nan, math.nan, math.nan
    mean, error = float(differences.mean()), math.sqrt((1 / number + test_per_train) * spread)
    reach = float(stats.t.ppf(0.5 + LEVEL / 2, number - 1)) * error
    return mean - reach, mean + reach, float(2 * stats.t.sf(abs(mean) / error, number - 1))


def holm(p: Mapping[str, float]) -> dict[str, float]:
    """p-values adjusted so that the chance of any false difference stays below the level; NaN stays NaN.

    >>> {name: round(value, 6) for name, value in holm({"a": 0.01, "b": 0.04, "c": 0.03}).items()}
    {'a': 0.03, 'c': 0.06, 'b': 0.06}
    """
    known = sorted((name for name in p if not math.isnan(p[name])), key=lambda name: p[name])
    adjusted, before = dict.fromkeys(set(p) - set(known), math.nan), 0.0
    for place, name in enumerate(known):
        before = adjusted[name] = max(before, min(1.0, (len(known) - place) * p[name]))
    return adjusted


def verdict(standings: Sequence[Standing]) -> str:
    """One sentence: which differences mean something."""
    best, *others = standings
    if not others:
        return f"{best.name} is the only one with scores: there is nothing to compare it with"
    if all(math.isnan(other.p) for other in others):
        why = "there is a single seed" if best.seeds == 1 else "all seeds give the same differences"
        return f"no difference can be told from chance, as {why}: compare over more seeds and splits"
    same = [other for other in others if not other.differs]
    if not same:
        return f"{best.name} is better than all others beyond chance"
    if len(same) == len(others):
        return "no difference to the best means anything: choose by what leaves, by time, or compare over more seeds"
    return (
        f"{len(same)} of {len(others)} others cannot be told from {best.name}: choose among them by what leaves, by "
        "time, or compare over more seeds"
    )
