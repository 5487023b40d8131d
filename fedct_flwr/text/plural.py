"""Numbers with what they count."""

from typing import Final

HIDDEN_BELOW: Final = 5
"""Smaller counts are hidden at a real silo, as they may identify a person."""


def count(number: int, noun: str) -> str:
    """A number and what it counts.

    >>> count(1, "silo"), count(1000, "round")
    ('1 silo', '1,000 rounds')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def rounded(number: int) -> str:
    """A count of records or cells that may be e-mailed: to tens, and hidden where it may point at a patient.

    >>> rounded(4), rounded(5), rounded(1164)
    ('<5', '10', '1,160')
    """
    return f"{max(10, round(number, -1)):,}" if number >= HIDDEN_BELOW else f"<{HIDDEN_BELOW}"
