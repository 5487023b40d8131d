"""Cells that are filled in for one class alone, or a value that no other class has: known only once the label is.

A biopsy is graded where there is a tumor, and a treatment is given to the ill. Such a column tells the label of some
records only, and no rule that tells all of them. Chance does not leave every other class without one such cell in many.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.profile import Profile
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.text.printable import quoted
from fedct_flwr.types import SiloName

_FEWEST: Final = 30
_SHARE: Final = 0.3
"""Of the class's records."""
_BY_CHANCE: Final = 1e-9
_USUAL: Final = 0.65
"""Of a value: one of two classes that exclude each other, such as two diagnoses, is often the usual one."""
_FEW_SILOS: Final = 20
_FEW_NUMBERS: Final = 6
"""Distinct numbers, at most, that are signs and grades: the largest amounts occur with an illness alone."""
_EMPTY: Final = 0.6
"""Difference of the shares of empty cells between classes."""

_Counts = NDArray[np.int64]


def one_sided(
    silos: Mapping[SiloName, Profile], names: list[str], label: str, say: Words, known: Collection[str] = ()
) -> Iterator[Finding]:
    """Columns that are filled in, or have some value, for one class alone; ``names`` are the classes."""
    profiles = {silo: own for silo, own in silos.items() if own.y is not None}
    if not profiles or len(names) < 2:
        return
    every = [*profiles.values()]
    for column in every[0].kinds:
        if column in known or any(column not in own.kinds for own in every):
            continue
        what = _filled(every, column, names, say) or _of_values(every, column, names, say)
        places = [("", what)] if what else []
        if not what and 1 < len(profiles) <= _FEW_SILOS:
            places = [(silo, _filled([own], column, names, say)) for silo, own in profiles.items()]
        for silo, what in places:
            if what:
                where = f"column {quoted(column)}{f' at silo {silo}' if silo else ''}"
                fix = f"take it out of all tables if it is known only after {quoted(label)} is"
                yield Finding("tells-the-label", Severity.SAID, f"{where} {what}", fix, column, silo)


def _total(profiles: list[Profile], classes: int) -> _Counts:
    total: _Counts = np.sum([np.bincount(np.asarray(own.y), minlength=classes) for own in profiles], axis=0)
    return total


def _filled(profiles: list[Profile], column: str, names: list[str], say: Words) -> str:
    """For which class a column is filled in; nothing if for all."""
    total = _total(profiles, len(names))
    filled = np.sum([_of_class(own, column, len(names)) for own in profiles], axis=0)
    if (at := _alone(filled, total)) is not None:
        return f"is filled in for {_class(names[at], say)} alone"
    if (at := _mostly(filled, total)) is not None:
        return f"is mostly filled in for {_class(names[at], say)}, and mostly empty for others"
    return ""


def _of_values(profiles: list[Profile], column: str, names: list[str], say: Words) -> str:
    """Which value one class alone has; nothing if none."""
    total = _total(profiles, len(names))
    for value, at in _values(profiles, column, total):
        return f"has a value{say.values({value: _FEWEST})} that occurs with {_class(names[at], say)} alone"
    return ""


def _class(name: str, say: Words) -> str:
    return "one class" if say.private else f"class {quoted(name)}"


def _of_class(own: Profile, column: str, classes: int) -> _Counts:
    """Cells with a value, by class."""
    if not own.missing(column):
        return np.bincount(np.asarray(own.y), minlength=classes)
    there = pc.is_valid(own.columns[column]).to_numpy()
    if column in own.numbers.position:
        there = ~np.isnan(own.cells(column))
    return np.bincount(np.asarray(own.y)[there], minlength=classes)


def _alone(cells: _Counts, total: _Counts) -> int | None:
    """The class to which all of many cells belong, as they do not by chance; None without one."""
    at, many = int(cells.argmax()), int(cells.sum())
    if many < _FEWEST or cells[at] != many or many < _SHARE * total[at] or many == total.sum():
        return None
    return at if many * np.log(max(total[at], 1) / total.sum()) < np.log(_BY_CHANCE) else None


def _mostly(cells: _Counts, total: _Counts) -> int | None:
    """The class of which far more cells are filled than of each other one; None without one."""
    share = cells / np.maximum(1, total)
    order = np.argsort(share)
    enough = total[order[-2:]].min() >= _FEWEST
    return int(order[-1]) if enough and share[order[-1]] - share[order[-2]] >= _EMPTY else None


def _values(profiles: list[Profile], column: str, total: _Counts) -> Iterator[tuple[str, int]]:
    """Values of a column of a few words or numbers that one class alone has."""
    counts: dict[str, _Counts] = {}
    for own in profiles:
        crossed: dict[str, _Counts] = {}
        if column in own.texts and own.texts[column].by_class is not None:
            values = own.texts[column].values.to_pylist()
            crossed = dict(zip(values, np.asarray(own.texts[column].by_class), strict=True))
        elif column in own.numbers.position and own.distinct(column) <= _FEW_NUMBERS:
            cells, y = own.cells(column), np.asarray(own.y)
            every = np.unique(cells[~np.isnan(cells)])
            crossed = {f"{value:g}": np.bincount(y[cells == value], minlength=len(total)) for value in every}
        for value, of_class in crossed.items():
            counts[value] = counts.get(value, np.zeros(len(total), dtype=np.int64)) + of_class
    for value, of_class in counts.items():
        if (at := _alone(of_class, total)) is not None and total[at] <= _USUAL * total.sum():
            yield value, at
