"""Test records that are nearly a training record: copies with a cell or a digit changed, one patient measured again.

Three rules look at a sample of the test records next to all training records. Each compares what is near with what is
a little farther away: honest records have neighbors at all distances, the farther the more. Those of few values, such
as categories or zeros and ones, have neighbors everywhere, and no gap around the nearest.

- *Cells*: a record differs from a training record in few cells, and no other differs in just one cell more.
- *Digits*: the same, where numbers count as equal that differ by less than ``_DIGITS`` standard deviations, or by half
  of the last digit that one of them has.
- *Distance*: the nearest training record is far nearer than those of rank 10 and 40 let expect. Their distances tell
  the dimensions ``D`` (Levina, Bickel, "Maximum likelihood estimation of intrinsic dimension", NIPS 2004), and by
  chance ``(r_1 / r_10)^D`` is the least of 9 uniform numbers. A quarter of the records that are nearer than one in a
  thousand raise the alarm, or half of them nearer than one in 20.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection.spelling import without_accents
from fedct_flwr.datasets.schema import Column
from fedct_flwr.types import Examples

_COMPARISONS: Final = 1 << 28
"""Pairs of cells, about, that are compared."""
_MOST_COLUMNS: Final = 64
_FEWEST_ASKED: Final = 100
_MOST_ASKED: Final = 2000
_FEWEST: Final = 20
"""Records, at least, of which it can be told what is near."""
_ROWS, _BLOCK = 64, 4096
"""Test and training records that are compared at a time: what a processor has near."""
_MOST_COPIES: Final = 30
"""Training records near one test record, at most: more are no copies, but what many records are like."""
_FEWEST_COPIES: Final = 3
_FEW_CELLS: Final = 3
_SHARE: Final = 0.02
_NEARLY_ALL: Final = 0.6
"""Records before a gap, at least, as a share of those before it, in it and on both of its sides."""
_DIGITS, _MOST_DIGITS = np.float32(0.06), np.float32(0.5)
_DECIMALS: Final = 4
_MISSING: Final = 1e6
_UNKNOWN: Final = -1e6
_RANKS: Final = (10, 40)
_MOST_DIMENSIONS: Final = 30.0
_MOST_CATEGORIES: Final = 30
_FINE_COLUMNS: Final = 3
_SAME: Final = 1e-3
_RARE: Final = 1e-3
_MANY: Final = 0.25
_CLOSER: Final = 0.01
_TYPICAL: Final = 0.05
_LUMPY: Final = 0.25
_NORMAL_IQR: Final = 1.349
_FARTHEST: Final = 10.0

_Counts = NDArray[np.int64]
_Mask = NDArray[np.bool_]
_Floats = NDArray[np.float32]


class NearCopies(NamedTuple):
    """How many of the test records that were ``asked`` about are ``near`` a training record."""

    near: int
    asked: int


def near_copies(test: Examples, training: Examples, columns: Sequence[Column], known: _Mask) -> NearCopies:
    """Look for test records of a table that are nearly a training record, whatever their labels.

    ``known`` ``(tests,)`` are those of which it is said already that they repeat one. Images, which have no
    ``columns``, are not looked at. Memory is that of a block of records and of one column.
    """
    most = max(
        _FEWEST_ASKED, min(_MOST_ASKED, _COMPARISONS // max(1, training.size * min(_MOST_COLUMNS, len(columns))))
    )
    rows = np.linspace(0, test.size - 1, min(most, test.size)).astype(np.intp)
    if not columns or min(test.size, training.size) < _FEWEST:
        return NearCopies(0, len(rows))
    X = test.X[rows]
    # Of a wide table some columns tell as much.
    some = np.unique(np.linspace(0, len(columns) - 1, min(_MOST_COLUMNS, len(columns))).astype(np.intp))
    rulers = [_Ruler.of(at, columns[at], training.X[:, at], X[:, at]) for at in some.tolist()]
    rulers = _by_themselves([ruler for ruler in rulers if ruler.tells], training.X)
    if not rulers:
        return NearCopies(0, len(rows))
    asked = _measured(rulers, X)
    places, rough_asked = _spread_out(rulers, asked), _roughness(rulers, X)
    exact, digits = (np.zeros((len(rows), len(rulers) + 1), dtype=np.int64) for _ in range(2))
    nearest = np.full((len(rows), _RANKS[1]), np.inf, dtype=np.float32)
    for start in range(0, training.size, _BLOCK):
        block = training.X[start : start + _BLOCK]
        measured = _measured(rulers, block)
        _count(exact, rulers, asked, measured)
        _count(digits, rulers, asked, measured, (rough_asked, _roughness(rulers, block)))
        nearest = _nearer(nearest, places, _spread_out(rulers, measured))
    new = ~known[rows]
    distances = np.sqrt(nearest.clip(0))
    # Where columns nearly follow from others, all numbers are alike or none.
    closer = _by_chance(distances, distances[:, 0]) < _CLOSER
    near = _before_a_gap(exact, new) | _enough(_before_a_gap(digits, new) & closer)
    if sum(ruler.fine for ruler in rulers) >= _FINE_COLUMNS:
        near |= _too_close(distances, new)
    return NearCopies(int(np.count_nonzero(near)), len(rows))


@dataclass(frozen=True, eq=False)
class _Ruler:
    """How the cells of one column are compared: numbers in robust standard deviations, words by their codes.

    ``codes`` are those of categories, or of texts; ``words`` those that get a dimension each.
    """

    at: int
    tells: bool
    """Whether the column is neither constant nor a record number."""
    middle: float = 0.0
    spread: float = 1.0
    codes: _Floats | dict[str, int] | None = None
    words: tuple[float, ...] = ()
    fine: bool = False
    """Whether it has many numbers: distances of records of few words and numbers go in steps."""

    @classmethod
    def of(cls, at: int, column: Column, training: NDArray[Any], asked: NDArray[Any]) -> Self:
        if column.text:
            texts = sorted({_spelled(text) for text in asked})
            return cls(at, len(texts) > 1, codes={text: number for number, text in enumerate(texts)})
        numbers = training.astype(np.float64)
        present = np.unique(numbers[~np.isnan(numbers)])
        if column.categories is not None:
            names = [*map(_spelled, column.categories), "\0missing"]
            number = {name: position for position, name in enumerate(dict.fromkeys(names))}
            codes = np.array([number[name] for name in names], dtype=np.float32)
            # What the public set does not have may be another spelling of what it has.
            codes = np.insert(codes, len(column.categories), _UNKNOWN)
            few = tuple(map(float, np.unique(codes))) if len(number) <= _MOST_CATEGORIES else ()
            return cls(at, len(present) > 1, codes=codes, words=few)
        if not len(present):
            return cls(at, tells=False)
        low, middle, high = np.nanquantile(numbers, (0.25, 0.5, 0.75))
        spread = (high - low) / _NORMAL_IQR or float(np.nanstd(numbers)) or 1.0
        counts = len(present) == len(numbers) >= 2 * _FEWEST and bool((np.floor(present) == present).all())
        return cls(at, len(present) > 1 and not counts, float(middle), float(spread), fine=len(present) > _FEWEST)

    def measure(self, cells: NDArray[Any]) -> _Floats:
        """Numbers to compare; ``_MISSING`` stands for a missing one, which is the same as another."""
        if isinstance(self.codes, dict):
            return np.array([self.codes.get(_spelled(text), -1) for text in cells], dtype=np.float32)
        numbers = cells.astype(np.float64)
        missing = np.isnan(numbers)
        if self.codes is not None:
            return self.codes[np.where(missing, len(self.codes) - 1, numbers).astype(np.intp)]
        with np.errstate(over="ignore"):  # numbers near the largest that there are
            return np.where(missing, _MISSING, (numbers - self.middle) / self.spread).astype(np.float32)


def _by_themselves(rulers: Sequence[_Ruler], X: NDArray[Any]) -> list[_Ruler]:
    """The columns but for those that follow from another one, such as an age in decades.

    Records that differ in one of these differ in both, and leave a gap where there are no copies.
    """
    some = np.linspace(0, len(X) - 1, min(len(X), _MOST_ASKED)).astype(np.intp)
    codes = [np.unique(ruler.measure(X[some, ruler.at]), return_inverse=True)[1] for ruler in rulers]
    kept: list[int] = []
    # The finest first; of two that follow from each other the first one stays.
    for at in sorted(range(len(rulers)), key=lambda at: (-codes[at].max(), at)):
        if not any(_follows(codes[at], codes[finer]) for finer in kept):
            kept.append(at)
    return [rulers[at] for at in sorted(kept)]


def _follows(codes: NDArray[np.intp], finer: NDArray[np.intp]) -> bool:
    """Whether records with the same code in a finer column have the same in this one; of those alone nothing is known.

    >>> age = np.repeat(np.arange(20, 70), 2)
    >>> _follows(age // 10, age), _follows(np.arange(100) % 7, age), _follows(age // 10, np.arange(100))
    (True, False, False)
    """
    several = np.bincount(finer)[finer] > 1
    if np.count_nonzero(several) < _FEWEST:
        return False
    pairs = np.unique(finer[several] * (codes.max() + 1) + codes[several])
    return len(pairs) <= len(np.unique(finer[several])) * (1 + _SHARE)


def _spelled(text: str) -> str:
    """Words whatever their case, blanks and accents; a long text as it is."""
    return without_accents(text) if len(text) < 2 * _MOST_CATEGORIES else text


def _measured(rulers: Sequence[_Ruler], X: NDArray[Any]) -> _Floats:
    return np.stack([ruler.measure(X[:, ruler.at]) for ruler in rulers])


def _roughness(rulers: Sequence[_Ruler], X: NDArray[Any]) -> _Floats:
    """Half of the last decimal digit of each number, ``(columns, records)``, in units of the rulers."""
    found = np.zeros((len(rulers), len(X)), dtype=np.float32)
    for ruler, half in zip(rulers, found, strict=True):
        if ruler.codes is None:
            numbers = X[:, ruler.at].astype(np.float64)
            for decimals in reversed(range(_DECIMALS)):
                with np.errstate(over="ignore"):
                    rounded = np.round(numbers, decimals)
                half[numbers == rounded] = 0.5 * 10.0**-decimals / ruler.spread
    return found.clip(_DIGITS, _MOST_DIGITS)


def _count(
    found: _Counts,
    rulers: Sequence[_Ruler],
    asked: _Floats,
    some: _Floats,
    rough: tuple[_Floats, _Floats] | None = None,
) -> None:
    """Add how many training records differ in so many cells from each asked one to ``found`` ``(asked, cells + 1)``."""
    for first in range(0, asked.shape[1], _ROWS):
        these = slice(first, first + _ROWS)
        differing = np.zeros((len(asked[0, these]), some.shape[1]), dtype=np.uint16)
        for at, ruler in enumerate(rulers):
            a, b = asked[at, these, None], some[at]
            if ruler.codes is not None:
                unlike = a != b
                if (a == _UNKNOWN).any() or (b == _UNKNOWN).any():
                    unlike &= (a != _UNKNOWN) & (b != _UNKNOWN)
                differing += unlike
            elif rough is None:
                differing += a != b
            else:
                differing += np.abs(a - b) > np.maximum(rough[0][at, these, None], rough[1][at])
        for at, row in enumerate(differing, first):
            found[at] += np.bincount(row, minlength=found.shape[1])


def _before_a_gap(differing: _Counts, new: _Mask) -> _Mask:
    """Records with a few training ones within a number of differing cells, where nearly none live just beyond."""
    within = differing.cumsum(axis=1)
    cells = within.shape[1] - 1
    best = np.zeros(len(within), dtype=bool)
    if _has_gaps(differing.sum(axis=0)):
        return best
    for beyond in range(1, min(cells, max(_FEW_CELLS, cells // 3)) + 1):
        before, here = within[:, beyond - 1], within[:, beyond]
        near = new & (before > 0) & (before <= _MOST_COPIES) & (here == before)
        many = int(np.count_nonzero(near))
        if many >= _NEARLY_ALL * np.count_nonzero(new & (here > 0)) and many > np.count_nonzero(best):
            best = near
    return _enough(best)


def _enough(near: _Mask) -> _Mask:
    """The same records, or none if they are too few."""
    return near if np.count_nonzero(near) >= max(_FEWEST_COPIES, _SHARE * len(near)) else np.zeros_like(near)


def _has_gaps(pairs: _Counts) -> bool:
    """Whether strangers differ in some numbers of cells and never in those between, as zeros and ones of one word do.

    ``pairs`` ``(cells + 1,)`` are how many pairs of records differ in so many cells.
    """
    below = pairs.cumsum() / max(1, pairs.sum())
    between = pairs[1:-1]
    bulk = (below[1:-1] > _TYPICAL) & (below[:-2] < 1 - _TYPICAL)
    return bool((bulk & (between < _LUMPY * np.minimum(pairs[:-2], pairs[2:]))).any())


def _by_chance(distances: _Floats, first: _Floats) -> NDArray[np.float64]:
    """How likely a record's nearest one is so near, ``(asked,)``; 1 where that cannot be said.

    ``distances`` ``(asked, ranks)`` are those of training records, sorted; infinite where there are fewer.
    """
    inner, outer = distances[:, _RANKS[0] - 1], distances[:, _RANKS[1] - 1]
    judged = np.isfinite(outer) & (outer > 0) & (inner > _SAME * outer)
    if np.count_nonzero(judged) < _FEWEST:
        return np.ones(len(first))
    grows = max(_SAME, float(np.log(outer[judged] / inner[judged]).mean()))
    dimensions = min(_MOST_DIMENSIONS, float((1 / np.arange(*_RANKS)).sum()) / grows)
    least = np.divide(first, inner, out=np.ones(len(first)), where=judged).clip(0, 1) ** dimensions
    likely: NDArray[np.float64] = 1 - (1 - least) ** (_RANKS[0] - 1)
    return likely


def _too_close(distances: _Floats, new: _Mask) -> _Mask:
    """Records whose nearest training record is too near for chance, if these are many."""
    # Records of few values are equal by chance: the nearest other one counts.
    apart = distances > _SAME * distances[:, -1:]
    by_chance = _by_chance(distances, np.where(apart, distances, np.inf).min(axis=1))
    judged = new & (by_chance < 1)
    near: _Mask = judged & (by_chance < _TYPICAL)
    if np.count_nonzero(near) > np.count_nonzero(judged) / 2:
        return near
    near = judged & (by_chance < _RARE)
    return near if np.count_nonzero(near) >= max(1, _MANY * np.count_nonzero(judged)) else np.zeros_like(near)


def _spread_out(rulers: Sequence[_Ruler], measured: _Floats) -> _Floats:
    """Numbers, large ones compressed, and a dimension for each of few categories: ``(records, dimensions)``."""
    places: list[_Floats] = []
    for ruler, cells in zip(rulers, measured, strict=True):
        if ruler.codes is None:
            places.append(np.where(cells == _MISSING, 0, np.arcsinh(cells)).clip(-_FARTHEST, _FARTHEST))
        else:
            places += [(cells == word).astype(np.float32) / np.float32(np.sqrt(2)) for word in ruler.words]
    return np.stack(places, axis=1) if places else np.zeros((measured.shape[1], 1), dtype=np.float32)


def _nearer(nearest: _Floats, asked: _Floats, some: _Floats) -> _Floats:
    """The least squares of distances, those of some more training records among them, sorted."""
    squares = (asked**2).sum(axis=1)[:, None] + (some**2).sum(axis=1) - 2 * asked @ some.T
    both = np.concatenate([nearest, squares], axis=1)
    return np.sort(np.partition(both, nearest.shape[1] - 1, axis=1)[:, : nearest.shape[1]], axis=1)
