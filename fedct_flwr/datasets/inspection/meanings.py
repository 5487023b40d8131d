"""Columns of numbers that mean something else than amounts: numbers of records, dates, codes."""

import re
from collections.abc import Iterator
from datetime import date
from typing import Final

import numpy as np

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.profile import FEWEST, QUANTILES, Profile
from fedct_flwr.datasets.inspection.words import Words

_MANY_NUMBERS: Final = 10
"""Distinct numbers, at most, that may well be names of categories."""
_MOST_NUMBERS: Final = 0.5
_OFTEN: Final = 0.8
_MOST_CODES: Final = 30
_SHEET_DAYS: Final = (30_000, 55_153)
"""Days as spreadsheets number them, from 1982 to 2050."""
_DAY_NAME: Final = re.compile(
    r"(^|[_\-. ])(date|datum|day|tag|dob|geb|birth\w*|geburt\w*|aufnahme\w*|entlass\w*|admi\w*|discharge\w*|visit\w*)"
    r"($|[_\-. ])|date$|datum$",
    re.I,
)
_YEARS: Final = (1900, 2100)
_FIRST_DAY, _LAST_DAY = 19_000_101, 21_001_231
_FIRST_SHORT_DAY, _LAST_SHORT_DAY = 10_101, 991_231
_SOME_DAY: Final = date(2024, 12, 31)
_SECONDS: Final = (600_000_000, 2_200_000_000)
"""From 1989 to 2039."""
_DIGITS: Final = 4
"""Powers of ten of a number that is long enough to be an identifier."""
# What pandas, R and spreadsheets call a column that numbers the rows.
_UNNAMED: Final = re.compile(
    r"\s*|unnamed: ?\d+|index|level_\d+|__index_level_\d+__|\.\.\.\d+|rownames?|row\.names", re.I
)
_IDENTIFIER: Final = re.compile(
    r"(?i:(^|[_\-. ])(id|pid|ids|mrn|uuid|guid|case|caseno|nr|key|patid|patnr|fallnr|pseudonym|pseudonymid|kvnr|lfd|"
    r"lfdnr|ssn|barcode|accession)$|^(id|pid|mrn)[_\-. ]|"
    r"(patient|patienten|pat|fall|aufnahme|subject|case|sample|visit|stay|versicherten|versicherungs|person|personen|"
    r"hospital|nhs|encounter|record|study|studien)[_\-. ]*(id|no|nr|num|number|nummer|kennung|key|hash)$|"
    r"^(patient|patientin|pat|subject|proband|probandin)$|patient.?(id|n)|record.?(id|n)|(^|[_\-. ])identifier$)|"
    r"[a-z](ID|Id|Nr|No)$"
)
_CODE: Final = re.compile(
    r"(^|[_\-. ])(code|icd|icd9|icd10|ops|drg|zip|plz|postcode|zipcode|ward|station|cd)$|Code$", re.I
)


def identifier(name: str, say: Words) -> Finding:
    """The finding that a column of the public set says who somebody is."""
    said = f"{say.column(name, '')} looks like an identifier"
    return Finding("record-number", Severity.SAID, said, no_feature(name, say), name)


def is_identifier(name: str) -> bool:
    """Whether a column's name is that of an identifier."""
    return bool(_IDENTIFIER.search(name.rstrip(". ")))


def no_feature(name: str, say: Words) -> str:
    """What to do about a column that says who it is."""
    group = "" if say.private else say.set("group", f'"{name}"')
    return f"{say.leave_out(name)}{f'; if it says which records are of one patient, {group}' if group else ''}"


def meanings(profile: Profile, say: Words, categories: frozenset[str]) -> Iterator[Finding]:
    """Columns of numbers that mean something else than amounts: numbers of records, dates, codes."""
    numbers = profile.numbers
    every = numbers.whole & (numbers.distinct == numbers.valid) & (numbers.valid == profile.records)
    consecutive = every & (numbers.largest - numbers.smallest + 1 == numbers.valid)
    for at in np.flatnonzero(every) if profile.records >= FEWEST else ():
        name = numbers.names[at]
        if _UNNAMED.fullmatch(name) or numbers.counts_up[at]:
            called = "without a name " if not name.strip() else ""
            said = f"{say.column(name, '')} {called}numbers the records"
            yield Finding("index-column", Severity.REFUSED, said, say.leave_out(name), name)
        elif consecutive[at] or numbers.in_order[at] or is_identifier(name):
            yield identifier(name, say)
    dated = dict(_dates_as_numbers(profile))
    for name, (form, example) in dated.items():
        how = say.set("dates", f'"{form}"')
        said = f"{say.column(name, '')} holds dates as whole numbers, such as {example}"
        fix = f"turn them into an age, or days since a day{f', or {how}' if how else ''}"
        yield Finding("dates-as-numbers", Severity.SAID, said, fix, name)
    in_time = {*dated}
    for names, what in (
        (_sheet_days(profile), "numbers such as spreadsheets write in place of dates"),
        (_seconds(profile), "numbers such as programs write in place of times (seconds since 1970)"),
    ):
        for name in {*names} - dated.keys():
            in_time.add(name)
            said = f"{say.column(name, '')} holds {what}"
            yield Finding("dates-as-numbers", Severity.SAID, said, "turn them into an age, if they are", name)
    several = numbers.whole & ~every & (numbers.distinct > np.maximum(FEWEST, numbers.valid / FEWEST))
    for at in np.flatnonzero(several):
        if is_identifier(numbers.names[at]):
            yield identifier(numbers.names[at], say)
    # A number that somebody has given at random, within its digits.
    spread = (numbers.largest - numbers.smallest)[:, None]
    even = np.array(QUANTILES) * spread + numbers.smallest[:, None]
    is_even = (np.abs(numbers.quantiles - even) < 2 / np.sqrt(np.maximum(numbers.valid, 1))[:, None] * spread).all(
        axis=1
    )
    digits = np.floor(np.log10(np.maximum(numbers.smallest, 1)))
    # A patient may be there twice.
    nearly = numbers.whole & (numbers.distinct >= _OFTEN * numbers.valid) & (numbers.valid == profile.records)
    drawn = nearly & is_even & (digits >= _DIGITS) & (np.floor(np.log10(np.maximum(numbers.largest, 1))) == digits)
    for at in np.flatnonzero(drawn & ~consecutive) if profile.records >= 2 * FEWEST else ():
        name = numbers.names[at]
        if not is_identifier(name) and name not in in_time:
            yield identifier(name, say)
    yield from _codes(profile, say, categories)


