"""What is suspicious of a column: spellings, numbers that stand for none, far numbers, a single value."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from fedct_flwr.datasets.inspection.cells import FEWEST, TESTED, Cells, Column, Floats, Ints, Kind
from fedct_flwr.datasets.inspection.finding import Finding, Severity, Words
from fedct_flwr.datasets.inspection.spelling import twice_named, without_accents
from fedct_flwr.types import SiloName

_CODES: Final = (
    *(7, 8, 9, 66, 77, 88, 97, 98, 99, 99.9, 99.99, 555, 666, 777, 888, 996, 997, 998, 999, 999.9, 8888, 9996, 9997),
    *(9998, 9999, 99997, 99998, 99999, 999999, 9999999, 99999999, 999999999),
)
"""Numbers that stand for a missing value, positive or negative; 0 and -1 do, too."""
_WORDS: Final = re.compile(r"-?(9{1,5}|8{2,5}|7{2,5})|-1")
_OFTEN: Final = 4
"""Times as frequent as its neighbors, from which a code at the end of a column stands for a missing value."""
_NEIGHBORS: Final = 0.1
_MANY: Final = 10
_SHARE: Final = 0.02
_FAR: Final = 0.7
"""Gap of far numbers from all others, by the width of all others."""
_MOST_FAR: Final = 0.5
_FEW_FAR: Final = 3
_ENOUGH: Final = 50
_FAR_FROM_ZERO: Final = 0.25
_BY_CHANCE: Final = 1e-6
"""Chance, at most, that a table has one value alone where all others vary."""


def of_column(column: Column, say: Words, categories: bool) -> Iterator[Finding]:
    """All that is suspicious of a column in some table, each thing at most once a table."""
    yield from _constant(column, say)
    for silo, cells in column.tables.items():
        if column.of_numbers:
            if found := _sentinels(column, silo):
                yield _sentinel(column.name, [f"{value:g}" for value in found], silo, say)
            else:
                yield from _far_numbers(column, silo, say)
        elif cells.kind is Kind.TEXT:
            if not categories:
                yield from _nines(column.name, cells, silo, say)
            if column.public is None or column.public.kind is Kind.TEXT:
                yield from _spellings(column, silo, say)


def _spellings(column: Column, silo: SiloName, say: Words) -> Iterator[Finding]:
    """Words that differ in case, blanks, accents or the word for truth or sex alone, here or from public ones."""
    public, own, name = column.public, column.tables[silo], column.name
    both = {**(public.counts if silo and public else {}), **own.counts}
    if own.distinct > own.valid / 2:
        return
    first: dict[str, str] = {}
    pairs = [twice_named(both)]
    pairs += [(other, word) for word in both if (other := first.setdefault(without_accents(word), word)) != word]
    for pair in filter(None, pairs):
        if not own.counts.keys().isdisjoint(pair) and (not silo or not public or pair[1] not in public.counts):
            said = f"{say.column(name, silo)} has values that differ in spelling alone"
            said += say.values({word: both[word] for word in pair})
            yield Finding("value-spellings", Severity.SAID, said, "write each value in one way", name, silo)
            return


def _nines(name: str, cells: Cells, silo: SiloName, say: Words) -> Iterator[Finding]:
    """Numbers such as 999 where all other values are words."""
    words = [word for word in cells.counts if _WORDS.fullmatch(word.strip())]
    others = [word for word in cells.counts if word not in words]
    if words and len(others) > 1 and not any(char.isdigit() for word in others for char in word):
        yield _sentinel(name, words[:3], silo, say)


def _sentinel(name: str, values: Sequence[str], silo: SiloName, say: Words) -> Finding:
    named = ", ".join(f'"{value}"' for value in values)
    how = "" if say.private else say.set("missing", f"[{named}]")
    what = "a number" if say.private else ", ".join(values)
    said = f"{say.column(name, silo)} has {what} where a value seems to be missing"
    fix = f"leave the cell empty where nothing is known{how}"
    return Finding("missing-as-number", Severity.SAID, said, fix, name, silo)


def _sentinels(column: Column, silo: SiloName) -> list[float]:
    """Codes at an end of a table's numbers: farther from all others than these from each other, or far more often.

    A negative code also counts where no other table has negative numbers.
    """
    found: list[float] = []
    values, cells = column.tables[silo].tally
    others = [other.ordered for other in column.others(silo) if other.valid >= FEWEST]
    for sign in (1, -1):
        ordered, often = (values, cells) if sign > 0 else (-values[::-1], cells[::-1])
        codes = np.isin(ordered, _CODES) | ((sign < 0) & ((ordered == 1) | (ordered == 0)))
        # The largest numbers that are codes, or only the last of them: 77 may be an amount, next to 999.
        most = int(np.cumprod(codes[::-1]).sum())
        positive = sign < 0 and bool(others) and all(each[0] >= 0 for each in others)
        for few in range(most, 0, -1):
            if _stand_out(ordered[-few:], often[-few:], ordered[:-few], often[:-few], alone=positive):
                found += (sign * ordered[-few:]).tolist()
                break
    return sorted(found)


def _stand_out(codes: Floats, often: Ints, rest: Floats, there: Ints, *, alone: bool) -> bool:
    """Whether codes, the largest numbers, lie far from the rest, or are far more frequent than the nearest of them.

    ``alone``: it is enough that they are negative, and the rest is not; numbers are with the opposite sign then.
    """
    if len(rest) < 2 or often.sum() < 2 or (codes[0] == 0 and (len(rest) < _MANY or often.sum() > there.sum())):
        return False
    if codes[0] - rest[-1] > rest[-1] - rest[0] or (alone and codes[0] > 0 >= rest[-1]):
        return True
    cells = int(often.sum() + there.sum())
    near = there[np.cumsum(there[::-1])[::-1] <= max(_NEIGHBORS * cells, there[-1])]
    piled = often.min() >= max(5, _SHARE * cells, _OFTEN * near.max(initial=1))
    return bool(piled and len(rest) > _MANY and abs(codes[0]) > 1)


def _far_numbers(column: Column, silo: SiloName, say: Words) -> Iterator[Finding]:
    """Up to half of a table's numbers beyond a gap of 0.7 times the width of all others; or negative ones alone."""
    own = column.tables[silo].ordered
    others = [other.ordered for other in column.others(silo) if other.valid]
    if len(own) + sum(map(len, others)) < _ENOUGH or len(own) < 2:
        return
    for sign in (1, -1):
        ordered = own if sign > 0 else -own[::-1]
        first = max(1, len(ordered) - max(_FEW_FAR, int(_MOST_FAR * len(ordered))))
        at = first + int(np.diff(ordered[first - 1 :]).argmax())
        far, rest = ordered[at:], ordered[:at]
        ends = [rest[0], rest[-1], *(sign * end for each in others for end in (each[0], each[-1]))]
        near = min((float(each[0]) for each in others), default=0.0)
        middle = min((float(each[len(each) // 2]) for each in others), default=0.0)
        negative = sign < 0 < far[0] and near > _FAR_FROM_ZERO * middle > 0
        if negative or _is_far(float(far[0]), min(ends), float(np.median(rest)), max(ends)):
            value = f" ({sign * far[0]:g})" if far[0] == far[-1] and not say.private else ""
            said = f"{say.column(column.name, silo)} has numbers far from all others{value}, in "
            fix = "check unit and sign, correct them, leave the cells empty, or take a line of sums out"
            yield Finding("far-number", Severity.SAID, said + say.number(len(far), "cell"), fix, column.name, silo)


def _is_far(far: float, low: float, middle: float, high: float) -> bool:
    """Whether the gap is wide, also in logarithms where the numbers have a long tail, as amounts in blood."""
    if high <= low or far - high < _FAR * (high - low):
        return False
    if high - middle <= 2 * (middle - low):
        return True
    return low > 0 and bool(np.log(far / high) > _FAR * np.log(high / low))


def _constant(column: Column, say: Words) -> Iterator[Finding]:
    """A column with one value in all tables, or in one table where it is no chance that the others have others."""
    shown = {
        silo: cells for silo, cells in column.tables.items() if cells.valid >= FEWEST and not silo.endswith(TESTED)
    }
    alone = {silo: next(iter(cells.counts)) for silo, cells in shown.items() if cells.distinct == 1}
    if len(alone) == len(shown) > 0 and len({*alone.values()}) == 1:
        said = f"column {column.name!r} has the same value wherever it has one"
        fix = "take it out of all tables: it tells nothing"
        yield Finding("constant-column", Severity.SAID, said, fix, column.name)
        return
    for silo, value in alone.items():
        others = [cells for other, cells in shown.items() if other != silo]
        number, total = sum(own.counts.get(value, 0) for own in others), sum(own.valid for own in others)
        share = (number + 1) / (total + 1)
        # A text that is nowhere else is unknown, and a number that is nowhere else is of another scale.
        if (number or not silo) and share ** shown[silo].valid < _BY_CHANCE:
            said = f"{say.column(column.name, silo)} has a single value, and {say.elsewhere} has others in "
            fix = "write the values, or take the column out of all tables"
            said += f"{1 - share:.0%} of the records"
            yield Finding("constant-column", Severity.SAID, said, fix, column.name, silo)
