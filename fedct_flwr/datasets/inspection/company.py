"""Columns that go with the others of their table in another way than elsewhere: swapped, reversed, or out of order.

From all other tables it is learned how a column follows from the other columns (a linear rule on ranks). Where that
rule fails at one silo and holds at all others, the column is not what it is there:

- *reversed*: the rule tells the opposite, as of a scale from best to worst, or of yes and no the other way round,
- *unrelated*: nothing at all goes with it, as if somebody had sorted it alone,
- *swapped*: the rule holds for two columns if each is taken for the other.

Ranks have no unit, and what is compared is whether the rule holds at all: silos may well differ in how well.
"""

from collections.abc import Collection, Iterator, Mapping
from itertools import combinations
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.scores import Scores, correlated, fit, precision, rule
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.text.printable import quoted
from fedct_flwr.types import SiloName

_FEWEST: Final = 60
_MOST_TABLES: Final = 12
_HOLDS: Final = 0.3
"""Correlation of a column with what the rule says, from which the rule holds."""
_NOTHING: Final = 0.1
_OPPOSITE: Final = -0.3
_UNLIKE: Final = 0.05
_MOSTLY: Final = 0.8
_FAR: Final = 5.0
"""Standard errors."""
_LONG_TAILS: Final = 10.0
"""Kurtosis of zeros and ones of which a tenth is one."""
_AS_WELL: Final = 0.7
"""Of the correlation elsewhere, once two columns have changed places."""

_Matrix = NDArray[np.float64]


class _Table(NamedTuple):
    """A table's correlations, how many records they are of, and of each score the kurtosis and the share of ones.

    ``halves`` are the correlations of every second record, and of those between: a rule fits its own records too well.
    """

    matrix: _Matrix
    records: int
    tails: _Matrix
    shares: _Matrix
    halves: tuple[_Matrix, _Matrix]

    @classmethod
    def of(cls, scores: Scores) -> Self:
        values = scores.values
        even, odd = (correlated(values[first::2], values[first::2]) for first in range(2))
        return cls(scores.correlations, len(values), (values**4).mean(axis=0), scores.shares, (even, odd))


def strangers(
    tables: Mapping[SiloName, Scores], say: Words, label: str, others: Mapping[SiloName, Collection[str]]
) -> Iterator[Finding]:
    """Columns that are not what they are in the other tables; the public set's, too, unless it is all there is.

    ``others`` are by silo the columns in which it has other records: with these, nothing need go. Of the ``label``
    nothing is said.
    """
    enough = {silo: each for silo, each in tables.items() if len(each.values) >= _FEWEST}
    largest = sorted(enough, key=lambda silo: -len(enough[silo].values))[:_MOST_TABLES]
    known = {silo: _Table.of(each) for silo, each in enough.items() if silo in largest}
    if len(known) < 2:
        return
    some = enough[largest[0]]
    for silo in sorted(known):
        # Of two tables, it is the silo's that is compared with the public set.
        one_class = label in some.names and not known[silo].tails[some.of(some.names.index(label))].any()
        if (silo or len(known) > 2) and not (silo and one_class):
            yield from _of_silo(silo, known, some.names, some.owner, say, label, others.get(silo, ()))


def _of_silo(
    silo: SiloName,
    tables: Mapping[SiloName, _Table],
    names: tuple[str, ...],
    owner: NDArray[np.intp],
    say: Words,
    label: str,
    narrow: Collection[str],
) -> Iterator[Finding]:
    own, others = tables[silo], {name: each for name, each in tables.items() if name != silo}
    fits = _Fits(own, others, owner, np.ones(len(owner), dtype=bool))
    # Several classes have no direction: where their rule fails, they are no help to judge a column by.
    for at in [at for at in fits.columns if names[at] == label and fits.size(at) > 1]:
        if fits.here[at] < fits.elsewhere(at) / 2:
            fits = fits.without(at)
    where = "the public set" if len(others) == 1 and "" in others else "the other tables"
    for a, b in _swapped(fits, {at for at, name in enumerate(names) if name != label}):
        said = (
            f"{say.column(names[a], silo)} goes with the others as {quoted(names[b])} does in {where}, and vice versa"
        )
        fix = "check whether the two have changed places"
        yield Finding("swapped-columns", Severity.SAID, said, fix, names[a], silo)
        fits = fits.without(a, b)
    for opposite in (True, False):
        if not opposite:
            fits = fits.without(*(at for at in fits.columns if names[at] in narrow))
        while (column := fits.worst(opposite=opposite)) is not None:
            fits = fits.without(column)
            if names[column] != label and fits.are_usual():
                yield _said(names[column], silo, where, say, opposite=opposite)


