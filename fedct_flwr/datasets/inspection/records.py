"""Findings on whole records: the same ones several times, at several silos, or in public."""

from collections.abc import Iterator, Mapping
from typing import Final

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
_HARDLY: Final = 3.0
"""The same for copies in another table, which are a part of it where many records agree by chance anyway."""


def of_records(
    public: Profile | None, silos: Mapping[SiloName, Profile], labels: Mapping[SiloName, NDArray[np.int64]], say: Words
) -> Iterator[Finding]:
    """Records that occur more than once. ``labels`` number the classes of each silo's records, or are empty."""
    # Records of few or coarse columns agree by chance.
    telling = {
        silo: found for silo, found in silos.items() if _bits(found) > np.log2(found.records + 1) + _BITS_TO_SPARE
    }
    alike = {silo: _alike(found) for silo, found in telling.items()}
    keys: dict[SiloName, NDArray[np.uint64]] = {}
    for silo, found in silos.items():
        own = found.keys + (labels[silo].astype(np.uint64) << np.uint64(40) if silo in labels else np.uint64(0))
        distinct, counts = np.unique(own, return_counts=True)
        if silo in telling:
            keys[silo] = distinct
        repeated = int((counts - 1).sum())
        if repeated >= _FEWEST and repeated > max(_SHARE * found.records, _NO_CHANCE * _by_chance(found)):
            said = f"{say.number(repeated, 'record')} at silo {silo} occur more than once, exactly"
            fix = "take copies out, or name the column that says which records belong together as group"
            yield Finding("repeated-records", Severity.SAID, said, fix, silo=silo)
    yield from _shared(keys, alike, say)
    yield from _contradicting(telling, labels, say)
    if public is None:
        return
    again = public.records - len(np.unique(public.keys))
    if again >= _FEWEST and again > max(_SHARE * public.records, _NO_CHANCE * _by_chance(public)):
        said = f"{say.number(again, 'record')} of the public set occur more than once, exactly"
        yield Finding("repeated-records", Severity.SAID, said, "take copies out: each counts as an example of its own")
    for silo, found in telling.items():
        # Keys do not depend on the order of columns, but on their names.
        same = int(np.isin(found.keys, public.keys).sum()) if public.kinds.keys() == found.kinds.keys() else 0
        by_chance = found.records * public.records * alike[silo]
        if same >= _FEWEST and same > max(_SHARED * min(found.records, public.records), _HARDLY * by_chance):
            said = f"{say.number(same, 'record')} at silo {silo} occur in the public set as well"
            fix = "take them out of one of the two: what is said of them is known already"
            yield Finding("public-records", Severity.SAID, said, fix, silo=silo)


def _shared(
    keys: Mapping[SiloName, NDArray[np.uint64]], alike: Mapping[SiloName, float], say: Words
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
        by_chance = len(keys[name]) * (len(flat) - len(keys[name])) * alike[name]
        if mine >= _FEWEST and mine > max(_SHARED * len(keys[name]), _HARDLY * by_chance):
            other = names[int(np.bincount(owner[order][again[owner[order][again] == position] - 1]).argmax())]
            said = f"{say.number(mine, 'record')} at silo {name} occur at silo {other} as well, exactly"
            yield Finding("shared-records", Severity.SAID, said, "keep each record at one silo", silo=name)


def _contradicting(
    silos: Mapping[SiloName, Profile], labels: Mapping[SiloName, NDArray[np.int64]], say: Words
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
        by_chance = silos[silo].records * len(y) * _agree(silos[silo])
        if many < _FEWEST or many <= max(_SHARE * silos[silo].records, 2 * by_chance):
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
