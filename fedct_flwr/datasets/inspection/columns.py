"""Findings on a column: text for numbers, row numbers, unknown values, missing or far numbers."""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import bdtrc
from scipy.stats import rankdata

from fedct_flwr.datasets.dates import PLACEHOLDERS, days, likely_forms
from fedct_flwr.datasets.inspection import Finding, Redaction
from fedct_flwr.datasets.inspection.cells import (
    FEWEST,
    MISSING_CODES,
    CellKind,
    Cells,
    Floats,
    Inspected,
    Ints,
    are_dates,
)
from fedct_flwr.datasets.tables import EMPTY
from fedct_flwr.text.printable import quoted
from fedct_flwr.types import SiloName

_CODES: Final = frozenset(MISSING_CODES)
_CHANCE: Final = 0.001
"""Chance below which a finding is no accident."""
_SAME: Final = 0.95
"""Spearman's correlation of a column that is the follow-up again; in two survival tables by silo it is at most 0.62."""
_APART: Final = 0.2
"""Of the width of all other numbers: what a frequent 0 or -1 lies from them, if it means missing."""
_MANY: Final = 10
"""Different numbers; fewer may well be names of categories."""
# A value below the limit of detection, or above a scale.
_BEYOND: Final = re.compile(r"\s*([<>≤≥]|(unter|über|below|above|under|over|bdl|blo[dq]|blq|[lu]lo[dq])\b)", re.I)
_BARE: Final = re.compile("[A-Za-z0-9_-]+")
"""A key that TOML takes without quotation marks."""
_MINUS: Final = re.compile(r"\s*[\u2010-\u2015\u2212\ufe63\uff0d]\s*\d")
"""A number after another minus sign than programs write."""
_THOUSANDS: Final = re.compile(r"\s*[+-]?[1-9]\d{0,2}(,\d{3})+\s*")
# Names that pandas, R and spreadsheets give to a column of row numbers.
_UNNAMED: Final = re.compile(r"\s*|unnamed: ?\d+|index|(__index_)?level_\d+(__)?|\.\.\.\d+|row[._]?names?", re.I)


def of_public(
    column: Inspected, redaction: Redaction, categories: Collection[str], dated: Collection[str]
) -> Iterator[Finding]:
    """Refusals of a public column. ``categories`` hold names even if they look like numbers, ``dated`` columns days."""
    name, cells = column.name, column.public
    if cells is None:
        return
    if cells.kind is CellKind.DATES:
        fix = _remedy(redaction, '"%Y-%m-%d"')
        yield redaction.refused("dates-as-text", name, "", "holds dates", fix, lifted=False)
    elif cells.kind is CellKind.TIMES:
        fix = f"a time of day alone is no date, so give hours as a number, or {redaction.leave_out}"
        yield redaction.refused("dates-as-text", name, "", "holds times of day", fix, lifted=False)
    elif cells.kind is CellKind.TEXT and name not in categories and (found := _number_or_date(cells, name, redaction)):
        yield found
    elif cells.kind is CellKind.TEXT and cells.valid >= FEWEST and cells.distinct >= 0.9 * cells.valid:
        what = f"has {cells.distinct:,} different texts in {cells.valid:,} records, as names, identifiers and free text"
        read = f"{redaction.read_as_text(name)}, or " if cells.sentences and not redaction.private else ""
        yield redaction.refused("one-per-record", name, "", f"{what} have", read + redaction.leave_out)
    elif cells.kind is CellKind.NUMBERS and name not in dated and _are_days(cells):
        what, fix = "holds dates as whole numbers (YYYYMMDD)", _remedy(redaction, '"%Y%m%d"')
        yield redaction.finding("dates-as-text", name, "", what, fix)
    elif cells.kind is CellKind.NUMBERS and name not in dated and _numbers_rows(column, cells):
        several = cells.distinct < cells.records
        what = f"{'' if name.strip() else 'without a name '}numbers the {'patients' if several else 'records'}"
        fix = f"{'name it as group, or ' * several}{redaction.leave_out}"
        yield redaction.refused("index-column", name, "", what, fix)


