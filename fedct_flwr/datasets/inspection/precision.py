"""Numbers that are written more coarsely at a silo than in the public set: rounded to whole ones, or to tens.

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
_STEPS: Final = {1000.0: "thousands", 100.0: "hundreds", 10.0: "tens", 1.0: "whole numbers", 0.1: "one decimal"}
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
        if (
            step is None
            or not (own != 0).mean() > _SELDOM
            or len(others) < _FEWEST
            or _are_multiples(others, step).mean() > _SELDOM
        ):
            continue
        said = f"{say.column(column, name)} is rounded to {_STEPS[step]}, and most of the public set's numbers are not"
        fix = "write the numbers as they were measured, or nothing, if that is how they were"
        yield Finding("rounded-numbers", Severity.SAID, said, fix, column, name)


def _numbers(profile: Profile, name: str) -> NDArray[np.float64]:
    cells = profile.valid(name)
    return cells[np.isfinite(cells)]


def _are_multiples(values: NDArray[np.float64], step: float) -> NDArray[np.bool_]:
    with np.errstate(over="ignore", invalid="ignore"):
        steps = values / step
        found: NDArray[np.bool_] = np.abs(steps - np.rint(steps)) < 1e-6 * np.maximum(1, np.abs(steps))
    return found
