"""Dates as numbers: days since 1970, where the settings say how the dates are written."""

import math
import re
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedct_flwr.text.printable import count, quoted
from fedct_flwr.types import DataError

_EPOCH: Final = datetime(1970, 1, 1)
_DAY: Final = timedelta(days=1)
_COMMON: Final = tuple(
    form + time
    for form in ("%d.%m.%Y", "%Y-%m-%d", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y", "%d.%m.%y",
                 "%d/%m/%y", "%m/%d/%y", "%d-%b-%Y", "%d %b %Y", "%d. %B %Y", "%d %B %Y", "%B %d, %Y", "%b %d, %Y")
    for time in ("", " %H:%M", " %H:%M:%S", "T%H:%M:%S")
)  # fmt: skip
"""Forms to propose."""
_LIKE_A_DATE: Final = re.compile(
    r"\d{4}[-/]\d\d?[-/]\d\d?([ T][\d:]+)?|\d\d?([-./])\d\d?\2(\d{4}|(?<=\d\d[-./]\d\d[-./])\d\d)([ T][\d:]+)?"
    r"|\d\d?[-. ]+[A-Za-z]{3,9}[-. ]+\d{4}|[A-Za-z]{3,9} \d\d?, \d{4}"
)
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?")
_LOOKED_AT: Final = 1000
_MOSTLY: Final = 0.9
_YEARS: Final = range(1850, 2150)
_DIGITS_ALONE: Final = re.compile(r"(?:%[YmdHMSy])+")
TWO_DIGITS: Final = re.compile("%[yx]")
"""Where a form has years of two digits."""
_WIDTH: Final = {"Y": 4}
_ISO: Final = "%Y-%m-%d"
PLACEHOLDERS: Final = np.array(
    ["0001-01-01", "1111-11-11", "1753-01-01", "1800-01-01", "1899-12-30", "1899-12-31", "1900-01-01", "1970-01-01",
     "2099-12-31", "2999-12-31", "9999-12-31"], "datetime64[D]",
).astype(np.float64)  # fmt: skip
"""Days that programs and people write where no date is known."""
WAS_DATES: Final = {b"fedct": b"days since 1970"}
"""Metadata of a field that ``days`` has made of dates."""


