"""Tables as scores that can be correlated: ranks of numbers, signs of words and of classes, whatever their units."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection.profile import Kind, Profile

_MOST_COLUMNS: Final = 40
_MOST_RECORDS: Final = 10_000
_MOST_WORDS: Final = 4
_MOST_DIFFERENT: Final = 50
_MOST_CLASSES: Final = 6
_TWO: Final = 2
_RIDGE: Final = 0.05
"""Added to the variance of each score: two columns that say the same can be told from none else."""

_FEW_NUMBERS: Final = 20
_COMES_AGAIN: Final = 0.5
_SAME_DISTANCE: Final = 0.8
_LIKE_THE_NEXT: Final = 0.2
_FURTHER: Final = tuple(range(30, 40))

Outcome = NDArray[np.float64]
"""The classes of a table's records, as they were numbered, or the numbers to predict; NaN without one."""


@dataclass(frozen=True, eq=False)
class Scores:
    """The first records of a table: ``values`` ``(records, scores)`` of mean 0 and variance 1, or 0 for no value.

    ``names`` are the columns, the label's among them; ``owner`` ``(scores,)`` is which of them each score is of.
    ``shares`` ``(scores,)`` are those of the larger of two values, or NaN where there are more.
    """

    names: tuple[str, ...]
    owner: NDArray[np.intp]
    values: NDArray[np.float64]
    shares: NDArray[np.float64]

    @cached_property
    def correlations(self) -> NDArray[np.float64]:
        """Of each score with each, ``(scores, scores)``."""
        return correlated(self.values, self.values)

    @cached_property
    def repeats(self) -> bool:
        """Whether records are of the same patients again, in one order, as visits are: they tell less than so many.

        Then half of a column's numbers or more come again, nearly all of them after the same number of records; or
        most columns of a record are like those of the next one, and less like those of records further down.
        """
        return self._goes_on or any(_comes_again(self.values[:, at]) for at in range(self.values.shape[1]))

    @property
    def _goes_on(self) -> bool:
        if len(self.values) <= _FURTHER[-1] or not self.values.any():
            return False
        known = self.values[:, np.ptp(self.values, axis=0) > 0]
        next_one, further = _like(known, 1), np.mean([_like(known, lag) for lag in _FURTHER], axis=0)
        return bool(np.median(next_one - further) >= _LIKE_THE_NEXT)

    def of(self, column: int) -> NDArray[np.bool_]:
        """Which scores are of a column."""
        chosen: NDArray[np.bool_] = self.owner == column
        return chosen


@dataclass(frozen=True)
class Scale:
    """Which columns become scores, and which of their words: those of the public set, so that all tables have the same.

    ``classes`` are the numbers of the classes, the most frequent ones; None where numbers are predicted, or nothing is.
    """

    numbers: tuple[str, ...]
    words: Mapping[str, Sequence[str]]
    label: str = ""
    classes: Sequence[int] | None = None

    @classmethod
    def of(cls, public: Profile, label: str = "", outcomes: Sequence[Outcome] = (), *, number: bool = False) -> Self:
        """The scale for the public set's columns, and for these outcomes of the silos' records."""
        named = {
            name: text
            for name, text in public.texts.items()
            if public.kinds[name] is Kind.TEXT and 1 < len(text.values) <= _MOST_DIFFERENT
        }
        candidates = [name for name in public.kinds if name in public.numbers.position or name in named]
        some = (
            {candidates[at] for at in np.linspace(0, len(candidates) - 1, _MOST_COLUMNS).astype(int)}
            if candidates
            else ()
        )
        words = {}
        for name, text in named.items():
            if name in some:
                order = np.argsort(-text.counts, kind="stable")[: 1 if len(text.values) == 2 else _MOST_WORDS]
                words[name] = text.values.take(pa.array(order)).to_pylist()
        classes: list[int] | None = None
        if outcomes and not number:
            every = np.concatenate([each[np.isfinite(each)] for each in outcomes]).astype(int)
            found = np.argsort(-np.bincount(every), kind="stable") if len(every) else np.zeros(0, dtype=int)
            classes = found[: 1 if len(found) <= 2 else _MOST_CLASSES].tolist()
        numbers = tuple(name for name in candidates if name in some and name not in words)
        return cls(numbers, words, label if outcomes else "", classes)

    def scores(self, table: Profile, outcome: Outcome | None = None) -> Scores:
        """The scores of a table's first records."""
        records = min(table.records, _MOST_RECORDS)
        nothing = np.full(records, np.nan)
        found: list[tuple[str, NDArray[np.float64]]] = []
        for name in self.numbers:
            numeric = table.kinds.get(name) in (Kind.NUMBERS, Kind.TRUTH)
            found.append((name, _numbers(table.columns[name].slice(0, records)) if numeric else nothing))
        for name, words in self.words.items():
            if table.kinds.get(name) is Kind.TEXT:
                cells = table.columns[name].slice(0, records).cast(pa.string())
                found += [(name, _numbers(pc.equal(cells, word))) for word in words]
            else:
                found += [(name, nothing) for _ in words]
        if self.label:
            y = nothing if outcome is None else outcome[:records]
            classes = self.classes if self.classes is not None else (None,)
            found += [(self.label, y if one is None else np.where(np.isnan(y), np.nan, y == one)) for one in classes]
        names = tuple(dict.fromkeys(name for name, _ in found))
        number = {name: at for at, name in enumerate(names)}
        owner = np.array([number[name] for name, _ in found], dtype=np.intp)
        columns = [_ranked(values) for _, values in found]
        scores = np.stack([each for each, _ in columns], axis=1) if columns else np.zeros((records, 0))
        return Scores(names, owner, scores, np.array([share for _, share in columns]))


