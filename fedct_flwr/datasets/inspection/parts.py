"""Parts of a table whose cells stand next to other records than their own, from some record on, or up to one.

A part of a file was joined by a wrong key, sorted alone, coded the other way round, or filled with one class where
nothing was known yet. Then the other columns tell a column, or the label, in one part of the table and not in the other
(a linear rule on ranks, learned from every second record for those between). The two parts are the ones between which
that agreement differs most (Page 1954).

Where the two parts hold different records, such as those of two studies, columns may well go together in one alone.
So nothing is said unless all columns have the same distribution in both: that is what a wrong order leaves as it was.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.scores import Scores, correlated, precision
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.types import SiloName

_FEWEST: Final = 60
"""Records of each part."""
_FEWEST_OTHERS: Final = 3
"""Columns that tell a column, and whether the parts are alike."""
_FAR: Final = 5.0
"""Standard errors between the two parts."""
_FAR_CORRELATED: Final = 4.5
_HOLDS: Final = 0.3
"""Correlation with what the others tell, from which they tell a column."""
_NOTHING: Final = 0.1
_OPPOSITE: Final = -0.2
_LONG_TAILS: Final = 10.0
"""Kurtosis of zeros and ones of which a tenth is one: with rarer ones, few records are all that is told."""
_ALIKE: Final = 4.0
"""Standard errors within which the two parts have the same means and the same spreads."""
_BATCH: Final = 5
"""Records that follow each other may be alike: standard errors are those of so many together."""

_Floats = NDArray[np.float64]


class _Break(NamedTuple):
    """After how many records a column stops going with the others, or starts to; and its correlation where it fails."""

    after: int
    first: bool
    """Whether the first part is the one that fails."""
    correlation: float
    errors: float
    """Standard errors between the parts."""


def broken(scores: Scores, label: str, silo: SiloName, say: Words) -> Iterator[Finding]:
    """Columns of one table, and its ``label``, that go with the others in one part of its records alone."""
    left = np.ptp(scores.values, axis=0) > 0 if len(scores.values) else np.zeros(0, dtype=bool)
    while len(scores.values) >= 2 * _FEWEST:
        worst: tuple[float, int, _Break] | None = None
        for column in np.unique(scores.owner[left]).tolist():
            found = _break(scores, left, column, is_label=scores.names[column] == label)
            if found and (worst is None or found.errors > worst[0]):
                worst = found.errors, column, found
        if worst is None:
            return
        _, column, found = worst
        name = scores.names[column]
        where = f"up to record {found.after:,}" if found.first else f"from record {found.after + 1:,} on"
        if found.correlation > _OPPOSITE:
            said = f"nothing goes with {say.column(name, silo)} {where}, as it does in its other records"
            fix = "check that these cells stand next to the right records, and are not just filled in"
        else:
            said = f"{say.column(name, silo)} goes with the others in the opposite way {where}"
            fix = "check what its codes or its scale mean in these records"
        yield Finding("unrelated-rows", Severity.SAID, said, fix, name, silo)
        # What goes with it broke off for that reason alone.
        left = left & (scores.owner != column)


def _break(scores: Scores, left: NDArray[np.bool_], column: int, *, is_label: bool) -> _Break | None:
    """Where a column breaks off. The label may well have another distribution in the two parts."""
    mine, others = left & (scores.owner == column), left & (scores.owner != column)
    own, X = scores.values[:, mine], scores.values[:, others]
    # Several words, such as those of places, are often in an order of their own.
    few = len(np.unique(scores.owner[others])) < _FEWEST_OTHERS
    if few or (own.shape[1] > 1 and not is_label) or float((own**4).mean(axis=0).max()) > _LONG_TAILS:
        return None
    told = np.empty_like(own)
    for half in (slice(0, None, 2), slice(1, None, 2)):
        other = slice(1 - (half.start or 0), None, 2)
        told[half] = X[half] @ (precision(correlated(X[other], X[other])) @ correlated(X[other], own[other]))
    agree = (told * own).sum(axis=1)
    at, errors = _most_different(agree)
    if errors < _FAR:
        return None
    parts = slice(0, at), slice(at, None)
    fits = [_correlation(told[part], own[part]) for part in parts]
    first = fits[0] < fits[1]
    fails, holds = min(fits), max(fits)
    size = at if first else len(own) - at
    is_opposite = fails <= min(_OPPOSITE, -4 / np.sqrt(size))
    is_nothing = abs(fails) <= max(_NOTHING, 2 / np.sqrt(size))
    if holds < _HOLDS or not (is_opposite or is_nothing):
        return None
    # Fisher's transformation, whose standard error does not depend on how well they go together.
    if np.arctanh(holds) - np.arctanh(fails) < _FAR_CORRELATED * np.sqrt(1 / (at - 3) + 1 / (len(own) - at - 3)):
        return None
    compared = X if is_label else np.hstack([X, own])
    if not are_alike(compared[parts[0]], compared[parts[1]]):
        return None
    return _Break(at, first, fails, errors)


def _most_different(values: _Floats) -> tuple[int, float]:
    """After how many values their mean changes most, and by how many standard errors."""
    size = len(values)
    at = np.arange(_FEWEST, size - _FEWEST + 1)
    total = np.cumsum(values)
    before, after = total[at - 1] / at, (total[-1] - total[at - 1]) / (size - at)
    best = int((np.abs(before - after) * np.sqrt(at * (size - at))).argmax())
    k = int(at[best])
    error = np.sqrt(_error(values[:k]) ** 2 + _error(values[k:]) ** 2)
    return k, float(abs(before[best] - after[best]) / error) if error > 0 else 0.0


def _error(values: _Floats) -> float:
    """The standard error of a mean of values of which neighbors may be alike."""
    whole = values[: len(values) // _BATCH * _BATCH].reshape(-1, _BATCH).mean(axis=1)
    return float(max(values.std() / np.sqrt(len(values)), whole.std() / np.sqrt(len(whole))))


def _correlation(told: _Floats, own: _Floats) -> float:
    told, own = told - told.mean(axis=0), own - own.mean(axis=0)
    both = float(np.sqrt((told**2).sum() * (own**2).sum()))
    return float((told * own).sum()) / both if both > 0 else 0.0


def are_alike(one: _Floats, other: _Floats) -> bool:
    """Whether all scores have the same mean and spread in both parts, but for chance."""
    for power in (1, 2):
        a, b = one**power, other**power
        errors = np.array([np.hypot(_error(x), _error(y)) for x, y in zip(a.T, b.T, strict=True)])
        if (np.abs(a.mean(axis=0) - b.mean(axis=0)) > _ALIKE * errors).any():
            return False
    return True
