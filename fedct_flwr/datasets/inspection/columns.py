"""Findings on the columns of one table, the public set: what would be read as something else than it is."""

import re
from collections import Counter
from collections.abc import Iterator
from datetime import date
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedct_flwr.datasets.dates import likely_forms
from fedct_flwr.datasets.inspection.dragged import filled_down
from fedct_flwr.datasets.inspection.filled import filled
from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.profile import QUANTILES, Kind, Profile, Text
from fedct_flwr.datasets.inspection.spelling import (
    LONG_WORD,
    are_dates,
    are_grouped,
    are_pairs,
    may_be_decimal,
    misspelled,
    twice_named,
    weigh,
    without_accents,
)
from fedct_flwr.datasets.inspection.spreadsheet import mangled
from fedct_flwr.datasets.inspection.strays import far_numbers, sentinels, two_scales
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.text.printable import listed, quoted
from fedct_flwr.types import SiloName

FEWEST: Final = 20
"""Records, at least, of which it is said that a column is constant, or that all its values differ."""

_MANY_NUMBERS: Final = 10
"""Distinct numbers, at most, that may well be names of categories."""
_FEW_OTHERS: Final = 3
_SHARE_OF_OTHERS: Final = 0.05
_MOST_NUMBERS: Final = 0.5
_NEARLY_ALL: Final = 0.8
_ONCE: Final = 0.9
_OFTEN: Final = 0.8
_OFTEN_ONCE: Final = 0.5
_TWO: Final = 2
_NINES: Final = re.compile(r"-?(9{1,6}|8{2,4}|7{2,4})|-1")
_MOSTLY_MISSING: Final = 0.5
_MOST_CODES: Final = 30
_SHEET_DAYS: Final = (30_000, 55_153)
"""Days as spreadsheets number them, from 1982 to 2050."""
_TIME_OF_DAY: Final = re.compile(r"\d{1,3}:\d\d(:\d\d([.,]\d+)?)?( ?[AaPp]\.?[Mm]\.?)?")
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
_PERSON: Final = re.compile(
    r"((patient|pat|first|last|full|family|given|sur|vor|nach|familien)s?[_\-. ]?)?names?|initials?|initialen|kürzel|"
    r"(home[_\-. ]?)?address|adresse|anschrift|stra(ß|ss)e|street|(tele)?phone|telefon|e?-?mail",
    re.I,
)
"""Columns of text that say who somebody is, though several may be called the same."""
_FEW_COMPANIES: Final = 6
_MOST_COMPANIES: Final = 2000
"""Distinct texts among which values of several in a cell are looked for."""
_CODE: Final = re.compile(
    r"(^|[_\-. ])(code|icd|icd9|icd10|ops|drg|zip|plz|postcode|zipcode|ward|station|cd)$|Code$", re.I
)


def of_text(profile: Profile, name: str, silo: SiloName, say: Words) -> Finding | None:
    """Whether a text column holds numbers, or dates, in another spelling."""
    text = profile.texts[name]
    if found := dates(profile, name, silo, say):
        return found
    looks = text.looks
    numbers, bare = weigh(looks.number, text.counts), text.valid - weigh(looks.missing, text.counts)
    distinct = int(np.count_nonzero(looks.number))
    many = distinct > min(_MANY_NUMBERS, bare / 2)
    if not many or numbers < _MOST_NUMBERS * bare:
        return _pairs(profile, name, silo, say)
    if bool(looks.plain.all()) and _are_codes(text):
        return None
    allowed = max(_FEW_OTHERS, _SHARE_OF_OTHERS * distinct)
    others = int(np.count_nonzero(~(looks.number | looks.missing)))
    # Such as V10 and E950 among 250.01 and 401, codes of diseases.
    codes = int(np.count_nonzero(looks.code)) >= max(_FEW_OTHERS, others / 2)
    certain = not codes and (others <= allowed or numbers >= _NEARLY_ALL * bare)
    severity = Severity.REFUSED if certain else Severity.SAID
    return number_as_text(profile, name, silo, say, severity)


def number_as_text(
    profile: Profile,
    name: str,
    silo: SiloName,
    say: Words,
    severity: Severity,
    usual: tuple[float, float] | None = None,
) -> Finding:
    """The finding that some cells of a column of numbers are text, with the mend that fits most of them.

    ``usual`` is the range of the public set's numbers, if that has any.
    """
    text = profile.texts[name]
    looks = text.looks
    bad = ~looks.plain
    commas = weigh(looks.comma, text.counts)
    where = say.column(name, silo)
    if commas > weigh(bad, text.counts) / 2:
        shown, how = looks.comma, say.set("decimal", '","')
        fix = f"write a point as the decimal sign{f', or {how}' if how else ''}"
        written = text.values.filter(pa.array(shown))
        if bool(are_grouped(written).all()) and not _are_decimals(written, usual):
            fix = "write numbers without marks between thousands"
    elif not bad.any():
        shown, how = looks.plain, say.set("decimal", '"."') if "." in "".join(text.values.to_pylist()) else ""
        fix = f"turn it into numbers, without blanks of another kind{f', or {how}' if how else ''}"
    else:
        # What has the form of a number, or stands for a missing one, may be quoted: it is nobody's name.
        known = looks.comma | looks.bound | looks.missing
        shown = known if known.any() else bad
        named = ", ".join(f'"{value}"' for value in text.values.filter(pa.array(known)).to_pylist()[:_FEW_OTHERS])
        how = (
            say.set("missing", f"[{named if named and not say.private else '...'}]") if bad.sum() <= _FEW_OTHERS else ""
        )
        fix = f"write numbers alone there, or leave the cells empty{f', or {how}' if how else ''}"
        if weigh(bad, text.counts) == 1 and not known.any():
            fix += "; if it is a line of headings, take that line out"
    if severity is Severity.SAID and (how := say.set("categories", f'["{name}"]')):
        fix += f"; if it holds codes, {how}"
    place = profile.first(name, text.values.filter(pa.array(shown)))
    quote = bool((looks.number | looks.missing)[shown].any())
    example = say.example(place[1] if quote else None, place[0]) if place else ""
    share = say.share(weigh(bad, text.counts), text.valid)
    said = f"{where} holds numbers, and {share} are text{example}" if bad.any() else f"{where} holds numbers as text"
    return Finding("number-as-text", severity, said, fix, name, silo)


