"""Findings on whole records: the same ones several times, at several silos, or in public; and columns that tell all."""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection.columns import FEWEST
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
_TELLING: Final = 0.998
_FEWEST_OF_CLASS: Final = 10
_MOST_CLASSES: Final = 30
_MOST_VALUES: Final = 50


def of_records(
    public: Profile | None, silos: Mapping[SiloName, Profile], labels: Mapping[SiloName, NDArray[np.int64]], say: Words
) -> Iterator[Finding]:
    """Records that occur more than once. ``labels`` number the classes of each silo's records, or are empty."""
    # Records of few or coarse columns agree by chance.
    telling = {
        silo: found for silo, found in silos.items() if _bits(found) > np.log2(found.records + 1) + _BITS_TO_SPARE
    }
    keys: dict[SiloName, NDArray[np.uint64]] = {}
    for silo, found in silos.items():
        own = found.keys + (labels[silo].astype(np.uint64) << np.uint64(40) if silo in labels else np.uint64(0))
        distinct, counts = np.unique(own, return_counts=True)
        if silo in telling:
            keys[silo] = distinct
        repeated = int((counts - 1).sum())
        by_chance = found.records**2 / 2 * float(np.exp2(-_bits(found)))
        if repeated >= _FEWEST and repeated > max(_SHARE * found.records, _NO_CHANCE * by_chance):
            said = f"{say.number(repeated, 'record')} at silo {silo} occur more than once, exactly"
            fix = "take copies out, or name the column that says which records belong together as group"
            yield Finding("repeated-records", Severity.SAID, said, fix, silo=silo)
    yield from _shared(keys, say)
    if public is None:
        return
    for silo, found in telling.items():
        # Keys do not depend on the order of columns, but on their names.
        same = int(np.isin(found.keys, public.keys).sum()) if public.kinds.keys() == found.kinds.keys() else 0
        if same >= _FEWEST and same > _SHARED * min(found.records, public.records):
            said = f"{say.number(same, 'record')} at silo {silo} occur in the public set as well"
            fix = "take them out of one of the two: what is said of them is known already"
            yield Finding("public-records", Severity.SAID, said, fix, silo=silo)


def _shared(keys: Mapping[SiloName, NDArray[np.uint64]], say: Words) -> Iterator[Finding]:
    if len(keys) < 2:
        return
    names = [*keys]
    flat = np.concatenate([keys[name] for name in names])
    owner = np.repeat(np.arange(len(names)), [len(keys[name]) for name in names])
    order = np.argsort(flat, kind="stable")
    again = np.flatnonzero(flat[order][1:] == flat[order][:-1]) + 1
    for position, name in enumerate(names):
        mine = int(np.count_nonzero(owner[order][again] == position))
        if mine >= _FEWEST and mine > _SHARED * len(keys[name]):
            other = names[int(np.bincount(owner[order][again[owner[order][again] == position] - 1]).argmax())]
            said = f"{say.number(mine, 'record')} at silo {name} occur at silo {other} as well, exactly"
            yield Finding("shared-records", Severity.SAID, said, "keep each record at one silo", silo=name)


def _bits(profile: Profile) -> float:
    """How much the columns tell records apart. Half of what they would if they had nothing to do with each other."""
    of_texts = sum(np.log2(max(1, len(text.values))) for text in profile.texts.values())
    return float(np.log2(np.maximum(profile.numbers.distinct, 1)).sum() + of_texts) / 2


def telling_columns(silos: Mapping[SiloName, Profile], classes: int, label: str, say: Words) -> Iterator[Finding]:
    """Columns each of which tells the class of all records, over all silos."""
    profiles = [found for found in silos.values() if found.y is not None]
    if not profiles or not 2 <= classes <= _MOST_CLASSES:
        return
    of_class = np.zeros(classes, dtype=np.int64)
    for found in profiles:
        of_class += np.bincount(np.asarray(found.y), minlength=classes)
    present = np.flatnonzero(of_class)
    if len(present) < 2 or np.sort(of_class[present])[-2] < _FEWEST_OF_CLASS or of_class.sum() < 2 * FEWEST:
        return
    names = [name for name in profiles[0].kinds if all(name in found.kinds for found in profiles)]
    telling = {*_numbers(profiles, present, names), *_texts(profiles, names)}
    for name in names:
        if name in telling:
            said = f"column {name!r} alone tells the class of every record"
            fix = f"take it out of all tables if it is known only after {label!r} is"
            yield Finding("tells-the-label", Severity.SAID, said, fix, name)


def _numbers(profiles: list[Profile], present: NDArray[np.intp], names: list[str]) -> Iterator[str]:
    common = [name for name in names if all(name in found.numbers.position for found in profiles)]
    if not common:
        return
    low = np.full((len(common), len(present)), np.inf)
    high = -low
    valid, records = np.zeros(len(common), dtype=np.int64), 0
    for found in profiles:
        at = np.array([found.numbers.position[name] for name in common])
        low = np.fmin(low, found.numbers.low[at][:, present])
        high = np.fmax(high, found.numbers.high[at][:, present])
        valid += found.numbers.valid[at]
        records += found.records
    order = np.argsort(low, axis=1)
    low, high = np.take_along_axis(low, order, axis=1), np.take_along_axis(high, order, axis=1)
    apart = np.all(low[:, 1:] > high[:, :-1], axis=1) & np.isfinite(low).all(axis=1) & (valid > records / 2)
    yield from (common[at] for at in np.flatnonzero(apart))


def _texts(profiles: list[Profile], names: list[str]) -> Iterator[str]:
    for name in names:
        texts = [found.texts.get(name) for found in profiles]
        by_class: dict[str, NDArray[np.int64]] = {}
        for text in texts:
            if text is None or text.by_class is None or len(text.values) > _MOST_VALUES:
                break
            for value, counts in zip(text.values.to_pylist(), text.by_class, strict=True):
                by_class[value] = by_class.get(value, 0) + counts
        else:
            table = np.array([*by_class.values()])
            if table.size and table.sum() > sum(found.records for found in profiles) / 2:
                # Every class has values of its own.
                told = table.max(axis=1).sum() >= _TELLING * table.sum()
                if (
                    told
                    and len({*table.argmax(axis=1).tolist()}) > 1
                    and np.sort(table.sum(axis=0))[-2] >= _FEWEST_OF_CLASS
                ):
                    yield name
