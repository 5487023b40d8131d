"""Findings on whole records: the same ones several times, at several silos, or in public.

Records of few or coarse columns agree by chance. How often they do is estimated from the columns' values, as if these
had nothing to do with each other. Columns that go together, such as zeros and ones of one word, agree more often. So
copies across tables are compared with those within tables, and copies within a table with those across: chance makes
no difference between them, and somebody who copies records does.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.profile import Profile
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.types import SiloName

_FEWEST: Final = 5
_SHARE: Final = 0.02
_SHARED: Final = 0.01
_BITS_TO_SPARE: Final = 6.0
"""One record in a hundred or fewer agrees with another by chance."""
_NO_CHANCE: Final = 10.0
"""So many times what chance explains is no chance."""
_MOST_TABLES: Final = 20
_HARDLY: Final = 3.0
"""The same for copies in another table, which are a part of it where many records agree by chance anyway."""


def of_records(
    public: Profile, silos: Mapping[SiloName, Profile], labels: Mapping[SiloName, NDArray[np.int64]], say: Words
) -> Iterator[Finding]:
    """Records that occur more than once. ``labels`` number the classes of each silo's records, or are empty.

    A real silo's records are not compared with the public set's.
    """
    # Records of few or coarse columns agree by chance.
    telling = {
        silo: found for silo, found in silos.items() if _bits(found) > np.log2(found.records + 1) + _BITS_TO_SPARE
    }
    alike = {silo: _alike(found) for silo, found in telling.items()}
    keys: dict[SiloName, NDArray[np.uint64]] = {}
    pairs = _Pairs.of({"": public, **silos}, across=not say.private)
    for silo, found in silos.items():
        own = found.keys + (labels[silo].astype(np.uint64) << np.uint64(40) if silo in labels else np.uint64(0))
        distinct, counts = np.unique(own, return_counts=True)
        if silo in telling:
            keys[silo] = distinct
        repeated = int((counts - 1).sum())
        by_chance = max(_NO_CHANCE * _by_chance(found), pairs.most_within(silo))
        if repeated >= _FEWEST and repeated > max(_SHARE * found.records, by_chance):
            said = f"{say.number(repeated, 'record')} at silo {silo} occur more than once, exactly"
            fix = "take copies out, or name the column that says which records belong together as group"
            yield Finding("repeated-records", Severity.SAID, said, fix, silo=silo)
    yield from _shared(keys, alike, pairs, say)
    yield from _contradicting(telling, labels, pairs, say)
    if say.private:
        return
    again = public.records - len(np.unique(public.keys))
    by_chance = max(_NO_CHANCE * _by_chance(public), pairs.most_within(""))
    if again >= _FEWEST and again > max(_SHARE * public.records, by_chance):
        said = f"{say.number(again, 'record')} of the public set occur more than once, exactly"
        yield Finding("repeated-records", Severity.SAID, said, "take copies out: each counts as an example of its own")
    for silo, found in telling.items():
        # Keys do not depend on the order of columns, but on their names.
        same = int(np.isin(found.keys, public.keys).sum()) if public.kinds.keys() == found.kinds.keys() else 0
        by_chance = max(_HARDLY * found.records * public.records * alike[silo], pairs.most_across(silo, [""]))
        if same >= _FEWEST and same > max(_SHARED * min(found.records, public.records), by_chance):
            said = f"{say.number(same, 'record')} at silo {silo} occur in the public set as well"
            fix = "take them out of one of the two: what is said of them is known already"
            yield Finding("public-records", Severity.SAID, said, fix, silo=silo)


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Pairs of records that agree, and all pairs: within each table, and across each two.

    The table, or the two, with the largest share of such pairs tell nothing of chance: they may have been copied.
    """

    sizes: Mapping[SiloName, int]
    within: Mapping[SiloName, int]
    across: Mapping[tuple[SiloName, SiloName], int]

    @classmethod
    def of(cls, tables: Mapping[SiloName, Profile], *, across: bool) -> Self:
        largest = sorted(tables, key=lambda silo: -tables[silo].records)[:_MOST_TABLES]
        counted = {silo: np.unique(tables[silo].keys, return_counts=True) for silo in tables if silo in largest}
        within = {silo: int((counts * (counts - 1) // 2).sum()) for silo, (_, counts) in counted.items()}
        both = {}
        for one, other in permutations(counted if across else (), 2):
            (keys, counts), (others, theirs) = counted[one], counted[other]
            _, mine, yours = np.intersect1d(keys, others, assume_unique=True, return_indices=True)
            both[one, other] = int((counts[mine] * theirs[yours]).sum())
        return cls({silo: table.records for silo, table in tables.items()}, within, both)

    def most_within(self, silo: SiloName) -> float:
        """Pairs within a table, at most, if records agree as often as with other tables, or within another one."""
        size = self.sizes[silo]
        found = [(number, size * self.sizes[other]) for (one, other), number in self.across.items() if one == silo]
        if not self.across:
            found = [(number, _every(self.sizes[one])) for one, number in self.within.items() if one != silo]
        return _most(found, _every(size))

    def most_across(self, silo: SiloName, others: Collection[SiloName]) -> float:
        """Pairs with other tables, at most, if records agree there as often as within tables."""
        found = [(number, _every(self.sizes[one])) for one, number in self.within.items()]
        return _most(found, self.sizes[silo] * sum(self.sizes[other] for other in others))


def _every(size: int) -> int:
    """All pairs of so many records."""
    return size * (size - 1) // 2


def _most(found: Collection[tuple[int, int]], pairs: int) -> float:
    """How many of some pairs agree, at most, if as many do as of others ``(agreeing, all)``; 0 where of these none do.

    Of several others, the one with the largest share is left out.
    """
    ordered = sorted(found, key=lambda pair: pair[0] / max(1, pair[1]))[:-1] if len(found) > 1 else found
    agreeing, every = (sum(pair[at] for pair in ordered) for at in range(2))
    return _FEWEST + _HARDLY * agreeing * pairs / every if agreeing else 0.0


def _shared(
    keys: Mapping[SiloName, NDArray[np.uint64]], alike: Mapping[SiloName, float], pairs: "_Pairs", say: Words
) -> Iterator[Finding]:
    if len(keys) < 2:
        return
    names = [*keys]
    flat = np.concatenate([keys[name] for name in names])
    owner = np.repeat(np.arange(len(names)), [len(keys[name]) for name in names])
    order = np.argsort(flat, kind="stable")
    again = np.flatnonzero(flat[order][1:] == flat[order][:-1]) + 1
    for position, name in enumerate(names):
        mine = int(np.count_nonzero(owner[order][again] == position))
        by_chance = _HARDLY * len(keys[name]) * (len(flat) - len(keys[name])) * alike[name]
        by_chance = max(by_chance, pairs.most_across(name, [other for other in names if other != name]))
        if mine >= _FEWEST and mine > max(_SHARED * len(keys[name]), by_chance):
            other = names[int(np.bincount(owner[order][again[owner[order][again] == position] - 1]).argmax())]
            said = f"{say.number(mine, 'record')} at silo {name} occur at silo {other} as well, exactly"
            yield Finding("shared-records", Severity.SAID, said, "keep each record at one silo", silo=name)


def _contradicting(
    silos: Mapping[SiloName, Profile], labels: Mapping[SiloName, NDArray[np.int64]], pairs: "_Pairs", say: Words
) -> Iterator[Finding]:
    """Records that agree in all features with another one, at any silo, and not in the label."""
    names = [silo for silo in silos if silo in labels]
    if not names:
        return
    keys = np.concatenate([silos[silo].keys for silo in names])
    y = np.concatenate([labels[silo] for silo in names])
    owner = np.repeat(np.arange(len(names)), [silos[silo].records for silo in names])
    order = np.lexsort((y, keys))
    pair = (keys[order][1:] == keys[order][:-1]) & (y[order][1:] != y[order][:-1])
    first, second = owner[order][:-1][pair], owner[order][1:][pair]
    for at, silo in enumerate(names):
        # Each pair is the later silo's.
        mine = np.maximum(first, second) == at
        many = int(np.count_nonzero(mine))
        by_chance = 2 * silos[silo].records * len(y) * _agree(silos[silo])
        by_chance = max(by_chance, min(pairs.most_within(silo), pairs.most_across(silo, names)))
        if many < _FEWEST or many <= max(_SHARE * silos[silo].records, by_chance):
            continue
        others = np.minimum(first, second)[mine]
        other = names[int(np.bincount(others).argmax())]
        where = "within it" if other == silo else f"at silo {other}"
        said = f"{say.number(many, 'record')} at silo {silo} occur with another label {where}"
        fix = "keep the label that is right: a learner cannot tell these records apart"
        yield Finding("contradicting-labels", Severity.SAID, said, fix, silo=silo)


def _by_chance(profile: Profile) -> float:
    """Pairs of records, about, that agree by chance."""
    return profile.records**2 / 2 * _agree(profile)


def _agree(profile: Profile) -> float:
    """The chance that two records agree in all columns, by the larger of two estimates."""
    return max(_alike(profile), float(np.exp2(-_bits(profile))))


def _alike(profile: Profile) -> float:
    """The chance that two records agree in all columns if these have nothing to do with each other.

    A flag that hardly anybody has tells hardly any two records apart. Of numbers, all but the most frequent one count
    as equally frequent.
    """
    records = max(1, profile.records)
    numbers = profile.numbers
    most, others = numbers.at_most_frequent / records, (numbers.valid - numbers.at_most_frequent) / records
    missing = 1 - numbers.valid / records
    of_numbers = np.prod(missing**2 + most**2 + others**2 / np.maximum(numbers.distinct - 1, 1))
    shares = [np.append(text.counts, profile.records - text.valid) / records for text in profile.texts.values()]
    return float(of_numbers * np.prod([np.square(share).sum() for share in shares]))


def _bits(profile: Profile) -> float:
    """How much the columns tell records apart. Half of what they would if they had nothing to do with each other."""
    of_texts = sum(np.log2(max(1, len(text.values))) for text in profile.texts.values())
    return float(np.log2(np.maximum(profile.numbers.distinct, 1)).sum() + of_texts) / 2
