"""Numbers that end at a limit: of a device that measures no more, of detection, or of somebody who wrote 'at most'.

At a silo the largest number, or the smallest, is in many cells. In the public set it is in few, and as many cells as
the limit hides have many different numbers beyond it. Of patients who differ, the shares would not agree.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.profile import Profile
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.types import SiloName

_FEWEST: Final = 100
_FEW_NUMBERS: Final = 10
_FEWEST_BEYOND: Final = 4
"""Distinct public numbers beyond the limit."""
_SHARE: Final = 0.04
_SELDOM: Final = 1 / 3
"""Of the silo's share, the public set's."""
_FAR: Final = 6.0
_NEAR: Final = 3.0
"""Standard errors."""

_Floats = NDArray[np.float64]


def limited(public: Profile, silo: Profile, name: SiloName, say: Words) -> Iterator[Finding]:
    """Columns of a silo whose numbers end where the public set's go on."""
    theirs, ours = public.numbers, silo.numbers
    for column, there in theirs.position.items():
        here = ours.position.get(column)
        if (
            here is None
            or min(theirs.valid[there], ours.valid[here]) < _FEWEST
            or min(theirs.distinct[there], ours.distinct[here]) <= _FEW_NUMBERS
        ):
            continue
        for sign, at_end, what in ((1, ours.at_largest, "largest"), (-1, ours.at_smallest, "smallest")):
            if at_end[here] < _SHARE * ours.valid[here]:
                continue
            own, others = (np.sort(sign * each.valid(column)) for each in (silo, public))
            if _ends(own, others):
                value = "" if say.private else f" ({sign * own[-1]:g})"
                share = say.share(int(at_end[here]), len(own))
                said = (
                    f"{say.column(column, name)} has its {what} number{value} in {share}, and the public set goes on "
                    "beyond it in as many"
                )
                fix = "check the limit of the device or of detection, or leave these cells empty"
                yield Finding("repeated-number", Severity.SAID, said, fix, column, name)


def _ends(own: _Floats, others: _Floats) -> bool:
    """Whether sorted numbers pile up at their largest one, as those of the others do that lie beyond the next one."""
    limit = own[-1]
    next_one = own[np.searchsorted(own, limit) - 1]
    piled = float((own == limit).mean())
    beyond, there = others[others > next_one], float((others == limit).mean())
    error = np.sqrt(1 / len(own) + 1 / len(others))
    share, both = len(beyond) / len(others), (piled + there) / 2
    return bool(
        len(np.unique(beyond)) >= _FEWEST_BEYOND
        and there <= _SELDOM * piled
        and piled - there >= _FAR * np.sqrt(both * (1 - both)) * error
        and abs(piled - share) <= _NEAR * np.sqrt(max(piled, share) * (1 - min(piled, share))) * error
    )
