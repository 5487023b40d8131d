"""Numbers that are written more coarsely at a silo than in the public set: rounded to whole ones or tens, or grouped.

A hospital has measured them in another way, or a program has cut their decimals off. Either way a model learns from the
others a precision that these records do not have.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.profile import Profile
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.types import SiloName

_FEWEST: Final = 50
_STEPS: Final = {
    1000.0: "thousands",
    100.0: "hundreds",
    50.0: "multiples of 50",
    10.0: "tens",
    5.0: "multiples of 5",
    1.0: "whole numbers",
    0.5: "halves",
    0.1: "one decimal",
}
_FEW_DIFFERENT: Final = 10
_TIMES: Final = 4
"""So many times as many different numbers as a silo has are expected in as many cells."""
_FEW_NUMBERS: Final = 10
"""Distinct numbers, at most, that may be names of categories."""
_FEWEST_NUMBERS: Final = 3
_ALL: Final = 0.99
_SELDOM: Final = 0.5


def coarser(public: Profile, silo: Profile, name: SiloName, say: Words) -> Iterator[Finding]:
    """Columns whose numbers are multiples of a step at a silo, as most of the public set's are not."""
    theirs, ours = public.numbers, silo.numbers
    for column in theirs.names:
        there, here = theirs.position[column], ours.position.get(column)
        if here is None or min(theirs.valid[there], ours.valid[here]) < _FEWEST:
            continue
        if theirs.distinct[there] <= _FEW_NUMBERS or ours.distinct[here] < _FEWEST_NUMBERS:
            continue
        own, others = _numbers(silo, column), _numbers(public, column)
        # Smaller numbers are written with more digits.
        others = others[(others >= own.min()) & (others <= own.max())]
        step = next((step for step in _STEPS if _are_multiples(own, step).mean() >= _ALL), None)
        how = None
        if len(others) >= _FEWEST and (own != 0).mean() > _SELDOM:
            if step is not None and _are_multiples(others, step).mean() <= _SELDOM:
                how = f"is rounded to {_STEPS[step]}, and most of the public set's numbers are not"
            elif _are_groups(own, others):
                how = "has few different numbers, as of groups, and the public set has many"
        if how:
            said = f"{say.column(column, name)} {how}"
            fix = "write the numbers as they were measured, or nothing, if that is how they were"
            yield Finding("rounded-numbers", Severity.SAID, said, fix, column, name)


def _are_groups(own: NDArray[np.float64], others: NDArray[np.float64]) -> bool:
    """Whether numbers are far fewer different ones than as many of the others are, and none of them is usual."""
    counts = np.unique(own, return_counts=True)[1]
    if len(counts) > _FEW_DIFFERENT or counts.max() > _SELDOM * len(own):
        return False
    # How many different ones are expected among fewer cells (Hurlbert 1971).
    theirs = np.unique(others, return_counts=True)[1]
    expected = (1 - (1 - theirs / len(others)) ** min(len(own), len(others))).sum()
    return bool(expected >= _TIMES * len(counts))


def _numbers(profile: Profile, name: str) -> NDArray[np.float64]:
    cells = profile.valid(name)
    return cells[np.isfinite(cells)]


def _are_multiples(values: NDArray[np.float64], step: float) -> NDArray[np.bool_]:
    with np.errstate(over="ignore", invalid="ignore"):
        steps = values / step
        found: NDArray[np.bool_] = np.abs(steps - np.rint(steps)) < 1e-6 * np.maximum(1, np.abs(steps))
    return found
