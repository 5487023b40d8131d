"""How the page says things: numbers with their units, and lists of rounds."""

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

UNKNOWN: Final = "–"


def formatted(value: float, form: str) -> str:
    """A number by Python's format specification, if it is known."""
    return UNKNOWN if np.isnan(value) else f"{value:{form}}"


def score(value: float) -> str:
    """A balanced accuracy or R², as the table of a run has it."""
    return formatted(value, ".3f")


def share(value: float) -> str:
    """A share as a percentage."""
    return formatted(value, ".1%")


def number(value: float) -> str:
    """A whole number, with its thousands apart."""
    return formatted(value, ",.0f")


def size(value: float) -> str:
    """Bytes, in the unit that leaves three digits or so.

    >>> size(605), size(25_000), size(1_650_000)
    ('605 bytes', '25.0 kB', '1.65 MB')
    """
    if np.isnan(value):
        return UNKNOWN
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if value >= unit:
            return f"{value / unit:.2f} {name}"
    return f"{value / 1e3:.1f} kB" if value >= 10_000 else f"{value:,.0f} bytes"


def duration(seconds: float) -> str:
    """Seconds, or minutes where they are many."""
    if np.isnan(seconds):
        return UNKNOWN
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:,.0f} s"


def mean_of_known(values: NDArray[np.float64]) -> float:
    """Of all values that are there; NaN where none is, as in folders of older versions.

    >>> mean_of_known(np.array([1.0, np.nan, 3.0])), mean_of_known(np.array([np.nan]))
    (2.0, nan)
    """
    there = values[np.isfinite(values)]
    return float(there.mean()) if there.size else float("nan")


def total_of_each(values: NDArray[np.float64]) -> float:
    """Of a column ``(rounds, silos)``, the sum of a silo, on average; NaN where nothing is known.

    >>> total_of_each(np.array([[1.0, np.nan], [2.0, 5.0]])), total_of_each(np.full((2, 2), np.nan))
    (4.0, nan)
    """
    return float(np.nansum(values, axis=0).mean()) if np.isfinite(values).any() else float("nan")


def spans(rounds: Iterable[int]) -> str:
    """Rounds as ranges.

    >>> spans([1, 2, 3, 5])
    '1–3, 5'
    """
    found: list[list[int]] = []
    for number in sorted(rounds):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in found)


def either(measures: Iterable[str]) -> str:
    """What the scores of several runs are, with a capital.

    >>> either(["balanced accuracy", "R²", "balanced accuracy"])
    'Balanced accuracy or R²'
    """
    text = " or ".join(dict.fromkeys(measures))
    return f"{text[:1].upper()}{text[1:]}"


def sentence(text: str) -> str:
    """With a capital and a full stop; nothing stays nothing.

    >>> sentence("silos agree")
    'Silos agree.'
    """
    return f"{text[:1].upper()}{text[1:]}." if text else ""
