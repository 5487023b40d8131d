"""Members and non-members: each silo's candidates, of which every refit trains on a random half."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedct_flwr.datasets.federated import FederatedDataset, PublicSet, SiloData, first_of, take, unit_of_each
from fedct_flwr.seeding import generator
from fedct_flwr.types import DataError, SiloName

FEWEST: Final = 10
"""Candidates in all: with fewer, no interval says anything."""
_MOST_OF_A_SILO: Final = 0.5


Candidates: TypeAlias = Mapping[SiloName, NDArray[np.intp]]
"""Positions ``(n,)`` among each silo's private records."""
Members: TypeAlias = Mapping[SiloName, NDArray[np.bool_]]
"""Which of each silo's candidates ``(n,)`` it has."""


def choose(silos: Sequence[SiloData], count: int, seed: int) -> Candidates:
    """About ``count`` candidates, at most half of each silo's records, or a record each of half of its patients.

    Raises DataError for fewer than 10.
    """
    each = -(-count // len(silos))
    found = {}
    for silo in silos:
        rows = np.arange(silo.private.size)[first_of(silo.groups)]
        order = generator(seed, "candidates", silo.name).permutation(rows)
        found[silo.name] = np.sort(order[: min(each, int(len(rows) * _MOST_OF_A_SILO))])
    if (number := sum(map(len, found.values()))) < FEWEST:
        raise DataError(
            f"the audit has {number} candidates, at most half of each silo's records, and needs {FEWEST}: "
            "add records, or raise the number of candidates"
        )
    return found


def draw(candidates: Candidates, silos: Sequence[SiloData], rng: Generator) -> Members:
    """Draw each candidate ``(n,)`` as a member with probability 1/2, independently."""
    return {silo.name: rng.random(len(candidates[silo.name])) < 0.5 for silo in silos}


def with_members(dataset: FederatedDataset, candidates: Candidates, members: Members) -> FederatedDataset:
    """The data set with the members alone; all candidates stand at the end of the public set, silo after silo."""
    silos = tuple(with_some(silo, candidates, members[silo.name]) for silo in dataset.silos)
    records = [take(silo.private, candidates[silo.name]).X for silo in dataset.silos]
    public = PublicSet(np.concatenate([dataset.public.X, *records]))
    return replace(dataset, silos=silos, public=public, truth=None)


def with_some(silo: SiloData, candidates: Candidates, members: NDArray[np.bool_]) -> SiloData:
    """The silo without those of its candidates ``(n,)`` that are no members, each with all records of its patient."""
    units = unit_of_each(silo.private.size, silo.groups)
    rows = np.flatnonzero(~np.isin(units, units[candidates[silo.name][~members]]))
    return replace(silo, private=take(silo.private, rows), groups=None if silo.groups is None else silo.groups[rows])
