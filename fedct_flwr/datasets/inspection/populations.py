"""Columns in which a silo's records are others than the public set's: children among adults, another device.

Within a narrower range, columns go together less. And where a public set is of several hospitals that differ, columns
go together there that do not within any of them (Simpson 1951), which other silos' tables would show. So it means
nothing that such a column goes with no other one.
"""

from typing import Final

import numpy as np

from fedct_flwr.datasets.inspection.distributions import distance, is_by_chance, some
from fedct_flwr.datasets.inspection.profile import Profile, Text

_FAR: Final = 0.25
"""Largest difference between two distribution functions, or between the shares of words."""
_FAR_ALONE: Final = 0.1
"""The same, where no table but the public set shows what goes together."""
_NARROW, _NARROW_ALONE = 0.6, 0.85
"""Of the public set's width between the first and the last tenth, a silo's."""
_MOST_NUMBERS: Final = 2000


def other_columns(public: Profile, silo: Profile, *, alone: bool) -> frozenset[str]:
    """The names of these columns of numbers and of words; ``alone``: no other silo is there to compare with."""
    far, narrow = (_FAR_ALONE, _NARROW_ALONE) if alone else (_FAR, _NARROW)
    numbers = [name for name in public.numbers.position if name in silo.numbers.position]
    words = [name for name in public.texts if name in silo.texts]
    return frozenset(
        [
            name
            for name in numbers
            if _differ(public, silo, name, far) or _width(silo, name) < narrow * _width(public, name)
        ]
        + [name for name in words if _apart(public.texts[name], silo.texts[name]) > far]
    )


def _differ(public: Profile, silo: Profile, name: str, far: float) -> bool:
    theirs, ours = (some(each.valid(name), _MOST_NUMBERS) for each in (public, silo))
    if not len(theirs) or not len(ours):
        return False
    apart = distance(theirs, ours)
    return apart > far and not is_by_chance(apart, theirs, ours)


def _width(table: Profile, name: str) -> float:
    quantiles = table.numbers.quantiles[table.numbers.position[name]]
    return float(quantiles[-1] - quantiles[0])


def _apart(one: Text, other: Text) -> float:
    """Half of the sum of differences between the shares of words."""
    shares = [
        dict(zip(text.values.to_pylist(), text.counts / max(1, text.valid), strict=True)) for text in (one, other)
    ]
    return float(
        np.sum([abs(shares[0].get(word, 0) - shares[1].get(word, 0)) for word in {*shares[0], *shares[1]}]) / 2
    )
