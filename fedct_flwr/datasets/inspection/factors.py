"""Columns whose numbers are, but for one factor, the public set's: pounds for kilograms, mmol/l for mg/dl.

Such a factor is often about two, and two distributions a factor of two apart overlap. But then both have one shape on a
scale of logarithms, and nothing else at the silo differs: patients who are heavier differ in other columns as well, and
not all by the same factor.
"""

from collections.abc import Collection, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection.distributions import distance, is_by_chance, root, some
from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.profile import QUANTILES, Profile
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.types import SiloName

_FEWEST: Final = 100
_FEW_NUMBERS: Final = 10
_FACTOR: Final = 1.4
_SHIFT: Final = 0.6
"""Standard deviations of the logarithms."""
_ERRORS: Final = 8.0
"""Standard errors of the two medians."""
_AS_USUAL: Final = 0.3
"""Standard deviations by which other columns differ, at most."""
_FEWEST_OTHERS: Final = 3
_MOSTLY: Final = 0.75
_MOST_NUMBERS: Final = 5000
_MEDIAN: Final = QUANTILES.index(0.5)
_NORMAL: Final = 2 * 1.2816
"""Standard deviations between the first and the last tenth."""

_Floats = NDArray[np.float64]


def multiplied(
    public: Profile, silo: Profile, name: SiloName, say: Words, known: Collection[str] = ()
) -> Iterator[Finding]:
    """Columns in another unit, but for ``known`` ones of which it is said already."""
    theirs, ours = public.numbers, silo.numbers
    columns = [
        column
        for column in theirs.names
        if column in ours.position
        and min(theirs.valid[theirs.position[column]], ours.valid[ours.position[column]]) >= _FEWEST
        and min(theirs.distinct[theirs.position[column]], ours.distinct[ours.position[column]]) > _FEW_NUMBERS
    ]
    shifts = {column: _shift(public, silo, column) for column in columns}
    for column, shift in shifts.items():
        if column in known or abs(shift) < _SHIFT:
            continue
        others = np.array([abs(of) for other, of in shifts.items() if other != column and other not in known])
        if len(others) < _FEWEST_OTHERS or (others <= _AS_USUAL).mean() < _MOSTLY:
            continue
        factor = _factor(public.valid(column), silo.valid(column))
        if factor is not None:
            larger = "larger" if factor > 1 else "smaller"
            times = "" if say.private else f", {max(factor, 1 / factor):.2g} times {larger}"
            said = f"{say.column(column, name)} differs from the public set's numbers by one factor{times}"
            fix = "check the unit, such as pounds or kilograms, mmol/l or mg/dl"
            yield Finding("other-scale", Severity.SAID, said, fix, column, name)


def _shift(public: Profile, silo: Profile, column: str) -> float:
    """How far the medians are apart, in standard deviations of the public set's middle four fifths."""
    q, own = (each.numbers.quantiles[each.numbers.position[column]] for each in (public, silo))
    if min(q[0], own[0]) > 0:
        q, own = np.log(q), np.log(own)
    width = (q[-1] - q[0]) / _NORMAL
    return float((own[_MEDIAN] - q[_MEDIAN]) / width) if width > 0 else 0.0


def _factor(theirs: _Floats, ours: _Floats) -> float | None:
    """The factor between two samples that otherwise have one distribution; None if there is none."""
    if min(theirs.min(), ours.min()) <= 0:
        return None
    one, other = (np.log(some(each, _MOST_NUMBERS)) for each in (theirs, ours))
    shift = float(np.median(other) - np.median(one))
    spread = float(np.std(one))
    if abs(shift) < max(np.log(_FACTOR), _ERRORS * 1.25 * spread / root(one, other)):
        return None
    back = other - shift
    return float(np.exp(shift)) if is_by_chance(distance(one, back), one, back) else None
