"""Test records that training has seen, by groups, by rows or nearly: such a test set makes scores over-optimistic."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.federated import FederatedDataset, SiloData
from fedct_flwr.datasets.inspection.near_copies import near_copies
from fedct_flwr.text.plural import count
from fedct_flwr.types import Examples, SiloName

TEST_RECORDS: Final = "test-records"
"""What such a finding is called."""
_MANY: Final = 0.05
"""Share of a silo's test records from which repeats change its own score."""
_MOST_NAMED: Final = 10
_MOST_SILOS: Final = 20
_NEAR: Final = 3.0
"""Standard errors."""
_BY_CHANCE: Final = 10
"""How many times as many repeats as chance makes are taken for more than chance."""


class LeakWarning(UserWarning):
    """A test set that training knows something of."""


class Leak(NamedTuple):
    """What a test set shares with what silos train on, in a sentence; whether it is enough to change a score much."""

    said: str
    serious: bool


def leaks(dataset: FederatedDataset) -> Iterator[Leak]:
    """All that a data set's test sets share with what silos train on. Quotes no record."""
    yield from _across_silos(dataset)
    for silo in dataset.silos:
        if silo.groups is not None and not silo.test.size and len(np.unique(silo.groups)) == 1:
            yield Leak(
                f"all records of silo {silo.name!r} are of one group, so none can be held out for its own test set",
                serious=False,
            )
        if silo.groups is not None and silo.test_groups is not None:
            both = len(np.intersect1d(silo.groups, silo.test_groups))
            if both:
                yield Leak(
                    f"silo {silo.name!r} trains on {count(both, 'group')} that its test set has as well, so its own "
                    "score is over-optimistic: take them out of one of the two",
                    serious=True,
                )
    groups = [silo.groups for silo in dataset.silos if silo.groups is not None]
    if groups and all(len(np.unique(own)) == len(own) for own in groups):
        yield Leak(
            "each record is a group of its own, so groups change nothing: check that their column is the right one",
            serious=False,
        )
    yield from _repeats(dataset)


def _across_silos(dataset: FederatedDataset) -> Iterator[Leak]:
    found = [
        np.unique(np.concatenate([part for part in (silo.groups, silo.test_groups) if part is not None]))
        for silo in dataset.silos
        if silo.groups is not None
    ]
    if not found:
        return
    groups, silos = np.unique(np.concatenate(found), return_counts=True)
    if shared := int((silos > 1).sum()):
        yield Leak(
            f"{shared:,} of {count(len(groups), 'group')} have records at more than one silo, and splits keep a group "
            "together within its silo alone, so the score on the pooled test set may be over-optimistic: nothing, if "
            "each silo numbers its groups by itself",
            serious=True,
        )


def _repeats(dataset: FederatedDataset) -> Iterator[Leak]:
    equal: dict[SiloName, tuple[int, int]] = {}
    near: dict[SiloName, tuple[int, int]] = {}
    chance = _ByChance(dataset.silos)
    for silo in dataset.silos:
        found = _repeated(silo)
        if not chance.is_less(silo, int(np.count_nonzero(found))):
            found = np.zeros_like(found)
        if many := int(np.count_nonzero(found)):
            equal[silo.name] = many, silo.test.size
        close = near_copies(silo.test, silo.private, dataset.schema.columns, found)
        if close.near:
            near[silo.name] = close
    yield from _said(equal, "test records that equal a training record of the same silo, label included")
    yield from _said(near, "test records that are nearly a training record of the same silo")


def _said(found: Mapping[SiloName, tuple[int, int]], what: str) -> Iterator[Leak]:
    """A sentence for the test records of all silos that are repeats, with how many were looked at."""
    if not found:
        return
    said = [f"{name!r} {many:,} of {size:,}" for name, (many, size) in found.items()]
    more = f" and {len(said) - _MOST_NAMED} silos more" if len(said) > _MOST_NAMED else ""
    what = f"{what} ({', '.join(said[:_MOST_NAMED])}{more})"
    if all(many < _MANY * size for many, size in found.values()):
        yield Leak(f"{what}: nothing, if these are few", serious=False)
        return
    yield Leak(
        f"{what}; if these are the same patients, own scores are over-optimistic: name the patients' column as group, "
        "or remove repeated rows",
        serious=True,
    )


@dataclass(frozen=True, eq=False)
class _ByChance:
    """What a silo's test records have in common with what other silos train on: as much as chance makes."""

    silos: Sequence[SiloData]

    @cached_property
    def private(self) -> Mapping[SiloName, NDArray[np.uint64]]:
        """Digests of the records that some silos train on."""
        return {silo.name: _digests(silo.private) for silo in self.silos[:_MOST_SILOS]}

    def is_less(self, silo: SiloData, repeats: int) -> bool:
        """Whether chance makes fewer repeats among as many records of other silos, or nothing is known of that."""
        if not repeats or len(self.silos) < 2:
            return True
        others = [known for name, known in self.private.items() if name != silo.name]
        every, rng = np.concatenate(others), np.random.default_rng(0)
        some = rng.choice(every, min(silo.private.size, len(every)), replace=False)
        found = int(np.count_nonzero(np.isin(_digests(silo.test), some)))
        return repeats > found + _NEAR * float(np.sqrt(found))


def repeated(silo: SiloData) -> int:
    """How many test records equal a private one in all features and the label.

    None where values are so few that chance makes them: as it does where each column's values change places.
    """
    return int(np.count_nonzero(_repeated(silo)))


def _repeated(silo: SiloData) -> NDArray[np.bool_]:
    """Which of the test records equal a private one, ``(tests,)``."""
    nobody = np.zeros(silo.test.size, dtype=bool)
    if not silo.test.size:
        return nobody
    known = _digests(silo.private)
    found = np.isin(_digests(silo.test), known)
    if not found.any():
        return nobody
    rng = np.random.default_rng(0)
    columns = silo.test.X.reshape(silo.test.size, -1).T
    mixed = Examples(np.stack([rng.permutation(column) for column in columns], axis=1), rng.permutation(silo.test.y))
    by_chance = int(np.isin(_digests(mixed), known).sum())
    return found if np.count_nonzero(found) > _BY_CHANCE * by_chance else nobody


def _digests(records: Examples) -> NDArray[np.uint64]:
    """64 bits for each record, ``(n,)``, column by column: no second copy of a long table."""
    X = records.X.reshape(records.size, -1)
    digest = np.zeros(records.size, dtype=np.uint64)
    for values in (*X.T, records.y):
        mixed = digest ^ _bits(values)
        # The finalizer of MurmurHash3.
        for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
            mixed = (mixed ^ (mixed >> np.uint64(33))) * np.uint64(factor)
        digest = mixed ^ (mixed >> np.uint64(33))
    return digest


def _bits(values: NDArray[Any]) -> NDArray[np.uint64]:
    """64 bits for each number ``(n,)``, the same for the same one; of a text those of its hash."""
    if values.dtype == np.object_ and len(values) and isinstance(values[0], str):
        hashes = (hashlib.blake2b(text.encode(), digest_size=8).digest() for text in values)
        return np.frombuffer(b"".join(hashes), dtype=np.uint64)
    floats = values.astype(np.float64) + 0.0
    floats[np.isnan(floats)] = np.nan
    return floats.view(np.uint64)
