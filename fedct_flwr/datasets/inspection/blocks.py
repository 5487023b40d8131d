"""Columns that go with each other and with no other one: a block that was joined to the wrong records.

Two files were joined by a wrong key, so the laboratory's columns stand next to other patients. Each still goes with the
others of its block, and a look at single columns finds nothing. Here the columns of some records are grouped by what
goes together at all. Nothing goes across the border of such a group if chance explains what does (Pillai's trace of the
scores on both sides, chi-squared). It is said where other records show a rule across it, of which these show nothing.

The records are those of a whole table, next to the other tables, or every second or third one, or a quarter of a table,
next to its other records. Where these are other patients, columns have other distributions there, and nothing is said.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, combinations
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.parts import are_alike
from fedct_flwr.datasets.inspection.scores import Scores, correlated, fit, precision, rule
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.text.printable import listed
from fedct_flwr.types import SiloName

_FEWEST: Final = 60
"""Records on each side."""
_GOES: Final = 1e-4
"""Chance below which two columns go together."""
_NOTHING: Final = 1e-2
"""Chance above which nothing goes across a border."""
_LITTLE: Final = 2.3
"""Standard errors of what is the rule elsewhere that are none of it."""
_FAR: Final = 5.5
_FARTHER: Final = 7.0
"""Standard errors less than if the rule held: in every second record, and where records may be other patients."""
_SURELY: Final = 1e-6
_PART: Final = 0.25
"""Of what two columns have in common elsewhere, at which their correlation is half as large."""
_ENOUGH: Final = 200
"""Records of a silo alone from which some sign of its labels shows."""
_NOTHING_AT_ALL: Final = 0.05
_CONFIDENT: Final = 1.64
"""Standard errors, by chance exceeded once in 20."""
_CHOSEN: Final = 3.0
"""Standard errors by which the best of many borders may be better than it is."""
_OF_TWO: Final = 3.0
"""Added to the kurtosis of two classes: one by the product of their shares."""
_HARDLY_TOLD: Final = 0.36
"""Square of the distance of two classes in standard deviations, along what tells most of them."""
_MOSTLY: Final = 0.8
_NEARLY_ALL: Final = 0.95
_HOLDS: Final = 0.3
"""Correlation of what lies on both sides of a border (canonical, Hotelling 1936)."""
_LONG_TAILS: Final = 10.0
"""Kurtosis of zeros and ones of which a tenth is one: with rarer ones, few records are all that is told."""
_OPPOSITE: Final = -0.2
_FEWEST_COLUMNS: Final = 3
_FEW_GROUPS: Final = 5
_VARIES: Final = 1e-9
_QUARTERS: Final = 4
_PERIODS: Final = {2: "every second record", 3: "every third record"}
_MOST_NAMED: Final = 3

_Floats = NDArray[np.float64]
_Mask = NDArray[np.bool_]


class _Some(NamedTuple):
    """Correlations of some records ``(scores, scores)``, and how many records they are."""

    matrix: _Floats
    records: int
    tails: _Floats

    @classmethod
    def of(cls, values: _Floats) -> Self:
        """Of scores ``(records, scores)``."""
        return cls(correlated(values, values), len(values), np.square(np.square(values)).mean(axis=0))

    def without(self, some: Self) -> Self:
        """Of the records that are left without some."""
        left = self.records - some.records
        matrix, tails = (
            (of_all * self.records - of_some * some.records) / left
            for of_all, of_some in ((self.matrix, some.matrix), (self.tails, some.tails))
        )
        return self._replace(matrix=matrix, records=left, tails=np.where(tails > _VARIES, tails, 0))


def apart(scores: Mapping[SiloName, Scores], label: str, say: Words) -> Iterator[Finding]:
    """Blocks of columns, and labels, that go with no other column in a whole table, or in some of its records."""
    for silo, own in scores.items():
        usable = len(own.values) >= 2 * _FEWEST and not own.repeats
        found = next(_in_some_records(own, label, silo, say), None) if usable else None
        if found:
            yield found


def strange_blocks(
    tables: Mapping[SiloName, Scores], label: str, say: Words, narrow: Mapping[SiloName, Collection[str]]
) -> Iterator[Finding]:
    """Tables in which a block goes with no other column, as it does in the other tables.

    ``narrow`` are by silo the columns in which it has other records: with these, nothing need go.
    """
    enough = {silo: each for silo, each in tables.items() if len(each.values) >= _FEWEST and not each.repeats}
    known = {silo: _Some.of(each.values) for silo, each in enough.items()}
    for silo in enough if len(enough) > 1 else ():
        others = [each for other, each in enough.items() if other != silo]
        # Of two tables, it is the silo's that is compared with the public set.
        if not silo and len(others) == 1:
            continue
        own = known[silo]
        rest = _together([each for other, each in known.items() if other != silo])
        names, owner = enough[silo].names, enough[silo].owner
        left = _usable(own, rest, owner, names.index(label) if label in names else -1)
        left &= ~np.isin(owner, [at for at, name in enumerate(names) if name in narrow.get(silo, ())])
        several = {other: each for other, each in known.items() if other != silo}
        blocks = _cut_off(own, rest, owner, left, _FARTHER)
        block = next((each for each in blocks if _holds_in_all(several, rest, left, owner, each)), None)
        if block:
            where = "the public set" if say.private else "the other tables"
            yield _said([names[at] for at in block], label, silo, f"as in {where}", "", say)


def without_records(scores: Scores, label: str, silo: SiloName, say: Words) -> Iterator[Finding]:
    """Labels of a silo with which nothing in its records goes: no other table shows what should.

    Squares are looked at, too: a class may be in the middle of a column.
    """
    # scipy takes its time to import.
    from scipy.stats import chi2

    if label not in scores.names or len(scores.values) < _ENOUGH:
        return
    mine = scores.of(scores.names.index(label))
    others = scores.values[:, ~mine]
    squares = others**2
    values = np.hstack([others, squares - squares.mean(axis=0), scores.values[:, mine]])
    some = _Some.of(values)
    is_label = np.arange(values.shape[1]) >= 2 * others.shape[1]
    varies = some.tails > 0
    if not (is_label & varies).any() or not (~is_label & varies).any():
        return
    freedom = int((is_label & varies).sum() * (~is_label & varies).sum())
    told = _across(some, is_label & varies, ~is_label & varies)
    # Of many columns, or of a rare class, the records may have something to tell that does not show.
    most = max(0.0, told - freedom) + _CONFIDENT * np.sqrt(2 * freedom + 4 * max(0.0, told - freedom))
    of_classes = most / len(values) * (some.tails[is_label & varies].min() + _OF_TWO)
    if chi2.sf(told, freedom) > _NOTHING_AT_ALL and of_classes <= _HARDLY_TOLD:
        said = f"nothing in the records of silo {silo} goes with its labels"
        fix = "check that its labels stand next to the right records, as a model learns nothing from these"
        yield Finding("unrelated-labels", Severity.SAID, said, fix, silo=silo)


def _holds_in_all(
    tables: Mapping[SiloName, _Some], rule: _Some, left: _Mask, owner: NDArray[np.intp], block: list[int]
) -> bool:
    """Whether a rule across the border of a block holds in each of several tables that have these columns."""
    found = []
    # Of all columns, each is a block.
    inside = np.isin(owner, block if (left & ~np.isin(owner, block)).any() else block[:1])
    for each in tables.values():
        varies = left & (each.tails > 0)
        mine, others = varies & inside, varies & ~inside
        if mine.any() and others.any():
            usual = _expected(rule, mine, others, each.records)
            found.append(_told(each, rule, mine, others) >= max(_LITTLE, usual / 2))
    return bool(found) and all(found)


def _in_some_records(scores: Scores, label: str, silo: SiloName, say: Words) -> Iterator[Finding]:
    rows, every = np.arange(len(scores.values)), _Some.of(scores.values)
    outcome = scores.names.index(label) if label in scores.names else -1
    for chosen, where in _parts(rows):
        some, size = scores.values[chosen], int(np.count_nonzero(~chosen))
        if min(len(some), size) < _FEWEST:
            continue
        here = _Some.of(some)
        there = every.without(here)
        left = _usable(here, there, scores.owner, outcome)
        periodic = where in _PERIODS.values()
        # In a quarter of a table in order, other records may go by other rules.
        for at in _reversed(here, there, scores.owner, left) if periodic else ():
            others = left & (scores.owner != at)
            if _are_alike(scores.values[:, others], chosen):
                said = f"{say.column(scores.names[at], silo)} goes with the others in the opposite way in {where}"
                fix = "check what its codes or its scale mean in these records"
                yield Finding("unrelated-rows", Severity.SAID, said, fix, scores.names[at], silo)
        for block in _cut_off(here, there, scores.owner, left, _FAR if periodic else _FARTHER):
            compared = left & (scores.owner != outcome) if block == [outcome] else left
            if _are_alike(scores.values[:, compared], chosen):
                columns = [scores.names[at] for at in block]
                yield _said(columns, label, silo, "as in its other records", where, say)


def _are_alike(values: _Floats, chosen: _Mask) -> bool:
    return are_alike(values[chosen], values[~chosen])


def _parts(rows: NDArray[np.int_]) -> Iterator[tuple[_Mask, str]]:
    """Records that somebody may have joined in another way than the others, and how they are called."""
    for period, what in _PERIODS.items():
        yield from ((rows % period == first, what) for first in range(period))
    for quarter in range(_QUARTERS):
        chosen = rows * _QUARTERS // max(1, len(rows)) == quarter
        place = np.flatnonzero(chosen)
        if len(place):
            yield chosen, f"records {place[0] + 1:,} to {place[-1] + 1:,}"


def _said(columns: Sequence[str], label: str, silo: SiloName, as_where: str, where: str, say: Words) -> Finding:
    place = f" in {where}" if where else ""
    code = "unrelated-rows" if where else "unrelated-column"
    of = say.at(silo)
    if len(columns) == 1:
        what = f"nothing goes with {say.column(columns[0], silo)}{place}, {as_where}"
    else:
        what = f"columns {listed(columns, _MOST_NAMED)} {of} go with no other column{place}, {as_where}"
    fix = "check that these cells stand next to the right records"
    return Finding(code, Severity.SAID, what, fix, label if label in columns else columns[0], silo)


def _usable(one: _Some, other: _Some, owner: NDArray[np.intp], label: int) -> _Mask:
    """Scores of numbers, of two words and of the label's classes, that vary on both sides."""
    tails = np.maximum(one.tails, other.tails)
    several = np.bincount(owner)[owner] > 1
    usable: _Mask = (np.minimum(one.tails, other.tails) > 0) & (tails <= _LONG_TAILS) & (~several | (owner == label))
    return usable