def _said(name: str, silo: SiloName, where: str, say: Words, *, opposite: bool) -> Finding:
    if opposite:
        said = f"{say.column(name, silo)} goes with the others in the opposite way of {where}"
        fix = "check its sign, and what its codes or its scale mean"
        return Finding("reversed-column", Severity.SAID, said, fix, name, silo)
    said = f"nothing goes with {say.column(name, silo)}, as it does in {where}"
    fix = "check that its cells stand next to the right records"
    return Finding("unrelated-column", Severity.SAID, said, fix, name, silo)


class _Fits:
    """How well the rule of the other tables holds for each column of one, and of each of them."""

    def __init__(
        self, own: _Table, others: Mapping[SiloName, _Table], owner: NDArray[np.intp], left: NDArray[np.bool_]
    ) -> None:
        # The public set has no labels, and a silo may have nothing in a column.
        left = left & (np.diag(own.matrix) > 0)
        self._own, self._others, self._owner, self._left = own, others, owner, left
        usual = _mean([each.matrix for each in others.values()])
        self.columns = np.unique(owner[left]).tolist()
        self._rules = {column: _rule(usual, owner, left, column) for column in self.columns}
        self.here = {column: self.fit(column) for column in self.columns}
        self.error = 1 / np.sqrt(own.records)

    def without(self, *columns: int) -> "_Fits":
        """The same without some columns, with which the others go as they must."""
        return _Fits(self._own, self._others, self._owner, self._left & ~np.isin(self._owner, columns))

    def fit(self, column: int, order: NDArray[np.intp] | None = None) -> float:
        """The correlation of a column with what the others' rule says, if scores stand in this order."""
        matrix = self._own.matrix if order is None else self._own.matrix[np.ix_(order, order)]
        return self._rules[column].fit(matrix)

    def elsewhere(self, column: int) -> float:
        """The least correlation at the other silos, each with the rule of all tables but it and this one.

        Of a single other table, each half has the rule of the other half.
        """
        if len(self._others) == 1:
            (one, other) = next(iter(self._others.values())).halves
            return float(np.mean([self._learned(one, other, column), self._learned(other, one, column)]))
        found = []
        for silo, each in self._others.items():
            # The public set has no labels that go with a column.
            if silo:
                rest = _mean([other.matrix for name, other in self._others.items() if name != silo])
                if each.matrix[np.ix_(self._owner == column, self._owner == column)].any():
                    found.append(self._learned(rest, each.matrix, column))
        return min(found, default=0.0)

    def _learned(self, source: _Matrix, target: _Matrix, column: int) -> float:
        """The correlation of a column in one table with what the rule of another one says."""
        left = self._left & (np.diag(target) > 0)
        return _rule(source, self._owner, left, column).fit(target)

    def worst(self, *, opposite: bool) -> int | None:
        """The column for which the rule fails most: it tells the opposite, or nothing goes with the column."""
        suspects = []
        for column in self.columns:
            here = self.here[column]
            is_opposite = here <= min(_OPPOSITE, -_FAR * self.error) and self._may_be_reversed(column)
            is_nothing = abs(here) <= max(_NOTHING, 2 * self.error) and self._is_alone(column)
            if is_opposite if opposite else is_nothing:
                there = self.elsewhere(column)
                if there >= max(_HOLDS, here + _FAR * self.error) and not self._is_rare(column):
                    suspects.append((here if opposite else 0.0, -there, column))
        return min(suspects)[2] if suspects else None

    def are_usual(self) -> bool:
        """Whether most rules that hold elsewhere hold here, too: other patients go by other rules in many columns."""
        there = {column: self.elsewhere(column) for column in self.columns}
        known = [self.here[column] >= value / 2 for column, value in there.items() if value >= _HOLDS]
        return not known or float(np.mean(known)) >= _MOSTLY

    def _may_be_reversed(self, column: int) -> bool:
        """Whether a column has a direction, and of two values each is as frequent as the other one is elsewhere."""
        at = np.flatnonzero(self._owner == column)
        theirs = np.array([float(each.shares[at[0]]) for each in self._others.values()])
        here, there = float(self._own.shares[at[0]]), float(np.nanmean(theirs)) if np.isfinite(theirs).any() else np.nan
        return len(at) == 1 and not abs(here - 1 + there) > abs(here - there) + _UNLIKE

    def _is_rare(self, column: int) -> bool:
        """Whether nearly all cells hold the same: then correlations are of a few records."""
        return bool(self._own.tails[self._owner == column].max() > _LONG_TAILS)

    def _is_alone(self, column: int) -> bool:
        """Whether nothing in the table goes with a column at all."""
        from scipy.stats import chi2

        others, mine = self._left & (self._owner != column), self._owner == column
        matrix = self._own.matrix
        if not matrix[np.ix_(mine, mine)].any():
            return False
        across = matrix[np.ix_(others, mine)]
        told = self._own.records * float((across * (precision(matrix[np.ix_(others, others)]) @ across)).sum())
        return bool(chi2.sf(told, np.count_nonzero(others) * np.count_nonzero(mine)) > 1e-3)

    def order(self, a: int, b: int) -> NDArray[np.intp]:
        """The scores, with those of two columns in each other's place."""
        found = np.arange(len(self._owner))
        ours, theirs = np.flatnonzero(self._owner == a), np.flatnonzero(self._owner == b)
        found[ours], found[theirs] = theirs, ours
        return found

    def size(self, column: int) -> int:
        """How many scores a column has."""
        return int(np.count_nonzero(self._owner == column))


