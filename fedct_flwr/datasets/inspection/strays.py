"""Numbers of one column that lie apart from all others: codes for a missing value, typing errors, a second unit."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.profile import QUANTILES, Profile
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.types import SiloName

_MANY_NUMBERS: Final = 10
"""Distinct numbers, at most, that may well be names of categories."""
_MOSTLY: Final = 0.5
_FAR: Final = 5.0
"""Times the distance of all others from each other."""
_FAR_ALONE: Final = 0.7
_FAR_OF_SOME: Final = 0.5
_FAR_IN_LOGS: Final = 0.5
_EVEN: Final = 1.5
"""Times as far from the middle as the other end: numbers without a long tail."""
_ENOUGH_CELLS: Final = 50
_SOME_CELLS: Final = 3
_SOME_SHARE: Final = 0.02
_MORE_SHARE: Final = 0.05
_LOST_POINTS: Final = (10, 100, 1000)
_FEWEST_CODES: Final = 2
_MOST_CODES: Final = 4
_FEWEST_OFTEN: Final = 5
_OFTEN: Final = 0.02
_NEAR: Final = 0.1
"""Share of all cells, with numbers next to a code, which it is compared with."""
_FEWEST_GRADES: Final = 4
"""Distinct numbers, the nine among them."""
_HIGHEST_GRADE: Final = 5
_TIMES: Final = 4
_TIMES_NEW: Final = 2
"""The same, of a code that the public set never has."""
_FEWEST_KNOWN: Final = 100
_DIFFERENT: Final = 0.3
"""Distance from one half of how often a record of one group has the larger number."""
_FEWEST_WITNESSES: Final = 2
"""One column may just be the date since which another unit is written."""
_MOST_WITNESSES: Final = 100
_Q10, _Q25, _Q75, _Q90 = (QUANTILES.index(q) for q in (0.1, 0.25, 0.75, 0.9))


def sentinels(profile: Profile, silo: SiloName, say: Words, public: Profile | None = None) -> Iterator[Finding]:
    """Numbers far from all others, and of a form that stands for a missing value: -1, 999, 0.

    Less is needed of a code that the ``public`` set never has.
    """
    numbers = profile.numbers
    rest = numbers.distinct > _MANY_NUMBERS
    spread = numbers.second_largest - numbers.smallest
    width = numbers.quantiles[:, _Q75] - numbers.quantiles[:, _Q25]
    spread_above = numbers.largest - numbers.second_smallest
    enough = np.where(rest, 1, 4) * spread
    above = _are_nines(numbers.largest) & (numbers.largest - numbers.second_largest > enough) & (spread > 0)
    above &= (numbers.at_largest >= 2) | (numbers.largest >= 999)
    below = (numbers.second_smallest >= 0) & (numbers.at_smallest >= 2)
    below &= _are_nines(-numbers.smallest) | (rest & (numbers.smallest == -1))
    below |= rest & _are_nines(-numbers.smallest) & (numbers.second_smallest - numbers.smallest > spread_above)
    # Nobody has a cholesterol of zero: the next number is farther away than most numbers are from each other.
    zero = rest & (numbers.smallest == 0) & (numbers.at_smallest >= 2)
    zero &= (numbers.second_smallest > 1.5 * np.where(width > 0, width, np.inf)) & (
        numbers.at_smallest < numbers.valid / 4
    )
    above |= _next_to_grades(profile, above)
    for mask, values in ((above, numbers.largest), (below | zero, numbers.smallest)):
        for at in np.flatnonzero(mask):
            yield _sentinel(numbers.names[at], [values[at]], "far from all others", silo, say)
    unknown = ~(above | below | zero)
    for at in np.flatnonzero(unknown & (are_codes(numbers.largest) | are_codes(-numbers.smallest))):
        name = numbers.names[at]
        values, cells = np.unique(_valid(profile, name), return_counts=True)
        for sign in (1, -1):
            is_new = public is not None and _never_has(public, name, float(values[-1 if sign > 0 else 0]))
            found = _several(sign * values[::sign], cells[::sign], _TIMES_NEW if is_new else _TIMES)
            if len(found):
                yield _sentinel(name, (sign * found)[::sign].tolist(), "unlike all others", silo, say)


def _next_to_grades(profile: Profile, known: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Columns of grades, 0 or 1 and so on, and of nines in more than half as many cells as the highest grade."""
    numbers = profile.numbers
    grades = ~known & numbers.whole & (numbers.distinct >= _FEWEST_GRADES) & np.isin(numbers.smallest, (0, 1))
    grades &= (numbers.second_largest <= _HIGHEST_GRADE) & _are_nines(numbers.largest)
    # Grades without a gap, and a wide one to the nine.
    grades &= numbers.second_largest - numbers.smallest == numbers.distinct - 2
    grades &= numbers.at_largest >= np.maximum(_FEWEST_OFTEN, _OFTEN * numbers.valid)
    for at in np.flatnonzero(grades):
        highest = np.count_nonzero(_valid(profile, numbers.names[at]) == numbers.second_largest[at])
        grades[at] = numbers.at_largest[at] > highest / 2
    return grades


