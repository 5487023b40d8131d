"""What is refused of a column: numbers, dates or identifiers as text, row numbers, and values unknown in public."""

import re
from collections.abc import Collection, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc

from fedct_flwr.datasets.dates import likely_forms
from fedct_flwr.datasets.inspection.cells import FEWEST, Cells, Column, Kind
from fedct_flwr.datasets.inspection.finding import Finding, Severity, Words
from fedct_flwr.datasets.inspection.spelling import are_dates
from fedct_flwr.types import SiloName

_NUMBERS: Final = 0.5
"""Share of a text column's cells that are numbers in some spelling, from which they all should be."""
_NEARLY_ALL: Final = 0.8
"""Share of cells from which a text column holds dates."""
_ONCE: Final = 0.9
"""Different values per cell from which a text column holds names, identifiers or free text."""
_UNKNOWN: Final = 0.95
"""Share of a silo's cells with values unknown in public, from which they are refused."""
_SOME_UNKNOWN: Final = 0.05
"""The same, from which they are said if chance explains them in fewer than one case in a thousand."""
_UNLIKELY: Final = 1e-3
_MANY_NUMBERS: Final = 10
"""Different numbers; fewer may well be names of categories."""
_SHOWN: Final = 3
_TIME_OF_DAY: Final = re.compile(r"\d{1,3}:\d\d(:\d\d([.,]\d+)?)?( ?[AaPp]\.?[Mm]\.?)?")
# What pandas, R and spreadsheets call a column that numbers the rows.
_UNNAMED: Final = re.compile(
    r"\s*|unnamed: ?\d+|index|level_\d+|__index_level_\d+__|\.\.\.\d+|rownames?|row\.names", re.I
)


def of_public(column: Column, say: Words, categories: Collection[str], dated: Collection[str]) -> Iterator[Finding]:
    """What is refused of a public column. ``categories`` are names whatever they look like, ``dated`` columns days."""
    name, cells = column.name, column.public
    if cells is None:
        return
    where = say.column(name, "")
    if cells.kind is Kind.DATES:
        fix = _remedy(say, '"%Y-%m-%d"')
        yield Finding("dates-as-text", Severity.REFUSED, f"{where} holds dates", fix, name, lifted=False)
    elif cells.kind is Kind.TEXT:
        found = None if name in categories else _number_or_date(cells, name, "", say)
        if found:
            yield found
        elif cells.valid >= FEWEST and cells.distinct >= _ONCE * cells.valid:
            said = f"{where} has {cells.distinct:,} different texts in {cells.valid:,} records, as names, "
            said += "identifiers and free text have"
            yield Finding("one-per-record", Severity.REFUSED, said, say.leave_out, name)
    elif cells.kind is Kind.NUMBERS and name not in dated and _numbers_rows(cells, name):
        said = f"{where} {'' if name.strip() else 'without a name '}numbers the records"
        yield Finding("index-column", Severity.REFUSED, said, say.leave_out, name)


def of_silo(column: Column, silo: SiloName, say: Words) -> Iterator[Finding]:
    """What is refused of a silo's column next to the public one."""
    public, own, name = column.public, column.silos[silo], column.name
    if public is None or own.kind is Kind.NOTHING:
        return
    if public.kind is Kind.NUMBERS and own.kind is Kind.TEXT:
        yield _text_for_numbers(own, name, silo, say)
    elif public.kind is Kind.NUMBERS and own.kind is Kind.DATES:
        said = f"{say.column(name, silo)} holds dates, and numbers in the public set"
        yield Finding("dates-as-text", Severity.REFUSED, said, "turn them into numbers", name, silo)
    elif public.kind is Kind.TEXT and own.kind is Kind.TEXT:
        yield from _unknown(public, own, name, silo, say)


def _numbers_rows(cells: Cells, name: str) -> bool:
    numbers, rows = np.asarray(cells.numbers), np.arange(cells.records)
    whole = cells.valid == cells.records >= FEWEST and cells.distinct == cells.records and not (cells.ordered % 1).any()
    counts = bool((numbers == rows).all() or (numbers == rows + 1).all())
    return whole and (counts or bool(_UNNAMED.fullmatch(name)))


def _number_or_date(cells: Cells, name: str, silo: SiloName, say: Words) -> Finding | None:
    """Whether a text column holds dates, or numbers in another spelling than a program's."""
    counts, looks = _numbers(cells), cells.looks
    numbers, bare = _weigh(looks.number, counts), cells.valid - _weigh(looks.missing, counts)
    if found := _dates(cells, name, silo, say):
        return found
    if np.count_nonzero(looks.number) <= min(_MANY_NUMBERS, bare / 2) or numbers < _NUMBERS * bare:
        return None
    return None if bool(looks.plain.all()) and _are_codes(cells) else _number_as_text(cells, name, silo, say)


