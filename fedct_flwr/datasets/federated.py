"""A data set as it lies in a simulated federation: silos with private and test records, and a public set."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection.finding import Finding
from fedct_flwr.datasets.inspection.table_one import TableOne
from fedct_flwr.datasets.public_set import PublicSet
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.types import Answers, DataError, Examples, Groups, SiloName


@dataclass(frozen=True, eq=False)
class SiloData:
    """One silo's records: ``private`` for training; ``test`` held out, possibly empty.

    ``groups`` and ``test_groups`` say which of them belong together (one patient's, say): a split of the private
    records keeps each group on one side. None where each record is by itself.
    """

    name: SiloName
    private: Examples
    test: Examples
    groups: Groups | None = None
    test_groups: Groups | None = None

    @property
    def units(self) -> int:
        """What a promise protects each of: private records, or groups where records have them."""
        return num_units(self.private.size, self.groups)


@dataclass(frozen=True, eq=False)
class FederatedDataset:
    """All that a simulation needs. ``test`` is the pooled test set, over all silos.

    ``truth`` ``(num_public,)`` are the labels, or values, that the public examples lost, where the data set knows them:
    to compare with, never to train on. ``notes`` are sentences about the data for the person who runs it, ``findings``
    and ``table_one`` the inspection of its tables; None where there are no tables.
    """

    name: str
    schema: Schema
    public: PublicSet
    silos: tuple[SiloData, ...]
    test: Examples
    truth: Answers | None = None
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    table_one: TableOne | None = None

    def __post_init__(self) -> None:
        """Check that co-training is possible at all."""
        if len(self.silos) < 2:
            found = f"only {self.silos[0].name!r}" if self.silos else "none"
            raise DataError(f"co-training needs at least two silos, found {found} in {self.name!r}")
        for silo in self.silos:
            if silo.private.size == 0:
                raise DataError(f"silo {silo.name!r} has no records to train on: add records or leave the silo out")
        self.schema.outcome.check_records((silo.private for silo in self.silos), self.name)

    @cached_property
    def fewest_units(self) -> int:
        """Private records of the smallest silo, or groups of them."""
        return min(silo.units for silo in self.silos)

    def position(self, silo: SiloName) -> int:
        """Position of a silo. Raises DataError for an unknown name."""
        for position, data in enumerate(self.silos):
            if data.name == silo:
                return position
        raise DataError(f"no silo {silo!r} in {self.name!r}: it has {', '.join(s.name for s in self.silos)}")


def num_units(num_records: int, groups: Groups | None) -> int:
    """How many groups (patients, say) there are; each record is one where there are none."""
    return num_records if groups is None else len(np.unique(groups))


def unit_of_each(num_records: int, groups: Groups | None) -> NDArray[np.intp]:
    """The unit of each record ``(n,)``, numbered from 0: its group, or itself where there are none."""
    return np.arange(num_records) if groups is None else np.unique(groups, return_inverse=True)[1]


def hold_out(records: Examples, shares: tuple[float, ...], rng: Generator) -> list[Examples]:
    """Split records at random into parts of these shares (rounded down) and the rest, which comes last."""
    order = rng.permutation(records.size)
    cuts = np.cumsum([int(share * records.size + 1e-9) for share in shares])
    return [take(records, part) for part in np.split(order, cuts)]


def take(records: Examples, positions: NDArray[np.intp] | NDArray[np.bool_]) -> Examples:
    """The records at these positions, in their order; or those of a mask."""
    return Examples(records.X[positions], records.y[positions])


def pool(parts: list[Examples]) -> Examples:
    """All records of several parts together."""
    return Examples(np.concatenate([part.X for part in parts]), np.concatenate([part.y for part in parts]))


def shuffled(records: Examples, rng: Generator) -> Examples:
    """The examples in random order, so that a position tells nothing of where an example came from."""
    return take(records, rng.permutation(records.size))