def _valid(profile: Profile, name: str) -> NDArray[np.float64]:
    cells = profile.valid(name)
    finite: NDArray[np.float64] = cells[np.isfinite(cells)]
    return finite


def _sentinel(name: str, values: Sequence[float], how_far: str, silo: SiloName, say: Words) -> Finding:
    texts = [f"{value:g}" for value in values]
    named = ", ".join(f'"{text}"' for text in texts)
    how = say.set("missing", f"[{named}]") if not say.private else ""
    several = len(texts) > 1
    what = "numbers" if several else "a number"
    if not say.private:
        what = f"the number{'s' if several else ''} {', '.join(texts)}"
    said = (
        f"{say.column(name, silo)} has {what} {how_far}, as if {'they' if several else 'it'} stood for a missing value"
    )
    fix = f"leave the cell empty where nothing is known{f', or {how}' if how else ''}"
    return Finding("missing-as-number", Severity.SAID, said, fix, name, silo)


def _never_has(public: Profile, name: str, value: float) -> bool:
    """Whether a public column of many numbers has all but this one."""
    at = public.numbers.position.get(name)
    if at is None or public.numbers.valid[at] < _FEWEST_KNOWN or public.numbers.distinct[at] <= _MANY_NUMBERS:
        return False
    return not bool((public.valid(name) == value).any())


def _several(values: NDArray[np.float64], cells: NDArray[np.int64], times: int) -> NDArray[np.float64]:
    """The largest numbers if they are codes, several of them or one among the others; ``values`` are sorted.

    The codes lie farther from all others than these from each other, or are the only ones on their side of zero. Or
    each is in many cells, far more than any number near it.
    """
    codes = np.cumprod(are_codes(values[::-1]))[::-1].astype(bool)
    found, rest, of_rest = values[codes], values[~codes], cells[~codes]
    if not len(found) or len(rest) <= _MANY_NUMBERS or cells[codes].sum() < _FEWEST_CODES:
        return np.zeros(0)
    apart = len(found) > 1 and found[0] - rest[-1] > rest[-1] - rest[0]
    other_side = found[0] > 0 >= rest[-1] and len(found) <= _MOST_CODES
    near = of_rest[np.cumsum(of_rest[::-1])[::-1] <= max(_NEAR * cells.sum(), of_rest[-1])]
    often = cells[codes].min() >= max(_FEWEST_OFTEN, _OFTEN * cells.sum(), times * near.max(initial=1))
    codes_alone: NDArray[np.float64] = found if apart or other_side or often else found[:0]
    return codes_alone


def far_numbers(
    profile: Profile, silo: SiloName, say: Words, beside: Mapping[str, tuple[float, float]] | None = None
) -> Iterator[Finding]:
    """A few numbers far from all others, by far more than these from each other.

    ``beside`` has the ranges of another table's columns: what lies in them, or next to them, is not far.
    """
    numbers = profile.numbers
    known = {found.column for found in sentinels(profile, silo, say)}
    width = numbers.quantiles[:, _Q90] - numbers.quantiles[:, _Q10]
    for sign, extreme, tail in ((1, numbers.largest, _Q90), (-1, -numbers.smallest, _Q10)):
        # Most columns end where most of their numbers do, and need no closer look.
        reach = extreme - sign * numbers.quantiles[:, tail]
        for at in np.flatnonzero((numbers.distinct > _MANY_NUMBERS) & (reach > _FAR_OF_SOME * width)):
            name = numbers.names[at]
            if name in known:
                continue
            others = sorted(sign * end for end in (beside or {}).get(name, ()))
            if len(far := _far_end(np.sort(sign * _valid(profile, name)), others)):
                where, amount = say.column(name, silo), say.number(len(far), "cell")
                one = far[0] == far[-1]
                value = f" ({sign * far[0]:g})" if one and not say.private else ""
                said = f"{where} has {'a number' if one else 'numbers'} far from all others{value}, in {amount}"
                fix = "correct it, leave the cell empty, or take a line of sums or means out"
                yield Finding("far-number", Severity.SAID, said, fix, name, silo)


def _far_end(ordered: NDArray[np.float64], others: Sequence[float]) -> NDArray[np.float64]:
    """The largest cells, if a wide gap is below them. ``others`` are the ends of another table's range, if any."""
    most = max(_SOME_CELLS, int(_SOME_SHARE * len(ordered))) if len(ordered) >= _ENOUGH_CELLS else 1
    found = _far_cells(ordered, others, most)
    if len(found) or len(ordered) < _ENOUGH_CELLS:
        return found
    # As of a lost decimal point: more cells, much farther away, and with it among all others.
    found = _far_cells(ordered, others, max(most, int(_MORE_SHARE * len(ordered))), _FAR)
    low, high = ordered[0], ordered[len(ordered) - len(found) - 1]
    lost = any(((found / times >= low) & (found / times <= high)).all() for times in _LOST_POINTS)
    return found if lost else found[:0]


