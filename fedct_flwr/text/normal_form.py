"""Unicode's normal forms, in time that is proportional to the text.

Python sorts the marks on one letter by comparing each with all before it: a cell with a million of them takes an hour.
"""

import re
import sys
import unicodedata
from functools import cache
from typing import Final, Literal

_MOST_MARKS: Final = 30
"""On one letter, as in Unicode's stream-safe text format (UAX #15): no written language has as many."""


def normalized(form: Literal["NFC", "NFKC", "NFKD"], text: str) -> str:
    r"""The text in this form. One with more marks on a letter than any language has stays as it is.

    >>> normalized("NFC", "e\u0301")
    'é'
    """
    if text.isascii() or _flood().search(text):
        return text
    return unicodedata.normalize(form, text)


@cache
def _flood() -> re.Pattern[str]:
    """Too many marks in a row."""
    marks = "".join(char for char in map(chr, range(sys.maxunicode + 1)) if unicodedata.combining(char))
    return re.compile(f"[{marks}]{{{_MOST_MARKS + 1}}}")
