"""Two columns each of which has the numbers of the other one in the public set: they have changed places.

Where other columns go with the two, it is found by that (``company``). Here it is their distributions that tell: each
is far from its own in the public set, and is no other than that of the other column.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection.distributions import distance, is_by_chance, some
from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.profile import Profile
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.text.printable import quoted
from fedct_flwr.types import SiloName

_FEWEST: Final = 60
_MOST_COLUMNS: Final = 60
_FEW_NUMBERS: Final = 10
"""Distinct numbers, at most, that many columns have alike: zeros and ones."""
_FAR: Final = 0.25
_TIMES: Final = 3.0
"""So many times as far from its own as from the other's."""
_MOST_NUMBERS: Final = 2000

_Floats = NDArray[np.float64]


def exchanged(public: Profile, silo: Profile, name: SiloName, say: Words) -> Iterator[Finding]:
    """Pairs of columns that have each other's distributions."""
    theirs, ours = public.numbers, silo.numbers
    samples: dict[str, tuple[_Floats, _Floats]] = {}
    for column in theirs.names[:_MOST_COLUMNS]:
        there, here = theirs.position[column], ours.position.get(column)
        if (
            here is not None
            and min(theirs.valid[there], ours.valid[here]) >= _FEWEST
            and theirs.distinct[there] > _FEW_NUMBERS
        ):
            samples[column] = some(public.valid(column), _MOST_NUMBERS), some(silo.valid(column), _MOST_NUMBERS)
    far = [column for column, pair in samples.items() if distance(*pair) > _FAR]
    taken: set[str] = set()
    for a, b in combinations(far, 2):
        if {a, b} & taken or not (_is(samples, a, b) and _is(samples, b, a)):
            continue
        taken |= {a, b}
        said = f"{say.column(a, name)} has the numbers that {quoted(b)} has in the public set, and vice versa"
        yield Finding("swapped-columns", Severity.SAID, said, "check whether the two have changed places", a, name)


def _is(samples: dict[str, tuple[_Floats, _Floats]], a: str, b: str) -> bool:
    """Whether a silo's column has the distribution of another one, and not its own."""
    own, other, mine = samples[a][0], samples[b][0], samples[a][1]
    near = distance(other, mine)
    return is_by_chance(near, other, mine) and distance(own, mine) > _TIMES * near
