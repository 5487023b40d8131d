"""Remarks in a column of categories: sentences that somebody wrote where one of a few words was asked for."""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.profile import Profile, Text
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.types import SiloName

_FEWEST: Final = 3
"""Remarks in a column, each in one cell."""
_FEWEST_WORDS: Final = 3
_USUAL: Final = 0.01
"""Share of the cells that a category has."""
_MOST_CATEGORIES: Final = 20
_MOSTLY: Final = 0.9


def remarks(profile: Profile, silo: SiloName, say: Words, public: Profile | None = None) -> Iterator[Finding]:
    """Columns of a few categories in which a few cells hold sentences, no two alike; of a silo, not ``public`` ones."""
    for name, text in profile.texts.items():
        known = public.texts.get(name) if public else None
        if cells := _remarks(text, known):
            said = f"{say.column(name, silo)} has sentences among its words, in {say.number(cells, 'cell')}, as remarks"
            fix = "write one of the usual words, or leave the cell empty"
            yield Finding("value-spellings", Severity.SAID, said, fix, name, silo)


def _remarks(text: Text, known: Text | None) -> int:
    """How many cells hold one, or 0."""
    usual = text.counts >= max(2.0, _USUAL * text.valid)
    if not 1 < int(usual.sum()) <= _MOST_CATEGORIES or text.counts[usual].sum() < _MOSTLY * text.valid:
        return 0
    once = text.counts == 1
    if known is not None:
        once &= ~pc.is_in(text.values, value_set=known.values).to_numpy(zero_copy_only=False).astype(bool)
    if once.sum() < _FEWEST:
        return 0
    longest = max(_words(text, usual))
    found = sum(words > longest and words >= _FEWEST_WORDS for words in _words(text, once))
    # Rare diagnoses have long names, too, and then next to short ones.
    return found if found >= _FEWEST and found >= _MOSTLY * once.sum() else 0


def _words(text: Text, chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> list[int]:
    return [len(value.split()) for value in text.values.filter(pa.array(chosen)).to_pylist()]