def _cut_off(here: _Some, there: _Some, owner: NDArray[np.intp], left: _Mask, far: float) -> Iterator[list[int]]:
    """Blocks, each the smaller side of a border across which nothing goes here, and a rule does there."""
    columns = np.unique(owner[left]).tolist()
    groups = _groups(here, owner, left, columns)
    if len(groups) < 2:
        return
    if len(groups) == len(columns) >= _FEWEST_COLUMNS:
        # Each column may be in an order of its own.
        ruled = [at for at in columns if _is_ruled(there, left & (owner == at), left, here.records, far)]
        cut = [at for at in ruled if _is_cut_off(here, there, left & (owner == at), left, far)]
        if len(cut) >= max(_FEWEST_COLUMNS, _MOSTLY * len(ruled)):
            yield cut
            return
    found = []
    for block in _sides(groups):
        mine = left & np.isin(owner, block)
        is_small = len(block) <= len(columns) / 2
        if is_small and _is_cut_off(here, there, mine, left, far) and _rest_holds(here, there, owner, left, block):
            found.append((_expected(there, mine, left & ~mine, here.records), block))
    # What went with the block is cut off by it, and a column that goes with none changes nothing.
    most = max((usual for usual, _ in found), default=0.0)
    yield from (block for usual, block in found if usual >= _NEARLY_ALL * most)


