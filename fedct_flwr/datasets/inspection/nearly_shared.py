"""Records of one table that are nearly those of another one: a patient measured again, a cell or a digit changed.

The same patients come to two hospitals a year apart, and a public set is made of a silo's own records with a little
noise. None of these equals another record, so their keys tell nothing. What tells them is the gap around them, as it
does for test records (``near_copies``).

Where tables have as many such records within, they are what records are like: visits of one patient, or columns that
follow from each other. Then as many are found if it is drawn by lot which record is whose, and nothing is said.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.near_copies import near_copies
from fedct_flwr.datasets.inspection.profile import Kind, Profile, as_text
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.datasets.schema import Column
from fedct_flwr.types import Examples, SiloName

_FEWEST: Final = 10
_SHARE: Final = 0.03
_DRAWN: Final = 6
_AS_MANY: Final = 0.75
"""Of the near copies, in tables of which it is drawn by lot which record is whose."""
_MOST_SILOS: Final = 20
_MOST_COLUMNS: Final = 64
_MOST_RECORDS: Final = 20_000
"""Of one table."""


class _Records(NamedTuple):
    """Some records of a table, features ``(records, columns)``, and their keys."""

    examples: Examples
    keys: NDArray[np.uint64]

    def of(self, rows: NDArray[np.intp]) -> Self:
        """Some of them."""
        return self._replace(examples=Examples(self.examples.X[rows], self.examples.y[rows]), keys=self.keys[rows])


def nearly_shared(public: Profile, silos: Mapping[SiloName, Profile], say: Words) -> Iterator[Finding]:
    """Silos with records that are nearly those of the public set, or of another silo."""
    largest = sorted(silos, key=lambda silo: -silos[silo].records)[:_MOST_SILOS]
    chosen = {silo: silos[silo] for silo in silos if silo in largest}
    columns = _columns([public, *chosen.values()])
    if not columns:
        return
    theirs = _records(public, columns)
    records = {silo: _records(own, columns) for silo, own in chosen.items()}
    for silo, own in records.items():
        if near := _shared(theirs, own, columns):
            said = (
                f"{say.number(near, 'record')} of the public set are nearly records of silo {silo}, in all but a few "
                "cells or digits"
            )
            fix = "take them out of one of the two, if these are the same patients"
            yield Finding("public-records", Severity.SAID, said, fix, silo=silo)
    for at, (silo, own) in enumerate(records.items()):
        others = [*records][:at]
        if not others or not _shared(own, _pooled([records[other] for other in others]), columns):
            continue
        nears = {other: _shared(own, records[other], columns) for other in others}
        other = max(nears, key=nears.__getitem__)
        if nears[other]:
            said = (
                f"{say.number(nears[other], 'record')} at silo {silo} are nearly records of silo {other}, in all but a "
                "few cells or digits"
            )
            fix = "keep each patient at one silo, if these are the same patients"
            yield Finding("shared-records", Severity.SAID, said, fix, silo=silo)


def _columns(tables: Sequence[Profile]) -> list[Column]:
    """The columns of numbers and of words that all tables have, of a wide table some."""
    first, *others = tables
    found = []
    for name, kind in first.kinds.items():
        kinds = {kind, *(other.kinds.get(name) for other in others)}
        if kinds <= {Kind.NUMBERS, Kind.TRUTH}:
            found.append(Column(name))
        elif kinds == {Kind.TEXT}:
            words = pa.chunked_array([each.texts[name].values for each in tables]).unique()
            found.append(Column(name, tuple(words.to_pylist())))
    some = np.unique(np.linspace(0, len(found) - 1, _MOST_COLUMNS).astype(int)) if found else ()
    return [found[at] for at in some]


def _records(table: Profile, columns: Sequence[Column]) -> _Records:
    rows = np.unique(np.linspace(0, table.records - 1, min(table.records, _MOST_RECORDS)).astype(int))
    X = np.empty((len(rows), len(columns)))
    for at, column in enumerate(columns):
        cells = table.columns[column.name].take(rows)
        if column.categories is not None:
            known = pa.array(column.categories, pa.string())
            cells = pc.index_in(as_text(cells), value_set=known)
        X[:, at] = cells.cast(pa.float64(), safe=False).to_numpy()
    X[np.isinf(X)] = np.nan
    return _Records(Examples(X, np.zeros(len(rows), dtype=np.int64)), table.keys[rows])


def _pooled(parts: Sequence[_Records]) -> _Records:
    X = np.concatenate([part.examples.X for part in parts])
    keys = np.concatenate([part.keys for part in parts])
    return _Records(Examples(X, np.zeros(len(X), dtype=np.int64)), keys)


def _shared(asked: _Records, training: _Records, columns: Sequence[Column]) -> int:
    """How many of the records that are asked about are nearly in the other table; 0 if as many are within."""
    near = _near(asked, training, columns)
    if not near:
        return 0
    both, rng = _pooled([asked, training]), np.random.default_rng(0)
    for _ in range(_DRAWN):
        one, other = np.split(rng.permutation(len(both.keys)), [len(asked.keys)])
        # Of pairs across two tables, half are so still.
        if _near(both.of(one), both.of(other), columns) > _AS_MANY * near:
            return 0
    return near


def _near(asked: _Records, training: _Records, columns: Sequence[Column]) -> int:
    """How many of the records that are asked about nearly equal one of the others, and do not equal it; 0 if few."""
    known = np.isin(asked.keys, training.keys)
    near = near_copies(asked.examples, training.examples, columns, known).near
    return near if near >= max(_FEWEST, _SHARE * len(asked.keys)) else 0
