"""How much nearer an example is to one record of a silo than to all others, and how often chance explains that.

A copy of a patient lies close to one record around which there is nobody else. So the score of an example is the
logarithm of how many times farther its fifth nearest record is than its nearest. Both are the silo's: no other row of
the public set changes the score of one, and copies of a patient in many words each have it.

The distance of an example and a record is taken over the columns that the example has. Numbers count with their squared
difference in the silo's own robust standard deviations, categories 0 or 1. A column that the record lacks counts 2, the
squared difference that is to be expected of two strangers.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from fedct_flwr.hospital.own_scale import Measured

NEAR: Final = 0.01
"""An example is near if its score is one that chance gives one in a hundred."""

FEWEST: Final = 20
"""As many records, and one more, are needed to judge chance by."""

_NEIGHBOR: Final = 5
_RATES: Final = np.array([0.02, NEAR, 5e-3, 1e-3, 1e-4, 1e-6, 1e-9])
_TAIL: Final = 0.1
_CLOSEST: Final = 1e-9
_UNKNOWN: Final = np.float32(2)
_BLOCK_BYTES: Final = 1 << 25

_Floats = NDArray[np.float32]
_Scores = NDArray[np.float64]
_Rows = NDArray[np.intp]


class Score(NamedTuple):
    """For each example: how much it stands out, 0 or more, and the position of the record that it is nearest to."""

    value: _Scores
    nearest: _Rows


def scores(examples: Measured, records: Measured, themselves: _Rows | None = None) -> Score:
    """How much each example stands out. ``themselves``: the records that the examples are, left out for each.

    Memory is bounded by blocks of 32 MB.
    """
    value = np.zeros(len(examples.numbers))
    nearest = np.zeros(len(value), dtype=np.intp)
    others = len(records.numbers) - (themselves is not None)
    # Without another neighbor to compare with nothing stands out.
    if others < 2:
        return Score(value, nearest)
    rank = min(_NEIGHBOR, others) - 1
    for start, squares in _squares(examples, records):
        rows = np.arange(start, start + len(squares))
        if themselves is not None:
            squares[np.arange(len(rows)), themselves[rows]] = np.inf
        nearest[rows] = squares.argmin(axis=1)
        further = np.partition(squares, rank, axis=1)[:, rank].astype(np.float64)
        # Rounded, which does no harm to the fifth; the nearest is made sure of.
        closest = _exactly(examples.at(rows), records.at(nearest[rows]))
        ratio = np.divide(closest, further, out=np.ones(len(rows)), where=further > 0)
        value[rows] = -0.5 * np.log(np.clip(ratio, _CLOSEST**2, 1))
    return Score(value, nearest)


class Chance(NamedTuple):
    """Thresholds of the score, and the share of examples that chance brings above each, at ``_RATES`` at least."""

    thresholds: _Scores
    rates: _Scores

    @classmethod
    def of(cls, expected: _Scores) -> "Chance | None":
        """What the scores of a silo's own records say of chance; None if these are too few.

        Where distances are small, the number of neighbors grows as a power of them, so the scores have an exponential
        tail. Its mean is that of the largest tenth of the scores, by their median, which some records that are in the
        file twice do not move, and a standard error more. Where the silo's own records are above a threshold more
        often than the tail says, their share counts.
        """
        ordered = np.sort(expected)[::-1]
        count = max(FEWEST, int(_TAIL * len(ordered)))
        if count >= len(ordered):
            return None
        start = ordered[count]
        mean = (np.median(ordered[:count]) - start) / np.log(2) * (1 + 1 / np.sqrt(count))
        share = (count + 1) / (len(ordered) + 1)
        thresholds = start + mean * np.log(np.maximum(share / _RATES, 1))
        above = (ordered[:, None] > thresholds).sum(axis=0) / (len(ordered) + 1)
        return cls(thresholds, np.maximum(_RATES, above))

    def p_value(self, found: _Scores) -> float:
        """How likely chance makes so many of the scores so large: the least binomial tail, Bonferroni over them."""
        above = (found[:, None] > self.thresholds).sum(axis=0)
        return min(1.0, len(_RATES) * float(binom.sf(above - 1, len(found), self.rates).min()))

    def near(self, found: _Scores) -> NDArray[np.bool_]:
        """Which of the scores are those of near examples."""
        near: NDArray[np.bool_] = found > self.thresholds[_RATES == NEAR]
        return near

    @property
    def near_rate(self) -> float:
        """Share of near examples that chance explains."""
        return float(self.rates[_RATES == NEAR][0])


def _squares(examples: Measured, records: Measured) -> Iterator[tuple[int, _Floats]]:
    """Squared distances, a block of rows after the other with the number of its first row."""
    b, has_b = np.nan_to_num(records.numbers), (~np.isnan(records.numbers)).astype(np.float32)
    per_record = b**2 + _UNKNOWN * (1 - has_b)
    step = max(1, _BLOCK_BYTES // (4 * len(b)))
    for start in range(0, len(examples.numbers), step):
        rows = slice(start, start + step)
        a, has_a = np.nan_to_num(examples.numbers[rows]), (~np.isnan(examples.numbers[rows])).astype(np.float32)
        total = -2 * a @ b.T
        total += (a**2).sum(axis=1)[:, None] if has_b.all() else a**2 @ has_b.T
        total += per_record.sum(axis=1) if has_a.all() else has_a @ per_record.T
        for mine, other in zip(examples.codes[rows].T, records.codes.T, strict=True):
            total += ~np.isnan(mine)[:, None] & (mine[:, None] != other)
        yield start, np.maximum(total, 0)


def _exactly(examples: Measured, records: Measured) -> _Scores:
    """The squared distance of each example to the record of the same position, not rounded."""
    numbers = (examples.numbers.astype(np.float64) - records.numbers) ** 2
    codes = (examples.codes != records.codes).astype(np.float64)
    numbers[np.isnan(records.numbers)] = _UNKNOWN
    numbers[np.isnan(examples.numbers)] = codes[np.isnan(examples.codes)] = 0
    total: _Scores = numbers.sum(axis=1) + codes.sum(axis=1)
    return total
