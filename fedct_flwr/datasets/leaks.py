"""Test records that training has seen, by groups and by rows: the scores of such a test set are over-optimistic."""

import hashlib
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.federated import FederatedDataset, SiloData
from fedct_flwr.text.plural import count
from fedct_flwr.types import Examples

_MANY: Final = 0.05
"""Share of a silo's test records from which repeats change its own score."""
_MOST_NAMED: Final = 10
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
            f"{shared:,} of {count(len(groups), 'group')} have records at more than one silo: splits keep a group "
            "together within its silo alone, so the score on the pooled test set may be over-optimistic",
            serious=True,
        )


def _repeats(dataset: FederatedDataset) -> Iterator[Leak]:
    found = {silo.name: (repeats, silo.test.size) for silo in dataset.silos if (repeats := repeated(silo))}
    if not found:
        return
    said = [f"{name!r} {many:,} of {size:,}" for name, (many, size) in found.items()]
    more = f" and {len(said) - _MOST_NAMED} silos more" if len(said) > _MOST_NAMED else ""
    what = (
        "test records that equal a training record of the same silo, label included: "
        f"{', '.join(said[:_MOST_NAMED])}{more}"
    )
    if all(many < _MANY * size for many, size in found.values()):
        yield Leak(what, serious=False)
        return
    yield Leak(
        f"{what}; if these are the same patients, own scores are over-optimistic: name the patients' column as group, "
        "or remove repeated rows",
        serious=True,
    )


def repeated(silo: SiloData) -> int:
    """How many test records equal a private one in all features and the label.

    None where values are so few that chance makes them: as it does where each column's values change places.
    """
    if not silo.test.size:
        return 0
    known = _digests(silo.private)
    many = int(np.isin(_digests(silo.test), known).sum())
    if not many:
        return 0
    rng = np.random.default_rng(0)
    columns = silo.test.X.reshape(silo.test.size, -1).T
    mixed = Examples(np.stack([rng.permutation(column) for column in columns], axis=1), rng.permutation(silo.test.y))
    by_chance = int(np.isin(_digests(mixed), known).sum())
    return many if many > _BY_CHANCE * by_chance else 0


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