def _dates(cells: Cells, name: str, silo: SiloName, say: Words) -> Finding | None:
    words = [*cells.counts]
    found = are_dates(words)
    if not found.any() or _weigh(found, _numbers(cells)) < _NEARLY_ALL * cells.valid:
        return None
    days = [word for word, is_date in zip(words, found, strict=True) if is_date]
    row, word = cells.first(days)
    of_day, forms = all(map(_TIME_OF_DAY.fullmatch, days)), likely_forms(days)
    fix = _remedy(say, "" if of_day else " or ".join(f'"{form}"' for form in forms or ()))
    said = f"{say.column(name, silo)} holds {'times' if of_day else 'dates'}{say.example(word, row)}"
    return Finding("dates-as-text", Severity.REFUSED, said, fix, name, silo, lifted=of_day or not forms)


def _remedy(say: Words, forms: str) -> str:
    dates = say.set("dates", forms) if forms else ""
    return f"turn them into numbers, such as an age or minutes{dates}, or {say.leave_out}"


def _are_codes(cells: Cells) -> bool:
    """Whether all are digits, with leading zeros or of one length, as codes are."""
    words = [*cells.counts]
    digits = all(word.isdigit() for word in words)
    return digits and (len({len(word) for word in words}) == 1 or any(word[0] == "0" for word in words))


def number_as_text(cells: Cells, name: str, silo: SiloName, say: Words) -> Finding | None:
    """The finding that a column to predict holds numbers as text, if it does."""
    is_text = cells.kind is Kind.TEXT and bool(cells.looks.number.any())
    return _number_as_text(cells, name, silo, say) if is_text else None


def _number_as_text(cells: Cells, name: str, silo: SiloName, say: Words) -> Finding:
    """The finding that some cells of a column of numbers are text, with the mend that fits most of them."""
    looks, counts, words = cells.looks, _numbers(cells), np.array([*cells.counts], dtype=object)
    bad = ~looks.plain
    if _weigh(looks.comma, counts) > _weigh(bad, counts) / 2:
        shown, how = looks.comma, say.set("decimal", '","')
        fix = f"write a point as the decimal sign, and no marks between thousands{how}"
    elif not bad.any():
        shown, fix = looks.plain, "turn it into numbers, without blanks of another kind"
    else:
        # What has the form of a number, or stands for a missing one, may be quoted: it is no name.
        known = looks.comma | looks.bound | looks.missing
        shown = known if known.any() else bad
        named = "" if say.private else ", ".join(f'"{word}"' for word in words[known][:_SHOWN])
        how = say.set("missing", f"[{named or '...'}]") if bad.sum() <= _SHOWN else ""
        fix = f"write only numbers there, or leave the cells empty{how}"
    if not silo and (how := say.set("categories", f'["{name}"]')):
        fix += f"{how} if it holds codes"
    row, word = cells.first(words[shown].tolist())
    quote = bool((looks.number | looks.missing)[shown].any())
    share = say.share(_weigh(bad, counts), cells.valid)
    said = f"{say.column(name, silo)} holds numbers"
    said += f", and {share} are text{say.example(word if quote else None, row)}" if bad.any() else " as text"
    return Finding("number-as-text", Severity.REFUSED, said, fix, name, silo)


def _text_for_numbers(own: Cells, name: str, silo: SiloName, say: Words) -> Finding:
    row, _ = own.first([*own.counts])
    said = f"{say.column(name, silo)} holds text, and numbers in the public set{say.example(None, row)}"
    other = Finding("number-as-text", Severity.REFUSED, said, "write numbers", name, silo)
    return _dates(own, name, silo, say) or number_as_text(own, name, silo, say) or other


def _unknown(public: Cells, own: Cells, name: str, silo: SiloName, say: Words) -> Iterator[Finding]:
    values = {word: cells for word, cells in own.counts.items() if word not in public.counts}
    cells = sum(values.values())
    # The chance that one more public value would be a new one, by the values that occur once (Good 1953).
    chance = (sum(number == 1 for number in public.counts.values()) + 1) / (public.valid + 1)
    said = f"{say.column(name, silo)} has values that the public set does not have, in "
    said += f"{say.share(cells, own.valid)}{say.values(values)}"
    if cells <= _SOME_UNKNOWN * own.valid or bdtrc(cells - 1, own.valid, chance) > _UNLIKELY:
        return
    refused = cells >= _UNKNOWN * own.valid
    fix = f"write them as the public set does{say.values(public.counts)}, or {say.leave_out}"
    yield Finding("unknown-values", Severity.REFUSED if refused else Severity.SAID, said, fix, name, silo)


def _numbers(cells: Cells) -> NDArray[np.int64]:
    return np.array([*cells.counts.values()], dtype=np.int64)


def _weigh(mask: NDArray[Any], counts: NDArray[np.int64]) -> int:
    """How many cells hold one of the values that the mask chooses."""
    return int(counts[mask].sum())