def _dates_as_numbers(profile: Profile) -> Iterator[tuple[str, tuple[str, str]]]:
    """Columns of whole numbers all of which are days, as 20241231: with the form, and a day written so."""
    numbers = profile.numbers
    enough = numbers.whole & (numbers.distinct > _MANY_NUMBERS)
    long = enough & (numbers.smallest >= _FIRST_DAY) & (numbers.largest <= _LAST_DAY)
    long |= enough & (numbers.smallest >= 1_011_900) & (numbers.largest <= 31_122_100)
    # Of two digits each, one random number in 27 is a day.
    short = enough & (numbers.smallest >= _FIRST_SHORT_DAY) & (numbers.largest <= _LAST_SHORT_DAY)
    for at in np.flatnonzero(long | short):
        name = numbers.names[at]
        values = profile.valid(name)
        century, (first, last) = (10_000, _YEARS) if long[at] else (100, (0, 99))
        for year, month, day, form in (
            (values // 10_000, values // 100 % 100, values % 100, "%Y%m%d"),
            (values % century, values // century % 100, values // century // 100, "%d%m%Y"),
        ):
            is_day = (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
            if (is_day & (year >= first) & (year <= last)).all():
                form = form if long[at] else form.lower()
                yield name, (form, _SOME_DAY.strftime(form))
                break


def _seconds(profile: Profile) -> Iterator[str]:
    """Columns of whole numbers that are seconds, or thousandths of them, since 1970: all of our time."""
    numbers = profile.numbers
    several = numbers.whole & (numbers.distinct > FEWEST)
    for unit in (1, 1000):
        first, last = (unit * second for second in _SECONDS)
        yield from (
            numbers.names[at]
            for at in np.flatnonzero(several & (numbers.smallest >= first) & (numbers.largest <= last))
        )


def _sheet_days(profile: Profile) -> Iterator[str]:
    """Columns of whole numbers that are days as spreadsheets number them: by their name, or as all are of our time."""
    numbers = profile.numbers
    first, last = _SHEET_DAYS
    whole = numbers.whole & (numbers.distinct > FEWEST) & (numbers.largest <= last)
    for at in np.flatnonzero(whole & (numbers.smallest >= first / 6)):
        if (numbers.smallest[at] >= first and not _is_round(profile, numbers.names[at])) or _DAY_NAME.search(
            numbers.names[at]
        ):
            yield numbers.names[at]


def _is_round(profile: Profile, name: str) -> bool:
    """Whether most numbers are rounded, as amounts of money or of cells are."""
    values = profile.valid(name)
    return bool((values % 10 == 0).mean() > _MOST_NUMBERS)


def _codes(profile: Profile, say: Words, categories: frozenset[str]) -> Iterator[Finding]:
    numbers = profile.numbers
    few = numbers.whole & (numbers.distinct >= 3) & (numbers.distinct <= np.minimum(_MOST_CODES, numbers.valid / 4))
    years = (numbers.smallest >= _YEARS[0]) & (numbers.largest <= _YEARS[1])
    # Three digits and more, with gaps: measurements fill their range, or have more values.
    gaps = (numbers.smallest >= 100) & (numbers.largest - numbers.smallest > 3 * numbers.distinct) & ~years
    for at in np.flatnonzero(few):
        name = numbers.names[at]
        if name not in categories and (gaps[at] or _CODE.search(name)):
            how = say.set("categories", f'["{name}"]')
            said = f"{say.column(name, '')} holds {numbers.distinct[at]} different numbers that look like codes"
            yield Finding(
                "codes-as-numbers", Severity.SAID, said, f"write them as words{f', or {how}' if how else ''}", name
            )