def of_silo(column: Inspected, silo: SiloName, redaction: Redaction) -> Iterator[Finding]:
    """Refusals of a silo's column, compared with the public one."""
    public, own, name = column.public, column.silos[silo], column.name
    if public is None:
        return
    what = "holds {}, and numbers in the public set"
    if public.kind is CellKind.NUMBERS and own.kind is CellKind.TEXT:
        what = what.format("text") + redaction.example(None, own.first([*own.counts])[0])
        other = redaction.refused("number-as-text", name, silo, what, "write numbers")
        yield _dates(own, name, silo, redaction) or number_as_text(own, name, silo, redaction) or other
    elif public.kind is CellKind.NUMBERS and own.kind in (CellKind.DATES, CellKind.TIMES):
        fix = _remedy(redaction, '"%Y-%m-%d"', silo) if own.kind is CellKind.DATES else "turn them into numbers"
        yield redaction.refused("dates-as-text", name, silo, what.format(own.kind), fix)
    elif public.kind is CellKind.TEXT and own.kind is CellKind.TEXT:
        yield from _unknown(public, own, name, silo, redaction)


def _numbers_rows(column: Inspected, cells: Cells) -> bool:
    """Whether public numbers count records or patients; with gaps, if they go up or down in each silo's table, too."""
    if not cells.valid == cells.records >= FEWEST or (cells.ordered % 1).any():
        return False
    # Consecutive records of one patient share a number. A few numbers in order may be a sorted column. No false alarm
    # on 255 columns of the tables of ``benchmarks.false_alarms``, as they are or sorted by another one.
    numbers, steps = np.asarray(cells.numbers), np.diff(cells.numbers)
    if cells.distinct < cells.records:
        many = cells.distinct >= max(_MANY, cells.records / _MANY)
        return bool(many and numbers[0] in (0, 1) and np.isin(steps, (0, 1)).all())
    ordered = bool(column.silos) and all(_in_order(own) for own in column.tables.values())
    return bool(ordered or (steps == 1).all() or _UNNAMED.fullmatch(column.name))


def _are_days(cells: Cells) -> bool:
    """Whether all numbers are days such as 20240131, from 1900 to 2100."""
    values = cells.tally[0]
    if len(values) < FEWEST or (values % 1).any() or values[0] < 19000101 or values[-1] > 21001231:
        return False
    found = days(pa.chunked_array([values.astype(np.int64)]), "%Y%m%d", "")
    return found is not None and not found.null_count


def _in_order(cells: Cells) -> bool:
    """Whether no number repeats, and each is larger than the one before, or each smaller."""
    steps = np.diff(cells.numbers)
    return cells.kind is CellKind.NUMBERS and bool((steps > 0).all() or (steps < 0).all())


def _number_or_date(cells: Cells, name: str, redaction: Redaction) -> Finding | None:
    """Whether a public text column holds dates, or in half of its cells numbers, however they are written."""
    if found := _dates(cells, name, "", redaction):
        return found
    looks, words = cells.looks, [*cells.counts]
    numbers, bare = _cells(cells, looks.number), cells.valid - _cells(cells, looks.missing)
    if np.count_nonzero(looks.number) <= min(_MANY, bare / 2) or numbers < bare / 2:
        return None
    # Digits with leading zeros, or of one length, are codes.
    digits = bool(looks.plain.all()) and all(word.isdigit() for word in words)
    codes = digits and (len({len(word) for word in words}) == 1 or any(word[0] == "0" for word in words))
    return None if codes else number_as_text(cells, name, "", redaction)


def _dates(cells: Cells, name: str, silo: SiloName, redaction: Redaction) -> Finding | None:
    """Whether 80% of a text column's cells are dates or times of day."""
    found = are_dates(cells.counts)
    if not found.any() or _cells(cells, found) < 0.8 * cells.valid:
        return None
    days = [word for word, is_date in zip(cells.counts, found, strict=True) if is_date]
    (row, word), forms = cells.first(days), likely_forms(days)
    fix = _remedy(redaction, " or ".join(f'"{form}"' for form in forms or ()), silo)
    what = f"holds dates{redaction.example(word, row)}"
    return redaction.refused("dates-as-text", name, silo, what, fix, lifted=not forms)