def _far_cells(
    ordered: NDArray[np.float64], others: Sequence[float], most: int, least: float = 0.0
) -> NDArray[np.float64]:
    """The largest cells, ``most`` of them, with a gap below them of ``least`` times the width of all others."""
    size = len(ordered)
    at_end = int(np.count_nonzero(ordered == ordered[-1]))
    if most < at_end < _MOSTLY * size:
        most = at_end
    first = max(0, size - 1 - most)
    steps = np.diff(ordered[first:])
    if least:
        # Next to the width of all others: among far numbers, gaps are wide as well.
        width = ordered[first:-1] - ordered[0]
        steps = np.divide(steps, width, out=np.zeros_like(steps), where=width > 0)
    below = first + int(steps.argmax())
    rest, far = ordered[: below + 1], ordered[below + 1 :]
    low, high, middle = min([rest[0], *others]), max([rest[-1], *others]), rest[len(rest) // 2]
    # Numbers near the largest that there are.
    with np.errstate(over="ignore", invalid="ignore"):
        gap, spread, tail = far[0] - high, high - low, high - middle
        if not spread > 0 or not gap > 0:
            return far[:0]
        if tail <= _EVEN * (middle - low):
            times = _FAR_ALONE if len(far) == 1 else _FAR_OF_SOME
        elif low > 0:
            # As amounts in blood: the gap is to be wide in logarithms as well.
            times = _FAR_ALONE if np.log(far[0] / high) > _FAR_IN_LOGS * np.log(high / low) else np.inf
        else:
            times = _FAR if far[0] == far[-1] else np.inf
            amounts = rest[rest > 0]
            # Costs have long tails, too, and many are zero.
            if low == 0 and len(amounts) and np.log(far[0] / high) <= _FAR_IN_LOGS * np.log(high / amounts[0]):
                times = np.inf
        if size < _ENOUGH_CELLS:
            # Few numbers do not show how far such numbers go.
            times = max(times, _FAR)
        times = max(times, least)
        return far if gap >= times * spread else far[:0]


def two_scales(profile: Profile, silo: SiloName, say: Words) -> Iterator[Finding]:
    """Columns of one table whose numbers are two groups far apart, as of two units."""
    numbers = profile.numbers
    for at in np.flatnonzero(numbers.apart > 0):
        if _are_two_kinds(profile, numbers.names[at], int(numbers.apart[at])):
            continue
        share = say.share(int(numbers.apart[at]), int(numbers.valid[at]), "number")
        said = f"{say.column(numbers.names[at], silo)} has {share} far apart from the others, as of another unit"
        yield Finding("two-scales", Severity.SAID, said, "write all numbers in one unit", numbers.names[at], silo)


def _are_two_kinds(profile: Profile, name: str, smaller: int) -> bool:
    """Whether most other columns differ between the two groups as well: two kinds of flowers, and not two units."""
    numbers = profile.numbers
    values = _cells(profile, name)
    ordered = np.sort(values[~np.isnan(values)])
    below, above = (ordered[end] - ordered[end - 1] for end in (smaller, len(ordered) - smaller))
    limit = ordered[smaller if below > above else len(ordered) - smaller]
    # Columns that are in another unit in the same records are no witnesses.
    others = [other for at, other in enumerate(numbers.names) if other != name and not numbers.apart[at]]
    differ = 0
    for other in others[:_MOST_WITNESSES]:
        cells = _cells(profile, other)
        low, high = np.sort(cells[(values < limit) & ~np.isnan(cells)]), cells[(values >= limit) & ~np.isnan(cells)]
        if len(low) and len(high):
            less = np.searchsorted(low, high, side="left") + np.searchsorted(low, high, side="right")
            differ += abs(float(less.mean()) / (2 * len(low)) - 0.5) > _DIFFERENT
    return differ >= _FEWEST_WITNESSES and differ >= len(others[:_MOST_WITNESSES]) / 2


def _cells(profile: Profile, name: str) -> NDArray[np.float64]:
    """All cells of a column ``(records,)``, with NaN for a missing number."""
    cells = profile.cells(name)
    return np.where(np.isinf(cells), np.nan, cells)


def are_codes(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Nines, and what surveys write along with them: refused, not known, does not apply."""
    more = (7, 8, 66, 97, 98, 555, 666, 997, 9996, 9997, 9998, 99997, 99998)
    found: NDArray[np.bool_] = _are_nines(values) | np.isin(values, more)
    return found


def _are_nines(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """9, 99, 999 and so on, and what comes in the same place, such as 998, 888 and 777."""
    words = (
        99.9,
        999.9,
        99.99,
        9,
        99,
        999,
        9999,
        99999,
        999999,
        9999999,
        99999999,
        999999999,
        88,
        888,
        8888,
        77,
        777,
        7777,
        998,
        997,
        996,
    )
    found: NDArray[np.bool_] = np.isin(values, words)
    return found