def _are_decimals(values: pa.Array, usual: tuple[float, float] | None) -> bool:
    """Whether numbers such as 12,345 lie in the usual range if the comma stands before decimals."""
    if usual is None or not bool(may_be_decimal(values).all()):
        return False
    low, high = usual
    middle = float(np.median([float(value.replace(",", ".")) for value in values.to_pylist()]))
    return low <= middle <= high


def _pairs(profile: Profile, name: str, silo: SiloName, say: Words) -> Finding | None:
    """Whether cells hold two numbers, as blood pressures are written: 120/80."""
    text = profile.texts[name]
    if len(text.values) <= FEWEST or weigh(are_pairs(text.values), text.counts) < _NEARLY_ALL * text.valid:
        return None
    said = f"{say.column(name, silo)} holds two numbers in a cell"
    return Finding("number-as-text", Severity.SAID, said, "make two columns of it", name, silo)


def _are_codes(text: Text) -> bool:
    """Whether digits alone are written with leading zeros, or all in one length, as codes are."""
    lengths = pc.utf8_length(text.values).unique()
    digits = bool(pc.all(pc.utf8_is_digit(text.values)).as_py())
    return digits and (len(lengths) == 1 or bool(pc.any(pc.starts_with(text.values, "0")).as_py()))


def dates(profile: Profile, name: str, silo: SiloName, say: Words) -> Finding | None:
    """Whether a text column holds dates."""
    text = profile.texts[name]
    found = are_dates(text.values)
    if not found.any() or weigh(found, text.counts) < _NEARLY_ALL * text.valid:
        return None
    place = profile.first(name, text.values.filter(pa.array(found)))
    example = say.example(place[1], place[0]) if place else ""
    said = text.values.filter(pa.array(found)).to_pylist()
    of_day, forms = all(map(_TIME_OF_DAY.fullmatch, said)), likely_forms(said)
    fix = _remedy(say, name, " or ".join(f'"{form}"' for form in forms or ()), of_day=of_day)
    what = f"{say.column(name, silo)} holds {'times' if of_day else 'dates'}{example}"
    return Finding("dates-as-text", Severity.REFUSED, what, fix, name, silo, lifted=of_day or not forms)


def _remedy(say: Words, name: str, forms: str, *, of_day: bool) -> str:
    ways = [f"turn them into numbers, such as {'minutes' if of_day else 'an age'}"]
    if forms and not of_day:
        ways.append(say.set("dates", forms))
    return ", or ".join([*ways, say.leave_out(name)])


def of_table(profile: Profile, say: Words, categories: frozenset[str], dated: frozenset[str]) -> Iterator[Finding]:
    """All findings on the columns of the public set. ``categories`` are meant to be names, ``dated`` to be days."""
    for name, kind in profile.kinds.items():
        if kind is Kind.TEXT:
            yield from _text(profile, name, say, name in categories)
        elif kind is Kind.DATES:
            of_day = pa.types.is_time(profile.columns[name].type)
            fix = _remedy(say, name, '"%Y-%m-%d"', of_day=of_day)
            said = f"{say.column(name, '')} holds {'times of day' if of_day else 'dates'}"
            yield Finding("dates-as-text", Severity.REFUSED, said, fix, name, lifted=False)
        elif kind is Kind.NOTHING and profile.records >= FEWEST:
            said = f"{say.column(name, '')} has no value"
            yield Finding("missing-values", Severity.SAID, said, "take the column out of all tables", name)
    yield from _constant(profile, say)
    yield from _missing(profile, say)
    # Days are numbers of five digits, often one for each record: all that is known already.
    yield from (found for found in _meanings(profile, say, categories) if found.column not in dated)
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
        yield _identifier(name, say)
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


def _identifier(name: str, say: Words) -> Finding:
    said = f"{say.column(name, '')} looks like an identifier"
    return Finding("record-number", Severity.SAID, said, no_feature(name, say), name)


def is_identifier(name: str) -> bool:
    """Whether a column's name is that of an identifier."""
    return bool(_IDENTIFIER.search(name.rstrip(". ")))


def no_feature(name: str, say: Words) -> str:
    """What to do about a column that says who it is."""
    group = "" if say.private else say.set("group", f'"{name}"')
    return f"{say.leave_out(name)}{f'; if it says which records are of one patient, {group}' if group else ''}"


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


def _meanings(profile: Profile, say: Words, categories: frozenset[str]) -> Iterator[Finding]:
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
            yield _identifier(name, say)
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
            yield _identifier(numbers.names[at], say)
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
            yield _identifier(name, say)
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