def _remedy(redaction: Redaction, forms: str, silo: SiloName = "") -> str:
    how = redaction.set("dates", forms, silo) if forms else ""
    return f"turn them into numbers, such as an age{how}, or {redaction.leave_out}"


def number_as_text(cells: Cells, name: str, silo: SiloName, redaction: Redaction) -> Finding | None:
    """The finding that some cells of a column of numbers are text, with the mend that fits most of them."""
    if cells.kind is not CellKind.TEXT or not cells.looks.number.any():
        return None
    looks, words, fix = cells.looks, np.array([*cells.counts], dtype=object), "turn it into numbers"
    bad, beyond = ~looks.plain, np.array([bool(_BEYOND.match(word)) for word in words])
    # Text that looks like a number, or marks a missing one, may be quoted: it is not a name.
    known = looks.comma | looks.bound | looks.missing
    shown = known if known.any() else bad if bad.any() else looks.plain
    if _cells(cells, looks.comma) > _cells(cells, bad) / 2:
        shown, how = looks.comma, redaction.set("decimal", '","', silo)
        how *= not any(0 <= word.find(",") < word.find(".") for word in words[looks.comma])
        fix = f"write a point as the decimal sign, and no marks between thousands{how}"
        if all(map(_THOUSANDS.fullmatch, words[looks.comma])):
            # With a decimal comma, 1,819 would be read as 1.819.
            fix = "take the marks between thousands out, or write a point where the comma is the decimal sign"
    elif bad.any():
        # A cell that holds a number, such as 2+, is no missing one.
        empty = bad & ~beyond & ~looks.number
        named = [] if redaction.private else words[empty & looks.missing].tolist()
        how = _set_missing(name, named, silo, redaction) if 0 < empty.sum() <= 3 else ""
        fix = "write only numbers there" + ", and for a value beyond a limit the limit itself" * bool(beyond.any())
        fix += ", with a hyphen as the minus sign" * any(map(_MINUS.match, words))
        fix += f", or leave the cells empty{how}" if empty.any() else ""
    if not silo and not beyond.any() and (how := redaction.set("categories", f'["{name}"]')):
        fix += f"{how} if it holds codes"
    row, word = cells.first(words[shown].tolist())
    quote = bool((looks.number | looks.missing)[shown].any())
    share, example = redaction.share(_cells(cells, bad), cells.valid), redaction.example(word if quote else None, row)
    text = f", and {share} are text{example}"
    return redaction.refused("number-as-text", name, silo, f"holds numbers{text if bad.any() else ' as text'}", fix)


def _unknown(public: Cells, own: Cells, name: str, silo: SiloName, redaction: Redaction) -> Iterator[Finding]:
    """Values unknown in public: said from 5% of the cells, with a chance below 0.1%; refused from 95%."""
    values = {word: cells for word, cells in own.counts.items() if word not in public.counts}
    cells = sum(values.values())
    # The chance that one more public value would be a new one, by the values that occur once (Good 1953).
    chance = (sum(number == 1 for number in public.counts.values()) + 1) / (public.valid + 1)
    if cells > 0.05 * own.valid and bdtrc(cells - 1, own.valid, chance) <= _CHANCE:
        share = redaction.share(cells, own.valid)
        what = f"has values that the public set does not have, in {share}{redaction.values(values)}"
        fix = f"write them as the public set does{redaction.values(public.counts)}, or {redaction.leave_out}"
        make = redaction.refused if cells >= 0.95 * own.valid else redaction.finding
        yield make("unknown-values", name, silo, what, fix)


def empty(column: Inspected, redaction: Redaction) -> Iterator[Finding]:
    """Tables without any value where others have some, beyond chance (0.1%). Text needs a public set with values."""
    records, valid = (sum(getattr(cells, of) for cells in column.tables.values()) for of in ("records", "valid"))
    is_text = any(cells.kind is CellKind.TEXT for cells in column.tables.values())
    for silo, cells in column.tables.items():
        # The chance of one more missing cell, by those of all other tables.
        chance = (records - cells.records - valid + 1) / (records - cells.records + 1)
        if cells.kind is CellKind.NOTHING and valid and chance**cells.records <= _CHANCE:
            what, fix = "has no value, and values in other tables", f"export it again, or {redaction.leave_out}"
            if is_text and not silo:
                yield redaction.refused("column-missing", column.name, silo, what, fix, lifted=False)
            else:
                yield redaction.finding("column-missing", column.name, silo, what, fix)