def _sides(groups: list[list[int]]) -> list[list[int]]:
    """Groups, or several of a few, on one side of a border; the small ones first."""
    most = len(groups) if len(groups) <= _FEW_GROUPS else 1
    sides = [sorted(chain(*some)) for size in range(1, most + 1) for some in combinations(groups, size)]
    return sorted(sides, key=len)


def _is_ruled(there: _Some, mine: _Mask, left: _Mask, records: int, far: float) -> bool:
    """Whether there is a rule across a border that so many records would show."""
    others = left & ~mine
    return _canonical(there, mine, others) >= _HOLDS and _expected(there, mine, others, records) >= far


def _is_cut_off(here: _Some, there: _Some, mine: _Mask, left: _Mask, far: float) -> bool:
    """Whether nothing goes across a border here, and a rule does there."""
    from scipy.stats import chi2

    others = left & ~mine
    if not _is_ruled(there, mine, left, here.records, far):
        return False
    by_chance = chi2.sf(_across(here, mine, others), int(mine.sum() * others.sum()))
    usual = _expected(there, mine, others, here.records)
    return bool(by_chance >= _NOTHING and _told(here, there, mine, others) <= min(_LITTLE, usual - far))


def _expected(there: _Some, mine: _Mask, others: _Mask, records: int) -> float:
    """How many standard errors across a border so many records should show, less what a rule learns by heart."""
    freedom = float(mine.sum() * others.sum())
    # The border is the one of many with most across it.
    learned = _across(there, mine, others) - freedom - _CHOSEN * np.sqrt(2 * freedom)
    return float(np.sqrt(max(0.0, learned) * records / there.records))