def is_dated(kind: pa.DataType) -> bool:
    """Whether a column's type is a date or a timestamp; a time of day alone is neither."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def dated(table: pa.Table) -> frozenset[str]:
    """Names of the columns whose numbers are dates of a form that the settings name."""
    return frozenset(field.name for field in table.schema if field.metadata == WAS_DATES)


def days(values: pa.ChunkedArray, form: str, where: str, missing: Collection[str] = ()) -> pa.ChunkedArray | None:
    """Days since 1970 (float64) of a column of dates; None for a column of something else.

    Text counts as dates if all values have the form; whole numbers if the form has digits alone, as 20241231 for
    ``%Y%m%d``. Days named in ``missing``, in the form or as 2024-12-31, are missing values. Raises DataError for a
    column, named by ``where``, with values of that form and a few of another, or years of two digits after today.
    """
    found = _days(values, form, where)
    # Both forms: text has gone by letter before.
    parsed = [_parsed(text, either) for text in missing for either in (form, _ISO)]
    codes = pa.array([math.floor(day) for day in parsed if day is not None], pa.float64())
    found = found and pc.if_else(pc.is_in(pc.floor(found), value_set=codes), pa.scalar(None, pa.float64()), found)
    if found and TWO_DIGITS.search(form) and not is_dated(values.type):
        # Tomorrow has begun in some time zone.
        late = pc.sum(pc.greater(found, (datetime.now() + _DAY - _EPOCH) / _DAY)).as_py()
        if late:
            what = f"{count(late, 'date')} after today, as {quoted(form)} reads 00 to 68 as 2000 to 2068"
            raise DataError(f"{where} has {what}: write years with four digits")
    return found


def _days(values: pa.ChunkedArray, form: str, where: str) -> pa.ChunkedArray | None:
    kind = values.type
    if is_dated(kind):
        return _of_type(values)
    if pa.types.is_integer(kind) and _DIGITS_ALONE.fullmatch(form):
        width = sum(_WIDTH.get(directive, 2) for directive in form.split("%")[1:])
        # A CSV reader takes zeros in front away.
        text = pc.utf8_lpad(values.cast(pa.string()), width, "0")
        found = _by_value(text, form, where, lenient=True)
        return found if found and _is_plausible(found) else None
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _by_value(values, form, where, lenient=False)
    return None


def likely_forms(values: list[str]) -> list[str] | None:
    """The forms that the dates among a text column's values may have, if nearly all are dates; None if not.

    >>> likely_forms(["01.02.2020", "31.12.2019"]), likely_forms(["01/02/2020"]), likely_forms(["1.2.3"])
    (['%d.%m.%Y'], ['%d/%m/%Y', '%m/%d/%Y'], None)
    """
    sample = [value.strip() for value in values[:: max(1, len(values) // _LOOKED_AT)]]
    if not sample or sum(bool(_LIKE_A_DATE.fullmatch(value)) for value in sample) < _MOSTLY * len(sample):
        return None
    shares = {form: sum(_parsed(value, form) is not None for value in sample) for form in _COMMON}
    best = max(shares.values())
    return [form for form, share in shares.items() if share == best] if best >= _MOSTLY * len(sample) else None


def _of_type(values: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_date32(values.type):
        return values.cast(pa.int32()).cast(pa.float64())
    if pa.types.is_timestamp(values.type) and values.type.tz:
        # A day is that of the calendar where the time was written.
        values = pc.local_timestamp(values)
    microseconds = values.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    return pc.divide(microseconds.cast(pa.float64(), safe=False), _DAY / timedelta(microseconds=1))


def _by_value(values: pa.ChunkedArray, form: str, where: str, *, lenient: bool) -> pa.ChunkedArray | None:
    distinct = pc.unique(values.drop_null())
    texts = distinct.to_pylist()
    if not texts or (_parsed(texts[0], form) is None and not any(_parsed(text, form) for text in texts[:_LOOKED_AT])):
        return None
    parsed = [_parsed(text, form) for text in texts]
    wrong = sum(day is None for day in parsed)
    if wrong and (lenient or wrong > len(parsed) / 2):
        return None
    numbers = pa.array(parsed, pa.float64())
    places = pc.index_in(values, value_set=distinct)
    found = pa.chunked_array([numbers.take(chunk) for chunk in places.chunks], pa.float64())
    if wrong:
        faulty = pc.indices_nonzero(pc.and_(pc.is_null(found), pc.is_valid(values)))
        raise DataError(
            f"{where} has dates and {count(len(faulty), 'value')} of another form than {quoted(form)}, first in record "
            f"{faulty[0].as_py() + 1}: correct them, or name them under missing"
        )
    return found


def _parsed(text: str, form: str) -> float | None:
    """Days since 1970 of a date in this form, or of a time as an Excel file's dates are written; None if it is none."""
    text = text.strip()
    try:
        # Python's own, as it refuses days that are in no calendar.
        day = datetime.fromisoformat(text) if _TIME.fullmatch(text) else datetime.strptime(text, form)
    except ValueError:
        return None
    return (day.replace(tzinfo=None) - _EPOCH) / _DAY


def _is_plausible(found: pa.ChunkedArray) -> bool:
    known = found.filter(pc.invert(pc.is_in(found, value_set=pa.array(PLACEHOLDERS))))
    limits = pc.min_max(known if len(known) else found).as_py()
    first, last = (_EPOCH.date() + timedelta(days=limits[end]) for end in ("min", "max"))
    return first.year in _YEARS and last.year in _YEARS
