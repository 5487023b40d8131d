"""Columns that say which records belong together, whatever they are called: a patient's number, a case, a sample.

Records with the same value agree in much that records otherwise differ in: sex, date of birth, ward.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.meanings import no_feature
from fedct_flwr.datasets.inspection.profile import Kind, Profile
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.text.printable import listed, quoted
from fedct_flwr.types import SiloName

_MOST_COLUMNS: Final = 100
"""Columns, at most, that are compared: the first of a wide table."""
_MOST_SILOS: Final = 20
_MOST_RECORDS: Final = 20_000
_MOST_OF_ONE: Final = 20
"""Records, at most, of a usual patient."""
_FEWEST_GROUPS: Final = 10
_FEWEST_PAIRS: Final = 20
_ALWAYS: Final = 0.95
_BY_CHANCE: Final = 0.7
_FEWEST_AGREE: Final = 3
_SHARE_AGREE: Final = 1 / 3


def belonging(silos: Mapping[SiloName, Profile], known: Collection[str], say: Words) -> Iterator[Finding]:
    """Columns that name patients, or the like, of whom there are several records. ``known`` ones are said already."""
    explained: set[str] = {*known}
    for own in sorted(silos.values(), key=lambda own: -own.records)[:_MOST_SILOS]:
        for name, agree in _naming(own):
            if name not in explained:
                what = f"records with the same {quoted(name)} agree in {listed(agree, 3)}, as records of one patient do"
                yield Finding("record-number", Severity.SAID, what, no_feature(name, say), name)
            # Of few patients, hardly two have the same age.
            explained |= {name, *agree}


def _naming(own: Profile) -> Iterator[tuple[str, list[str]]]:
    """Columns that name records which belong together, each with those in which these agree."""
    names = [name for name, kind in own.kinds.items() if kind in (Kind.NUMBERS, Kind.TEXT, Kind.TRUTH)]
    names = names[:_MOST_COLUMNS]
    records = min(own.records, _MOST_RECORDS)
    candidates = [name for name in names if _may_name(own, name)]
    if not candidates or len(names) <= _FEWEST_AGREE:
        return
    # Records of one patient often stand one below the other.
    codes = np.array([_codes(own.columns[name].slice(0, records)) for name in names])
    chance = np.array([_chance(row) for row in codes])
    for name in sorted(candidates, key=own.distinct, reverse=True):
        at = names.index(name)
        order = np.argsort(codes[at], kind="stable")
        before, after = order[:-1], order[1:]
        same = (codes[at][before] == codes[at][after]) & (codes[at][before] >= 0)
        before, after = before[same], after[same]
        if len(before) < _FEWEST_PAIRS or len(np.unique(codes[at])) < _FEWEST_GROUPS:
            continue
        agree = (codes[:, before] == codes[:, after]).mean(axis=1)
        varied = chance <= _BY_CHANCE
        varied[at] = False
        found = np.flatnonzero(varied & (agree >= _ALWAYS))
        if len(found) >= max(_FEWEST_AGREE, _SHARE_AGREE * np.count_nonzero(varied)):
            yield name, [names[position] for position in found]


def _may_name(own: Profile, name: str) -> bool:
    """Whether a column has so many values that each may be a patient, with several records."""
    distinct = own.distinct(name)
    if not max(_FEWEST_GROUPS, own.records / _MOST_OF_ONE) <= distinct < own.records:
        return False
    position = own.numbers.position.get(name)
    return position is None or bool(own.numbers.whole[position])


def _codes(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """A number for each value ``(records,)``, and -1 for a missing one."""
    encoded = column.combine_chunks()
    encoded = encoded if pa.types.is_dictionary(encoded.type) else encoded.dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    codes: NDArray[np.int64] = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _chance(codes: NDArray[np.int64]) -> float:
    """How often two records agree by chance."""
    share = np.bincount(codes + 1) / max(1, len(codes))
    return float(share @ share)
