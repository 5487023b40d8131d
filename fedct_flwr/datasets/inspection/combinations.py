"""Values of two columns that exclude each other everywhere else and stand in one record at a silo: pregnant men.

A rule that holds for all other records, and would be broken by chance in many if the two columns had nothing to do with
each other, says what the columns mean. Several records of one silo that break it are wrong in one of the two.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.profile import Profile, as_text
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.text.printable import quoted
from fedct_flwr.types import SiloName

_MOST_VALUES: Final = 12
_MOST_COLUMNS: Final = 40
_MOST_RECORDS: Final = 4000
_MOST_TABLES: Final = 20
_FEWEST: Final = 5
_EXPECTED: Final = 25.0
"""Records that would break the rule by chance, where none does."""
_FEW: Final = 0.2
"""Of the records with the rarer of two values."""
_LIKE: Final = 0.03
_NEAR: Final = 3.0
"""Standard errors beyond that by which a value is as frequent as elsewhere."""
_FEW_RULES: Final = 2
"""Rules that a silo breaks by mistake: one that breaks more has other records."""
_BY_CHANCE: Final = 1e-6

_Floats = NDArray[np.float64]


def excluding(public: Profile, silos: Mapping[SiloName, Profile], say: Words) -> Iterator[Finding]:
    """Pairs of columns in which some of a silo's records have values that never go together in all other tables."""
    largest = sorted(silos, key=lambda silo: -silos[silo].records)[:_MOST_TABLES]
    tables = {"": public} | {silo: silos[silo] for silo in largest}
    values = _values(public, tables)
    if len({name for name, _ in values}) < 2:
        return
    signs = {silo: _signs(each, values) for silo, each in tables.items()}
    together = {silo: each.T @ each for silo, each in signs.items()}
    names = np.array([name for name, _ in values])
    apart = names[:, None] < names[None, :]
    for silo in largest:
        there = np.sum([each for other, each in together.items() if other != silo], axis=0)
        here, records = together[silo], sum(len(each) for other, each in signs.items() if other != silo)
        often = np.diag(there)
        expected = np.outer(often, often) / max(1, records)
        found = apart & (there == 0) & (expected >= _EXPECTED) & (here >= _FEWEST)
        # How likely so few, or none, of all records are elsewhere, if the silo's share is the usual one.
        with np.errstate(divide="ignore", invalid="ignore"):
            share = here / np.minimum(np.diag(here)[:, None], np.diag(here)[None, :])
            unlikely = np.minimum(often[:, None], often[None, :]) * np.log1p(-np.minimum(share, 0.99))
        found &= (unlikely < np.log(_BY_CHANCE)) & (share <= _FEW)
        # Where a value is rarer or more frequent, these are other records.
        size = len(signs[silo])
        theirs, ours = often / max(1, records), np.diag(here) / max(1, size)
        error = np.sqrt(theirs * (1 - theirs) * (1 / max(1, size) + 1 / max(1, records)))
        usual = np.abs(ours - theirs) <= _LIKE + _NEAR * error
        found &= usual[:, None] & usual[None, :]
        if len({(names[one], names[other]) for one, other in np.argwhere(found).tolist()}) > _FEW_RULES:
            continue
        said: set[str] = set()
        for one, other in sorted(np.argwhere(found).tolist(), key=lambda pair: -here[*pair]):
            if {names[one], names[other]} & said:
                continue
            said |= {names[one], names[other]}
            pair = "" if say.private else f" ({_shown(values[one][1])} and {_shown(values[other][1])})"
            what = f"{say.column(values[one][0], silo)} and {quoted(values[other][0])} have values{pair} in "
            what += f"{say.number(int(here[one, other]), 'record')} that never go together in the other tables"
            fix = "check which of the two is wrong in these records"
            yield Finding("contradicting-columns", Severity.SAID, what, fix, values[one][0], silo)


def _shown(value: str | float) -> str:
    return quoted(value) if isinstance(value, str) else f"{value:g}"


def _values(public: Profile, tables: Mapping[SiloName, Profile]) -> list[tuple[str, str | float]]:
    """Columns of few values that all tables have, with each value of the public set."""
    found: list[tuple[str, str | float]] = []
    columns = 0
    for name in public.kinds:
        in_all = all(name in each.texts for each in tables.values()) or all(
            name in each.numbers.position for each in tables.values()
        )
        if not in_all or not 1 < public.distinct(name) <= _MOST_VALUES or columns == _MOST_COLUMNS:
            continue
        columns += 1
        own = public.texts[name].values.to_pylist() if name in public.texts else np.unique(public.valid(name)).tolist()
        found += [(name, value) for value in own]
    return found


def _signs(table: Profile, values: list[tuple[str, str | float]]) -> _Floats:
    """Whether each record has each value, ``(records, values)``."""
    rows = min(table.records, _MOST_RECORDS)
    signs = np.zeros((rows, len(values)))
    for at, (name, value) in enumerate(values):
        cells = table.columns[name].slice(0, rows)
        same = (
            pc.equal(as_text(cells), value)
            if isinstance(value, str)
            else pc.equal(cells.cast(pa.float64(), safe=False), value)
        )
        signs[:, at] = same.fill_null(False).to_numpy()
    return signs
