"""Who is in and who is out: candidates of each silo, of which every refit trains on a random half."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedct_flwr.datasets.federated import FederatedDataset, SiloData, take
from fedct_flwr.datasets.labels import class_names
from fedct_flwr.datasets.public_set import PublicSet
from fedct_flwr.datasets.table_files import read_table
from fedct_flwr.datasets.tables import encode
from fedct_flwr.seeding import generator
from fedct_flwr.text.printable import listed, quoted
from fedct_flwr.types import LABEL_DTYPE, DataError, Examples, SiloName

FEWEST: Final = 10
"""Candidates in all: with fewer, no interval says anything."""
_MOST_OF_A_SILO: Final = 0.5


@dataclass(frozen=True, eq=False)
class Candidates:
    """Positions ``(n,)`` among each silo's private records, or made-up ``canaries`` that it gets in addition."""

    positions: Mapping[SiloName, NDArray[np.intp]]
    canaries: Mapping[SiloName, Examples] | None = None

    @property
    def count(self) -> int:
        """Of all silos."""
        return sum(map(len, self.positions.values()))

    def records(self, silo: SiloData) -> Examples:
        """The candidates of a silo."""
        if self.canaries is not None:
            return self.canaries[silo.name]
        return take(silo.private, self.positions[silo.name])


def choose(silos: Sequence[SiloData], count: int, seed: int) -> Candidates:
    """About ``count`` candidates, at most half of each silo's records. Raises DataError for fewer than 10."""
    each = -(-count // len(silos))
    found = {}
    for silo in silos:
        most = int(silo.private.size * _MOST_OF_A_SILO)
        order = generator(seed, "candidates", silo.name).permutation(silo.private.size)
        found[silo.name] = np.sort(order[: min(each, most)])
    candidates = Candidates(found)
    if candidates.count < FEWEST:
        raise DataError(
            f"the audit has {candidates.count} candidates, at most half of each silo's records, and needs {FEWEST}: "
            "add records, or raise the number of candidates"
        )
    return candidates


def canaries_of(silos: Sequence[SiloData], records: Examples) -> Candidates:
    """Made-up records as candidates, dealt to the silos in turn. Raises DataError for fewer than 10."""
    if records.size < FEWEST:
        raise DataError(f"there are {records.size} canaries: an audit needs {FEWEST} or more")
    dealt = {silo.name: np.arange(number, records.size, len(silos), dtype=np.intp) for number, silo in enumerate(silos)}
    return Candidates(dealt, {name: take(records, rows) for name, rows in dealt.items()})


def draw(candidates: Candidates, silos: Sequence[SiloData], rng: Generator) -> dict[SiloName, NDArray[np.bool_]]:
    """Who is a member ``(n,)``, each with probability 1/2 and independently; records of one group go together."""
    found = {}
    for silo in silos:
        rows = candidates.positions[silo.name]
        if silo.groups is None or candidates.canaries is not None:
            found[silo.name] = rng.random(len(rows)) < 0.5
        else:
            _, group = np.unique(silo.groups[rows], return_inverse=True)
            found[silo.name] = (rng.random(len(rows)) < 0.5)[group]
    return found


def with_members(
    dataset: FederatedDataset,
    candidates: Candidates,
    members: Mapping[SiloName, NDArray[np.bool_]],
    *,
    planted: bool,
) -> FederatedDataset:
    """The data set with the members alone; ``planted``: all candidates stand at the end of the public set."""
    silos = tuple(with_some(silo, candidates, members[silo.name]) for silo in dataset.silos)
    if not planted:
        return replace(dataset, silos=silos)
    records = [candidates.records(silo).X for silo in dataset.silos]
    public = PublicSet(np.concatenate([dataset.public.X, *records]))
    return replace(dataset, silos=silos, public=public, truth=None)


def with_some(silo: SiloData, candidates: Candidates, members: NDArray[np.bool_]) -> SiloData:
    """The silo without those of its candidates ``(n,)`` that are no members."""
    if candidates.canaries is not None:
        added = take(candidates.canaries[silo.name], np.flatnonzero(members))
        y = added.y.astype(silo.private.y.dtype)
        private = Examples(np.concatenate([silo.private.X, added.X]), np.concatenate([silo.private.y, y]))
        groups = None if silo.groups is None else _with_new(silo.groups, added.size)
        return replace(silo, private=private, groups=groups)
    kept = np.ones(silo.private.size, dtype=bool)
    kept[candidates.positions[silo.name][~members]] = False
    rows = np.flatnonzero(kept)
    return replace(silo, private=take(silo.private, rows), groups=None if silo.groups is None else silo.groups[rows])


def _with_new(groups: NDArray[np.int64], added: int) -> NDArray[np.int64]:
    first = int(groups.max(initial=-1)) + 1
    return np.concatenate([groups, np.arange(first, first + added)])


def read_canaries(path: Path, dataset: FederatedDataset, label: str) -> Candidates:
    """A table's records with this ``label`` column, dealt to the silos in turn. Raises DataError."""
    schema, label = dataset.schema, label or "label"
    if not schema.columns:
        raise DataError(f"the study's records are images, and {path} is a table: audit records of the silos instead")
    if not path.is_file():
        raise DataError(f"there is no table {path}: name a file with canaries")
    table = read_table(path)
    if label not in table.column_names:
        raise DataError(f"{path} has no label column {quoted(label)}: add it, with one of the study's classes")
    names = class_names(table.column(label), label, path)
    if strange := sorted(set(names) - set(schema.classes)):
        raise DataError(f"{path} has classes that the study does not have: {listed(strange)}; use its own")
    X = encode(table.drop_columns([label]), schema.columns, path)
    y = np.array([schema.classes.index(name) for name in names], dtype=LABEL_DTYPE)
    return canaries_of(dataset.silos, Examples(X, y))
