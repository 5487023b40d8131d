"""Numbers that somebody, or a program, has filled in where none was known: zeros, means, medians.

Either the number is in many cells of a silo, and in hardly any of the public set, or in far fewer. Or it stands out in
its own table: it is the mean or the median of all others, and far more frequent than any of these. Or several numbers
do, none of which the public set has: the means of groups, or of classes, which tell the label then.
"""

from collections.abc import Collection, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.profile import Profile
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.types import SiloName

_FEWEST: Final = 20
_FEW_NUMBERS: Final = 10
_MOSTLY: Final = 0.5
_HARDLY: Final = 0.05
_OFTEN: Final = 0.05
_FEWEST_KNOWN: Final = 100
"""Public numbers, at least, which tell that another one is not among them."""
_TIMES: Final = 5
"""So many times as frequent as the next number."""
_FEWEST_OF_ONE: Final = 8
"""Cells of each of several numbers."""
_MOST_TOGETHER: Final = 8
_MOST_NAMED: Final = 3
_NEARLY_ALL: Final = 0.95
_TIMES_UNKNOWN: Final = 3
"""The same, where the public set has none of several."""
_MIDDLE: Final = 0.02
"""Standard deviations from the middle of all others."""


def filled(own: Profile, silo: SiloName, say: Words, public: Profile | None = None) -> Iterator[Finding]:
    """Columns of which a table has often one number, next to the ``public`` set where that is another table."""
    known = set()
    for found in _of_one_number(own, silo, say, public):
        known.add(found.column)
        yield found
    if public is not None:
        yield from _of_several(own, silo, say, public, known)


def _of_one_number(own: Profile, silo: SiloName, say: Words, public: Profile | None) -> Iterator[Finding]:
    numbers = own.numbers
    often = (numbers.valid >= _FEWEST) & (numbers.at_most_frequent >= _OFTEN * numbers.valid)
    for at in np.flatnonzero(often):
        name, value = numbers.names[at], float(numbers.most_frequent[at])
        cells, valid = int(numbers.at_most_frequent[at]), int(numbers.valid[at])
        others = own.valid(name)
        others = others[others != value]
        next_one = np.unique(others, return_counts=True)[1].max(initial=1)
        stands_out = cells >= _TIMES * next_one and len(others) >= _FEWEST
        there, of = (1, 1) if public is None else _known(public, name, value)
        unknown = not there and of >= _FEWEST_KNOWN
        if there <= _HARDLY * of and (cells > _MOSTLY * valid or (unknown and (stands_out or value == 0))):
            what = "which the public set hardly has"
        elif value != 0 and (stands_out or not len(others)) and _is_more(cells / valid, there, of):
            what = "many times as often as the public set has it"
        elif stands_out and numbers.distinct[at] > _FEW_NUMBERS and _is_middle(value, others):
            what = "the mean or the median of its others"
        else:
            continue
        share = say.share(cells, valid)
        said = f"{say.column(name, silo)} has one number{'' if say.private else f' ({value:g})'} in {share}, {what}"
        fix = "leave the cell empty where nothing was measured, or nothing, if that is so"
        yield Finding("repeated-number", Severity.SAID, said, fix, name, silo)


def _of_several(own: Profile, silo: SiloName, say: Words, public: Profile, known: Collection[str]) -> Iterator[Finding]:
    """Columns of which a silo has often a few numbers, none of which the public set has."""
    numbers = own.numbers
    several = (numbers.at_most_frequent >= _FEWEST_OF_ONE) & (numbers.distinct > _FEW_NUMBERS)
    for at in np.flatnonzero(several):
        name = numbers.names[at]
        if name in known or _known(public, name, 0)[1] < _FEWEST_KNOWN:
            continue
        cells = own.cells(name)
        values, counts = np.unique(cells[~np.isnan(cells)], return_counts=True)
        order = np.argsort(-counts, kind="stable")[: _MOST_TOGETHER + 1]
        stands_out = np.flatnonzero(
            counts[order][:-1] >= np.maximum(_FEWEST_OF_ONE, _TIMES_UNKNOWN * counts[order][1:])
        )
        if not len(stands_out) or not stands_out[-1]:
            continue
        found = values[order[: stands_out[-1] + 1]]
        filled_in = np.isin(cells, found)
        # Records of a few families, or of one school, have hardly other numbers.
        share = filled_in.sum() / numbers.valid[at]
        if not _OFTEN <= share <= _MOSTLY or np.isin(public.valid(name), found).any():
            continue
        shown = "" if say.private else f" ({', '.join(f'{value:g}' for value in np.sort(found)[:_MOST_NAMED])})"
        said = f"{say.column(name, silo)} has {len(found)} numbers{shown} in "
        said += f"{say.share(int(filled_in.sum()), int(numbers.valid[at]))}, none of which the public set has"
        fix = "leave the cell empty where nothing was measured"
        if own.y is not None and _tell(cells[filled_in], own.y[filled_in]):
            said += ", each for one class"
            fix += ": means of classes tell the label"
        yield Finding("repeated-number", Severity.SAID, said, fix, name, silo)


def _tell(values: NDArray[np.float64], y: NDArray[np.int64]) -> bool:
    """Whether cells with one number are nearly all of one class, and those of another number of another class."""
    of = [np.bincount(y[values == value]) for value in np.unique(values)]
    return len({int(each.argmax()) for each in of}) > 1 and all(each.max() >= _NEARLY_ALL * each.sum() for each in of)


def _known(public: Profile, name: str, value: float) -> tuple[int, int]:
    """In how many of its cells the public set has a number, and of how many; all, where it has few numbers."""
    at = public.numbers.position.get(name)
    if at is None or public.numbers.valid[at] < _FEWEST or public.numbers.distinct[at] <= _FEW_NUMBERS:
        return 1, 1
    return int(np.count_nonzero(public.valid(name) == value)), int(public.numbers.valid[at])


def _is_more(share: float, there: int, of: int) -> bool:
    """Whether a share is many times that of the public set, where ``there`` of these cells have the number."""
    most = there + 3 * np.sqrt(there + 1) + 3
    return bool(share * of >= _TIMES * most)


def _is_middle(value: float, others: NDArray[np.float64]) -> bool:
    spread = float(others.std())
    return bool(min(abs(others.mean() - value), abs(np.median(others) - value)) <= _MIDDLE * spread) and spread > 0
