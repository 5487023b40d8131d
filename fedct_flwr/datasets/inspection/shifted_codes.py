"""Codes that begin at another number than the public set's: 0, 1, 2 for 1, 2, 3, as programs write categories."""

from collections.abc import Collection, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.profile import Profile
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.types import SiloName

_MOST_CODES: Final = 12
_FEWEST_CODES: Final = 3
_FEWEST: Final = 60
_OFTEN: Final = 0.02
"""Share of the code that is new at one end."""
_FAR: Final = 0.2
_NEAR: Final = 0.1
_NEARER: Final = 0.25
"""Of the distance of the codes as they are, once each is moved by one."""


def shifted_codes(
    public: Profile, silo: Profile, name: SiloName, say: Words, known: Collection[str]
) -> Iterator[Finding]:
    """Columns of a few whole numbers, each of which is one more or one less than in the public set."""
    theirs, ours = public.numbers, silo.numbers
    few = theirs.whole & (theirs.distinct >= _FEWEST_CODES) & (theirs.distinct <= _MOST_CODES)
    for at in np.flatnonzero(few & (theirs.valid >= _FEWEST)):
        column = theirs.names[at]
        here = ours.position.get(column)
        if here is None or column in known or not ours.whole[here] or ours.valid[here] < _FEWEST:
            continue
        codes, own = public.valid(column), silo.valid(column)
        for by, what in ((-1, "less"), (1, "more")):
            if _is_moved(codes, own, by):
                said = f"{say.column(column, name)} has the codes of the public set, but each is one {what}"
                fix = "check at which number its codes begin"
                yield Finding("other-scale", Severity.SAID, said, fix, column, name)


def _is_moved(codes: NDArray[np.float64], own: NDArray[np.float64], by: int) -> bool:
    """Whether each code is as frequent as its neighbor in the public set, and as its own one is not there."""
    new, lacking = (codes.min() - 1, codes.max()) if by < 0 else (codes.max() + 1, codes.min())
    if np.mean(own == new) < _OFTEN or (own == lacking).any():
        return False
    apart = _distance(codes, own)
    return apart >= _FAR and _distance(codes, own - by) <= min(_NEARER * apart, _NEAR)


def _distance(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """The total variation between the frequencies of two columns' codes."""
    values = np.union1d(one, other)
    return sum(abs(float(np.mean(one == value)) - float(np.mean(other == value))) for value in values.tolist()) / 2
