"""Text columns that hold numbers, or dates, in another spelling than a program's."""

import re
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedct_flwr.datasets.dates import likely_forms
from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.profile import FEWEST, Profile, Text
from fedct_flwr.datasets.inspection.spelling import (
    are_dates,
    are_grouped,
    are_pairs,
    may_be_decimal,
    weigh,
)
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.types import SiloName

_MANY_NUMBERS: Final = 10
"""Distinct numbers, at most, that may well be names of categories."""
_FEW_OTHERS: Final = 3
_SHARE_OF_OTHERS: Final = 0.05
_MOST_NUMBERS: Final = 0.5
_NEARLY_ALL: Final = 0.8
_TIME_OF_DAY: Final = re.compile(r"\d{1,3}:\d\d(:\d\d([.,]\d+)?)?( ?[AaPp]\.?[Mm]\.?)?")


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
    fix = remedy(say, name, " or ".join(f'"{form}"' for form in forms or ()), of_day=of_day)
    what = f"{say.column(name, silo)} holds {'times' if of_day else 'dates'}{example}"
    return Finding("dates-as-text", Severity.REFUSED, what, fix, name, silo, lifted=of_day or not forms)


def remedy(say: Words, name: str, forms: str, *, of_day: bool) -> str:
    """What to do about a column of dates, which are written in these ``forms``, or of times ``of_day``."""
    ways = [f"turn them into numbers, such as {'minutes' if of_day else 'an age'}"]
    if forms and not of_day:
        ways.append(say.set("dates", forms))
    return ", or ".join([*ways, say.leave_out(name)])
