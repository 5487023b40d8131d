"""What a spreadsheet makes of words when it opens a file: '1-2' and 'MARCH1' become dates, '2310009E13' a number.

The words are lost, as several become one date. Other columns of months, and numbers, are known by all their cells:
here most cells are words, or ranges of numbers.
"""

import re
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.profile import Profile
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.types import SiloName

_MONTHS: Final = "jan|feb|mar|mär|mrz|apr|may|mai|jun|jul|aug|sep|oct|okt|nov|dec|dez"
_DAY: Final = re.compile(rf"\d{{1,2}}[-. ]({_MONTHS})\.?|({_MONTHS})[-. ]\d{{2}}", re.I)
_LONG: Final = re.compile(r"\d([.,]\d+)?E\+\d{2,3}")
_NUMBER: Final = re.compile(r"\s*[+-]?[\d.,]+([eE][+-]?\d+)?\s*")
_MOST_VALUES: Final = 2000
_ALL: Final = 0.9


def mangled(table: Profile, silo: SiloName, say: Words) -> Iterator[Finding]:
    """Text columns some of whose words a spreadsheet has taken for dates, or for numbers."""
    for name, text in table.texts.items():
        values = text.values.to_pylist() if len(text.values) <= _MOST_VALUES else []
        days = [value for value in values if _DAY.fullmatch(value.strip())]
        long = [value for value in values if _LONG.fullmatch(value.strip())]
        numbers = [value for value in values if _NUMBER.fullmatch(value) and value not in long]
        lost, what = (days, "dates without a year") if days else (long, "numbers with a power of ten")
        if not lost or len(lost) > _ALL * len(values) or (lost is long and numbers):
            continue
        place = table.first(name, text.values.filter(pa.array([value in lost for value in values])))
        example = say.example(place[1], place[0]) if place else ""
        said = f"{say.column(name, silo)} has {what} among its words{example}"
        fix = "a spreadsheet has made these of other words, such as '1-2': export the column as text"
        yield Finding("spreadsheet-words", Severity.SAID, said, fix, name, silo)