def correlated(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Correlations of the scores of records ``(records, scores)`` with those of others, ``(scores, scores)``."""
    found: NDArray[np.float64] = one.T @ other / max(1, len(one))
    return found


def precision(correlations: NDArray[np.float64]) -> NDArray[np.float64]:
    """The inverse of correlations, with a little more variance than they have."""
    found: NDArray[np.float64] = np.linalg.inv(correlations + _RIDGE * np.eye(len(correlations))).astype(np.float64)
    return found


def rule(correlations: NDArray[np.float64], mine: NDArray[np.bool_], others: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The weights ``(others, mine)`` by which other scores tell these."""
    return precision(correlations[np.ix_(others, others)]) @ correlations[np.ix_(others, mine)]


def fit(
    correlations: NDArray[np.float64],
    weights: NDArray[np.float64],
    mine: NDArray[np.bool_],
    others: NDArray[np.bool_],
) -> float:
    """How scores correlate with what a rule says of them: one score, or several of one column."""
    told = float((weights * correlations[np.ix_(others, mine)]).sum())
    of_rule = float((weights * (correlations[np.ix_(others, others)] @ weights)).sum())
    both = of_rule * float(np.diag(correlations)[mine].sum())
    return told / np.sqrt(both) if both > 0 else 0.0


def _numbers(column: pa.ChunkedArray) -> NDArray[np.float64]:
    values: NDArray[np.float64] = column.cast(pa.float64(), safe=False).to_numpy().astype(np.float64)
    return np.where(np.isinf(values), np.nan, values)


def _ranked(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Ranks of mean 0 and variance 1, the same for the same number, 0 for NaN; and the share of the larger of two."""
    known = ~np.isnan(values)
    _, which, counts = np.unique(values[known], return_inverse=True, return_counts=True)
    ranks: NDArray[np.float64] = np.zeros(len(values))
    share = float(counts[1] / counts.sum()) if len(counts) == _TWO else np.nan
    if len(counts) > 1:
        middle = (np.cumsum(counts) - counts / 2)[which]
        ranks[known] = middle - middle.mean()
        ranks /= np.sqrt((ranks**2).mean())
    return ranks, share


def _like(values: NDArray[np.float64], lag: int) -> NDArray[np.float64]:
    """The correlation of each score with that of the record ``lag`` rows further down."""
    found: NDArray[np.float64] = (values[:-lag] * values[lag:]).mean(axis=0)
    return found


def _comes_again(score: NDArray[np.float64]) -> bool:
    """Whether numbers come again at one distance, but for the most frequent one: of many zeros, most are neighbors."""
    order = np.argsort(score, kind="stable")
    starts = np.flatnonzero(np.diff(score[order], prepend=np.nan) != 0)
    lengths = np.diff(starts, append=len(order))
    if not len(lengths):
        return False
    at = int(lengths.argmax())
    order = np.delete(order, slice(starts[at], starts[at] + lengths[at]))
    same = np.diff(score[order]) == 0
    again = int(same.sum())
    if again < _COMES_AGAIN * len(order) or len(order) - again <= _FEW_NUMBERS:
        return False
    return bool(np.bincount(np.diff(order)[same]).max() >= _SAME_DISTANCE * again)