def _told(here: _Some, there: _Some, mine: _Mask, others: _Mask) -> float:
    """How many standard errors records show across a border of what is the rule there; none by chance."""
    of_mine, of_others = (precision(there.matrix[np.ix_(side, side)]) for side in (mine, others))
    weights = of_others @ there.matrix[np.ix_(others, mine)] @ of_mine
    shown = float((weights * here.matrix[np.ix_(others, mine)]).sum())
    own = [here.matrix[np.ix_(side, side)] for side in (others, mine)]
    variance = float((weights * (own[0] @ weights @ own[1])).sum()) / here.records
    return shown / np.sqrt(variance) if variance > 0 else 0.0


def _across(some: _Some, mine: _Mask, others: _Mask) -> float:
    """How much scores on one side tell of those on the other; chi-squared if they tell nothing."""
    matrix = some.matrix
    cross = matrix[np.ix_(others, mine)]
    of_mine, of_others = (precision(matrix[np.ix_(side, side)]) for side in (mine, others))
    return float(some.records * np.trace(of_mine @ cross.T @ of_others @ cross))


def _canonical(some: _Some, mine: _Mask, others: _Mask) -> float:
    """The correlation of those sums of scores on both sides that go together most."""
    cross = some.matrix[np.ix_(others, mine)]
    of_mine, of_others = (precision(some.matrix[np.ix_(side, side)]) for side in (mine, others))
    # Means of several tables' correlations need not be correlations of any table.
    squares = np.linalg.eigvals(of_mine @ cross.T @ of_others @ cross).real
    return float(np.sqrt(max(0.0, squares.max())))


def _groups(some: _Some, owner: NDArray[np.intp], left: _Mask, columns: list[int]) -> list[list[int]]:
    """The columns by what goes together, directly or by way of others."""
    goes = _pairs(some, owner, left, columns, 1.0) < _GOES
    groups: list[list[int]] = []
    waiting = set(range(len(columns)))
    while waiting:
        group, new = [], [waiting.pop()]
        while new:
            at = new.pop()
            group.append(columns[at])
            near = [other for other in waiting if goes[at, other]]
            waiting.difference_update(near)
            new += near
        groups.append(sorted(group))
    return groups


def _pairs(some: _Some, owner: NDArray[np.intp], left: _Mask, columns: list[int], part: float) -> _Floats:
    """Of each pair of columns, how likely chance explains this part of what they have in common."""
    from scipy.stats import chi2

    member = (owner[left] == np.array(columns)[:, None]).astype(float)
    of_pair = member @ (some.matrix[np.ix_(left, left)] ** 2) @ member.T
    sizes = member.sum(axis=1)
    likely: _Floats = chi2.sf(part * some.records * of_pair, np.outer(sizes, sizes))
    return likely


def _rest_holds(here: _Some, there: _Some, owner: NDArray[np.intp], left: _Mask, block: Collection[int]) -> bool:
    """Whether most columns that go together there, on one side of the border, do so here, too."""
    columns = np.unique(owner[left]).tolist()
    scaled = there._replace(records=here.records)
    expected = _pairs(scaled, owner, left, columns, _PART) < _SURELY
    inside = np.isin(columns, list(block))
    same_side = (inside[:, None] == inside[None, :]) & ~np.eye(len(columns), dtype=bool)
    wanted = expected & same_side
    if not wanted.any():
        return True
    return bool((_pairs(here, owner, left, columns, 1.0)[wanted] < _GOES).mean() >= _MOSTLY)


def _reversed(here: _Some, there: _Some, owner: NDArray[np.intp], left: _Mask) -> list[int]:
    """Columns with a direction for which the rule from there says the opposite here, the clearest first."""
    found = []
    for column in np.unique(owner[left]).tolist():
        mine, others = left & (owner == column), left & (owner != column)
        if mine.sum() != 1 or not others.any():
            continue
        weights = rule(there.matrix, mine, others)
        fits = [fit(each.matrix, weights, mine, others) for each in (here, there)]
        if fits[1] >= _HOLDS and fits[0] <= min(_OPPOSITE, -5 / np.sqrt(here.records)):
            found.append((fits[0], column))
    return [column for _, column in sorted(found)]


def _together(tables: Sequence[_Some]) -> _Some:
    """The mean correlations of those tables that have both columns."""
    there = [(each.tails > 0).astype(float) for each in tables]
    number = np.sum([np.outer(each, each) for each in there], axis=0)
    total = np.sum([each.matrix for each in tables], axis=0)
    mean = np.divide(total, number, out=np.zeros_like(total), where=number > 0)
    return _Some(mean, sum(each.records for each in tables), np.max([each.tails for each in tables], axis=0))
