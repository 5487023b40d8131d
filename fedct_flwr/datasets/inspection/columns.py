"""Findings on the columns of one table, the public set: what would be read as something else than it is."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from fedct_flwr.datasets.inspection.dragged import filled_down
from fedct_flwr.datasets.inspection.filled import filled
from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.meanings import identifier, is_identifier, meanings
from fedct_flwr.datasets.inspection.number_text import of_text, remedy
from fedct_flwr.datasets.inspection.profile import FEWEST, Kind, Profile, Text
from fedct_flwr.datasets.inspection.spelling import (
    LONG_WORD,
    misspelled,
    twice_named,
    without_accents,
)
from fedct_flwr.datasets.inspection.spreadsheet import mangled
from fedct_flwr.datasets.inspection.strays import far_numbers, sentinels, two_scales
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.text.printable import listed, quoted

_NEARLY_ALL: Final = 0.8
_ONCE: Final = 0.9
_OFTEN_ONCE: Final = 0.5
_TWO: Final = 2
_NINES: Final = re.compile(r"-?(9{1,6}|8{2,4}|7{2,4})|-1")
_MOSTLY_MISSING: Final = 0.5
_MOST_CODES: Final = 30
_PERSON: Final = re.compile(
    r"((patient|pat|first|last|full|family|given|sur|vor|nach|familien)s?[_\-. ]?)?names?|initials?|initialen|kürzel|"
    r"(home[_\-. ]?)?address|adresse|anschrift|stra(ß|ss)e|street|(tele)?phone|telefon|e?-?mail",
    re.I,
)
"""Columns of text that say who somebody is, though several may be called the same."""
_FEW_COMPANIES: Final = 6
_MOST_COMPANIES: Final = 2000
"""Distinct texts among which values of several in a cell are looked for."""


def of_table(profile: Profile, say: Words, categories: frozenset[str], dated: frozenset[str]) -> Iterator[Finding]:
    """All findings on the columns of the public set. ``categories`` are meant to be names, ``dated`` to be days."""
    for name, kind in profile.kinds.items():
        if kind is Kind.TEXT:
            yield from _text(profile, name, say, name in categories)
        elif kind is Kind.DATES:
            of_day = pa.types.is_time(profile.columns[name].type)
            fix = remedy(say, name, '"%Y-%m-%d"', of_day=of_day)
            said = f"{say.column(name, '')} holds {'times of day' if of_day else 'dates'}"
            yield Finding("dates-as-text", Severity.REFUSED, said, fix, name, lifted=False)
        elif kind is Kind.NOTHING and profile.records >= FEWEST:
            said = f"{say.column(name, '')} has no value"
            yield Finding("missing-values", Severity.SAID, said, "take the column out of all tables", name)
    yield from _constant(profile, say)
    yield from _missing(profile, say)
    # Days are numbers of five digits, often one for each record: all that is known already.
    yield from (found for found in meanings(profile, say, categories) if found.column not in dated)
    yield from mangled(profile, "", say)
    yield from filled_down(profile, "", say)
    yield from filled(profile, "", say)
    yield from sentinels(profile, "", say)
    yield from far_numbers(profile, "", say)
    yield from two_scales(profile, "", say)


def _text(profile: Profile, name: str, say: Words, meant: bool) -> Iterator[Finding]:
    found = None if meant else of_text(profile, name, "", say)
    if found:
        yield found
        if found.severity is Severity.REFUSED:
            return
    text = profile.texts[name]
    distinct, valid = len(text.values), text.valid
    leave_out = say.leave_out(name)
    if valid >= FEWEST and distinct >= _ONCE * valid:
        said = (
            f"{say.column(name, '')} has {distinct:,} different texts in {valid:,} records, as names, identifiers and "
            "free text have"
        )
        yield Finding("one-per-record", Severity.REFUSED, said, leave_out, name)
    elif valid >= FEWEST and distinct >= _OFTEN_ONCE * valid:
        said = f"{say.column(name, '')} has {distinct:,} different texts in {valid:,} records"
        yield Finding("many-categories", Severity.SAID, said, f"group rare ones, or {leave_out}", name)
    elif (is_identifier(name) and distinct > max(FEWEST, valid / FEWEST)) or (
        _PERSON.fullmatch(name.strip()) and distinct > FEWEST
    ):
        yield identifier(name, say)
    if not meant and (separator := _several_in_a_cell(text)):
        said = f"{say.column(name, '')} holds several values in a cell, separated by {quoted(separator)}"
        fix = f"make a column of yes and no of each value, or {leave_out}"
        yield Finding("values-in-a-cell", Severity.SAID, said, fix, name)
    if not meant and (nines := _nines(text)):
        said = (
            f"{say.column(name, '')} has a number among its words ({listed(nines)}), as if it stood for a missing value"
        )
        named = ", ".join(f'"{value}"' for value in nines)
        how = say.set("missing", f"[{named}]")
        fix = f"leave the cell empty where nothing is known{f', or {how}' if how else ''}"
        yield Finding("missing-as-number", Severity.SAID, said, fix, name)
    if distinct <= valid / 2 and (alike := _alike(text)):
        how = (
            "differ in case, blanks or accents alone"
            if len({*map(without_accents, alike)}) == 1
            else "nearly agree, or mean the same,"
        )
        said = f"{say.column(name, '')} has values that {how}{say.values(alike)}"
        yield Finding("value-spellings", Severity.SAID, said, "write each in one way", name)


def _several_in_a_cell(text: Text) -> str:
    """The sign between values that cells hold in changing company, such as ``I10;E11`` and ``E11;N18``; or nothing."""
    values = text.values.to_pylist() if _FEW_COMPANIES <= len(text.values) <= _MOST_COMPANIES else []
    if not any(sign in "".join(values) for sign in ";|[{("):
        return ""
    lists = sum(value[:1] in "[{(" and value[-1:] in "]})" for value in values)
    for separator in (";", "|", ","):
        cells = [{part.strip(" []{}()'\"") for part in value.split(separator)} for value in values]
        several = [parts for parts in cells if len(parts) > 1 and all(parts)]
        # Words that people write with a comma have none of their parts elsewhere.
        company = Counter(part for parts in several for part in parts)
        mixed = sum(number > 1 for number in company.values()) >= _NEARLY_ALL * len(company)
        sure = separator != "," or lists > len(values) / 2
        if sure and several and mixed and len(company) < len(cells) and len(several) > len(cells) / 2:
            return separator
    return ""


def _nines(text: Text) -> list[str]:
    """Numbers that stand for a missing value, such as 99, where all other values are words."""
    if not _TWO < len(text.values) <= _MOST_CODES:
        return []
    values = text.values.to_pylist()
    nines = [value for value in values if _NINES.fullmatch(value.strip())]
    return nines if not any(char.isdigit() for value in values if value not in nines for char in value) else []


def _alike(text: Text) -> dict[str, int]:
    """Two values that are one word, or nearly so, with the cells of each, or nothing."""
    seen: dict[str, tuple[str, int]] = {}
    for value, cells in zip(text.values.to_pylist(), text.counts.tolist(), strict=True):
        other = seen.setdefault(without_accents(value), (value, cells))
        if other[0] != value:
            return dict([other, (value, cells)])
    names = dict(seen.values())
    nearly = twice_named(names) or misspelled(names, LONG_WORD) if len(names) <= FEWEST else None
    return {name: names[name] for name in nearly} if nearly else {}


def _constant(profile: Profile, say: Words) -> Iterator[Finding]:
    if profile.records < FEWEST:
        return
    numbers = profile.numbers
    constant = {numbers.names[at] for at in np.flatnonzero(numbers.distinct == 1)}
    constant |= {name for name, text in profile.texts.items() if len(text.values) == 1}
    for name in profile.kinds:
        if name in constant:
            said = f"{say.column(name, '')} has the same value wherever it has one"
            yield Finding("constant-column", Severity.SAID, said, "take it out of all tables: it tells nothing", name)


def _missing(profile: Profile, say: Words) -> Iterator[Finding]:
    for name, kind in profile.kinds.items():
        missing = profile.missing(name)
        if kind is not Kind.NOTHING and profile.records >= FEWEST and missing > _MOSTLY_MISSING * profile.records:
            said = f"{say.column(name, '')} is empty in {say.share(missing, profile.records, 'record')}"
            yield Finding("missing-values", Severity.SAID, said, "nothing, if that is so", name)