def lost(column: Inspected, redaction: Redaction) -> Iterator[Finding]:
    """Text columns with missing cells where another table has a word that CSV and Excel files cannot have, as 'NA'."""
    words = {word for cells in column.tables.values() if cells.words for word in EMPTY if word in cells.counts}
    for silo, cells in column.tables.items():
        if cells.kind is CellKind.TEXT and cells.valid < cells.records and (others := words - cells.counts.keys()):
            what = f"has missing cells, and {quoted(min(others))} is a value in another table"
            fix = "write a longer word for it in all tables, or leave its cells empty"
            yield redaction.finding("missing-as-number", column.name, silo, what, fix)


def suspicious(column: Inspected, redaction: Redaction, categories: bool, dated: bool = False) -> Iterator[Finding]:
    """All that is suspicious of a column in some table, each thing at most once a table; ``dated``: days since 1970."""
    of_numbers = column.of_numbers
    shown: Any = (lambda day: str(np.datetime64(int(day // 1), "D"))) if dated else "{:.15g}".format
    for silo, cells in column.tables.items():
        if of_numbers:
            if found := _placeholders(cells) if dated else _sentinels(column, silo):
                yield _sentinel(column.name, [*map(shown, found)], silo, redaction)
            else:
                yield from _far_numbers(column, silo, redaction, shown)
        elif cells.kind is CellKind.TEXT:
            # Numbers such as 999 where all other values are words.
            words = [word for word in cells.counts if re.fullmatch(r"\s*(-?(9{1,5}|8{2,5}|7{2,5})|-1)\s*", word)]
            others = [word for word in cells.counts if word not in words]
            if not categories and words and len(others) > 1 and not any(map(str.isdigit, "".join(others))):
                yield _sentinel(column.name, words[:3], silo, redaction)


def following(
    column: Inspected, times: Mapping[SiloName, Cells], label: str, redaction: Redaction
) -> Iterator[Finding]:
    """Columns that rank a silo's records as the ``times`` of follow-up do, such as these times in another unit."""
    for silo, cells in column.silos.items() if column.of_numbers and times else ():
        there = ~(np.isnan(cells.numbers) | np.isnan(times[silo].numbers))
        ranks = [rankdata(each.numbers[there]) for each in (cells, times[silo])]
        # A constant has no correlation.
        with np.errstate(invalid="ignore"):
            if there.sum() >= FEWEST and np.corrcoef(*ranks)[0, 1] > _SAME:
                what = f"ranks the records as the follow-up {quoted(label)} does, which makes scores too good"
                yield redaction.finding("follow-up-as-feature", column.name, silo, what, redaction.leave_out)


def _sentinel(name: str, values: Sequence[str], silo: SiloName, redaction: Redaction) -> Finding:
    how = "" if redaction.private else _set_missing(name, values, silo, redaction)
    kind = "a date" if "-" in values[0][1:] else "a number"
    what = f"has {kind if redaction.private else ', '.join(values)} where a value seems to be missing"
    return redaction.finding("missing-as-number", name, silo, what, f"leave the cell empty where nothing is known{how}")


def _set_missing(name: str, values: Sequence[str], silo: SiloName, redaction: Redaction) -> str:
    """Advice that these cells of a column mean a missing value, and of no other column: lines of two columns add up."""
    key = name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)
    listed = ", ".join(json.dumps(value, ensure_ascii=False) for value in values) or "..."
    return redaction.set("missing", f"[{listed}]", silo, f".{key}")


def _placeholders(cells: Cells) -> list[float]:
    """Dates that stand for a missing one: far from all others, or four times as frequent as any of them."""
    values, often = cells.tally
    codes = np.isin(np.floor(values), PLACEHOLDERS)
    rest, there = values[~codes], often[~codes]
    if len(rest) < 2:
        return []
    far = np.maximum(rest[0] - values, values - rest[-1]) > rest[-1] - rest[0]
    return sorted({*np.floor(values[codes & (far | (often >= max(5, 0.02 * cells.valid, 4 * there.max())))]).tolist()})


def _sentinels(column: Inspected, silo: SiloName) -> list[float]:
    """Codes at an end of a table's numbers, far from the others or far more frequent; or alone in being negative."""
    found: list[float] = []
    values, cells = column.tables[silo].tally
    smallest = column.ends_of_others(silo).smallest_of_many
    for sign in (1, -1):
        ordered, often = (values, cells) if sign > 0 else (-values[::-1], cells[::-1])
        codes = _CODES if sign > 0 else _CODES | {0, 1}
        # The largest numbers that are codes, or only the last of them: 77 may be an amount, next to 999.
        most = sum(1 for _ in takewhile(codes.__contains__, map(float, ordered[::-1])))
        positive = sign < 0 and 0 <= smallest < np.inf
        for few in range(most, 0, -1):
            stands_out = _stand_out(ordered[-few:], often[-few:], ordered[:-few], often[:-few], alone=positive)
            # One cell alone may be a slip of the pen: it counts where other tables hold the same code.
            if stands_out and (often[-few:].sum() > 1 or column.tables_with[float(sign * ordered[-1])] > 1):
                found += (sign * ordered[-few:]).tolist()
                break
    return sorted(found)


def _stand_out(codes: Floats, often: Ints, rest: Floats, there: Ints, *, alone: bool) -> bool:
    """Whether codes, the largest numbers, lie far from the rest, or are four times as frequent as the nearest tenth.

    ``alone``: it is enough that they are negative, and the rest is not; numbers are with the opposite sign then.
    """
    if len(rest) < 2 or (codes[0] == 0 and (len(rest) < _MANY or often.sum() > there.sum())):
        return False
    if codes[0] - rest[-1] > rest[-1] - rest[0] or (alone and codes[0] > 0 >= rest[-1]):
        return True
    cells = int(often.sum() + there.sum())
    near = there[np.cumsum(there[::-1])[::-1] <= max(0.1 * cells, there[-1])]
    # Amounts and counts may well be 0, where others are near it.
    apart = abs(codes[0]) > 1 or codes[0] - rest[-1] > _APART * (rest[-1] - rest[0])
    return bool(often.min() >= max(5, 0.02 * cells, 4 * near.max(initial=1)) and len(rest) > _MANY and apart)


def _far_numbers(column: Inspected, silo: SiloName, redaction: Redaction, shown: Any) -> Iterator[Finding]:
    """Up to half of a table's numbers beyond a gap of 0.7 times the width of all others; or negative ones alone."""
    own = column.tables[silo].ordered
    others = column.ends_of_others(silo)
    if len(own) + others.records < 50 or len(own) < 2:
        return
    for sign in (1, -1):
        ordered = own if sign > 0 else -own[::-1]
        first = max(1, min(len(own) - 3, (len(own) + 1) // 2))
        at = first + int(np.diff(ordered[first - 1 :]).argmax())
        far, rest = ordered[at:], ordered[:at]
        low, high = (others.smallest, others.largest) if sign > 0 else (-others.largest, -others.smallest)
        negative = sign < 0 < far[0] and others.smallest > others.middle / 4 > 0
        if negative or _is_far(float(far[0]), min(rest[0], low), float(np.median(rest)), max(rest[-1], high)):
            value = f" ({shown(sign * far[0])})" if far[0] == far[-1] and not redaction.private else ""
            what = f"has numbers far from all others{value}, in {redaction.number(len(far), 'cell')}"
            fix = "check unit and sign, correct them, leave the cells empty, or take a line of sums out"
            yield redaction.finding("far-number", column.name, silo, what, fix)


def _is_far(far: float, low: float, middle: float, high: float) -> Any:
    """Whether the gap is wide, also in logarithms where the numbers have a long tail, as amounts in blood."""
    wide = high > low and far - high >= 0.7 * (high - low)
    return wide and (high - middle <= 2 * (middle - low) or (low > 0 and np.log(far / high) > 0.7 * np.log(high / low)))


def _cells(cells: Cells, mask: NDArray[np.bool_]) -> int:
    """How many cells hold one of the different values that the mask chooses."""
    return int(np.array([*cells.counts.values()])[mask].sum())
