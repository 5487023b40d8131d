"""Texts that are nearly the same: how many of a silo's are in the public set, by shingles (runs of three words).

A. Z. Broder, "On the resemblance and containment of documents", 1997. Two texts are near where they share half of
their shingles (Jaccard index), and have five at least. Notes that follow a form are near by chance: how often, the
silo's own tell, each compared with the others.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import poisson
from sklearn.feature_extraction.text import HashingVectorizer

_WORDS: Final = 3
_FEWEST: Final = 5
_NEAR: Final = 0.5
_BLOCK: Final = 1 << 22
"""Pairs of texts that are compared at a time."""


class Similar(NamedTuple):
    """Which own texts ``(n,)`` are near a public one, how many chance explains, and how likely it does so."""

    near: NDArray[np.bool_]
    by_chance: float
    p_value: float


def similar_texts(own: list[str], public: list[str]) -> Similar:
    """Compare a silo's texts with the public ones, and with each other to know what chance does."""
    hashed = HashingVectorizer(ngram_range=(_WORDS, _WORDS), binary=True, norm=None, alternate_sign=False)
    # It takes no empty list.
    ours, theirs = (hashed.transform([*texts, ""])[:-1] for texts in (own, public))
    near, again = _has_near(ours, theirs), _has_near(ours, ours, other=True)
    # Each has so many more others to be near to; one more, as none among few is not never.
    by_chance = float(again.sum()) * max(1.0, len(public) / max(1, len(own))) + 1
    found = int(near.sum())
    return Similar(near, by_chance, float(poisson.sf(found - 1, by_chance)) if found else 1.0)


def _has_near(ours: Any, theirs: Any, *, other: bool = False) -> NDArray[np.bool_]:
    """Which rows of the one are near a row of the other (``other``: than itself)."""
    sizes, columns = (np.asarray(part.sum(axis=1)).ravel() for part in (ours, theirs))
    found = np.zeros(ours.shape[0], dtype=bool)
    step = max(1, _BLOCK // max(1, theirs.shape[0]))
    for start in range(0, ours.shape[0], step):
        shared = (ours[start : start + step] @ theirs.T).tocoo()
        rows = shared.row + start
        both = sizes[rows] + columns[shared.col] - shared.data
        near = (shared.data >= _NEAR * both) & (np.minimum(sizes[rows], columns[shared.col]) >= _FEWEST)
        found[rows[near & (rows != shared.col)] if other else rows[near]] = True
    return found