def _swapped(fits: _Fits, columns: Collection[int]) -> Iterator[tuple[int, int]]:
    """Pairs of columns for which the rules hold only if each is taken for the other."""
    there = {column: fits.elsewhere(column) for column in fits.columns if column in columns}
    poor = [at for at, value in there.items() if value >= _HOLDS and fits.here[at] < value - _FAR * fits.error]
    found = []
    for a, b in combinations(poor, 2):
        if fits.size(a) != fits.size(b):
            continue
        order = fits.order(a, b)
        now = fits.fit(a, order), fits.fit(b, order)
        gained = min(now[0] - fits.here[a], now[1] - fits.here[b])
        if gained >= _FAR * fits.error and now[0] >= _AS_WELL * there[a] and now[1] >= _AS_WELL * there[b]:
            found.append((gained, a, b))
    taken: set[int] = set()
    for _, a, b in sorted(found, reverse=True):
        if taken.isdisjoint((a, b)):
            taken |= {a, b}
            yield a, b


class _Rule(NamedTuple):
    """What tells a column: weights ``(others, scores)`` of the other scores."""

    others: NDArray[np.bool_]
    mine: NDArray[np.bool_]
    weights: _Matrix

    def fit(self, matrix: _Matrix) -> float:
        """The correlation, in a table, of the column with what the rule says."""
        return fit(matrix, self.weights, self.mine, self.others)


def _rule(matrix: _Matrix, owner: NDArray[np.intp], left: NDArray[np.bool_], column: int) -> _Rule:
    others, mine = left & (owner != column), owner == column
    return _Rule(others, mine, rule(matrix, mine, others))


def _mean(matrices: list[_Matrix]) -> _Matrix:
    """The mean correlations of those tables that have any: columns may be empty, and the public set has no labels."""
    there = [np.diag(matrix) > 0 for matrix in matrices]
    number = sum(np.outer(each, each).astype(float) for each in there)
    return np.divide(sum(matrices), number, out=np.zeros_like(matrices[0]), where=number > 0)
