"""The inspection of a loaded data set: what needs all silos' records.

Whole records may stand twice: at two silos, in the public set, in a silo's training and test part, or within it.
Records are compared twice: exactly, and rounded without identifiers. Numbers are rounded as coarsely as the coarsest
table writes them, and to three significant digits, each table in its own power of ten. An identifier is a column with
another value in nearly each record.
So neither another order nor other identifiers hide a copy. The label does not count: a copy may have other ones.

Chance makes equal records where columns are few or coarse: as often as records agree between other tables or within
tables, the larger rate of both; for the test part and for repeats, between tables. Where the columns tell records apart
beyond doubt, it makes none.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr import survival
from fedct_flwr.config.run import RunConfig
from fedct_flwr.config.tables import TableSettings
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.datasets.inspection import Finding, Redaction, Severity, with_accepted
from fedct_flwr.datasets.inspection.cells import columns_of_arrays
from fedct_flwr.datasets.inspection.labels_fit import LabelsFit
from fedct_flwr.datasets.inspection.table_one import LABELS_FIT, Inspection, Row, SiteCell, TableOne, of_classes, row_of
from fedct_flwr.text.printable import count
from fedct_flwr.types import LABEL_DTYPE, Examples, Features, SiloName

_SAMPLE: Final = 2000
_PART: Final = " (test)"
_FEWEST: Final = 5
"""Equal records that are worth a finding."""
_MOST_PAIRS: Final = 20_000_000
"""Pairs of tables that share a record: 300 MB. Only thousands of tables with few, coarse columns have more."""
_Keys = NDArray[np.int64]
_Pair = tuple[SiloName, SiloName]


def accepted(config: RunConfig) -> list[str]:
    """The findings that a run config accepts, and ``data.toml`` in its folder. Raises ConfigError."""
    of_folder = TableSettings.of_folder(Path(config.data_dir)).accept if config.data == "files" else ()
    return [*of_folder, *config.accept]


def inspect_dataset(dataset: FederatedDataset, accept: Collection[str] = (), *, drawn: bool = False) -> Inspection:
    """Inspect what needs all silos' records: shared ones, groups in several places, labels that do not fit.

    Its Table 1 by site is what its tables' inspection has made, or of its arrays. Examples of a ``drawn`` public set
    may equal records by chance. Raises ConfigError for names in ``accept`` that no finding has.
    """
    silos, schema = dataset.silos, dataset.schema
    tables = {**({} if drawn else {"": dataset.public.X}), **{silo.name: silo.private.X for silo in silos}}
    tests = {silo.name: silo.test.X for silo in silos if silo.test.size}
    found = [*_of_groups(dataset), *shared_records(tables, tests, Redaction(), schema.categorical)]
    if any(silo.groups is not None for silo in silos):
        # Records of one group may well be equal.
        found = [each for each in found if each.code != "repeated-records"]
    if schema.follow_up:
        times = {silo.name: silo.private.y for silo in silos}
        found += unfollowed(times, schema.follow_up.time, schema.follow_up.horizons, Redaction())
    table = _table_of(dataset)
    if schema.columns:
        own = {silo.name: silo.private for silo in silos}
        classes = schema.classes
        if schema.outcome.number:
            own = {silo: _by_half(records, timed=bool(schema.follow_up)) for silo, records in own.items()}
            classes = ("below the median", "above it")
        fit = LabelsFit(own, schema.columns, len(classes))
        found += fit.findings(classes)
        sites = [SiteCell(silo, n, 0, numbers=(auc.low, auc.value, auc.high)) for silo, (n, auc) in fit.areas().items()]
        if sites:
            table = TableOne((*table.rows, Row(LABELS_FIT, tuple(sites), label=True)))
    return Inspection(table, tuple(with_accepted(found, accept)))


def unfollowed(
    times: Mapping[SiloName, NDArray[Any]], column: str, horizons: Sequence[float], redaction: Redaction
) -> Iterator[Finding]:
    """Silos whose signed times ``(n,)`` all lie before a horizon, so that their models state no chances up to it."""
    for silo, own in times.items():
        if beyond := [horizon for horizon in horizons if np.abs(own).max(initial=0.0) < horizon]:
            what = f"follows no record up to {beyond[0]:g}, a horizon of the study"
            fix = "check the unit of the times; in the study's unit, no chance is known up to there"
            yield redaction.finding("other-scale", column, silo, what, fix)


def _table_of(dataset: FederatedDataset) -> TableOne:
    if dataset.table_one is not None:
        return dataset.table_one
    silos = {silo.name: silo.private.X for silo in dataset.silos}
    rows = [row_of(column) for column in columns_of_arrays(dataset.public.X, silos, dataset.schema)]
    if rows and not dataset.schema.outcome.number:
        counts = {silo.name: dataset.schema.outcome.counts(silo.private.y) for silo in dataset.silos}
        rows.insert(0, of_classes(counts, "class"))
    return TableOne(tuple(rows))


def _by_half(records: Examples, *, timed: bool) -> Examples:
    """Records of two classes: below and above the median of the number to predict, or of ``survival.excess``.

    Signed times would call all censored records early, however long a silo follows up: in ten studies of three
    registries and a short trial 8 false alarms instead of 3, and of 30 silos with shuffled outcomes 23 found, not 25.
    """
    y = survival.excess(survival.times_of(records.y)) if timed else records.y
    return Examples(records.X, (y > np.median(y)).astype(LABEL_DTYPE))


def _of_groups(dataset: FederatedDataset) -> Iterator[Finding]:
    """Groups that stand at several silos, in the public set too, or in a silo's training and test part."""
    for silo in dataset.silos:
        both = () if silo.groups is None or silo.test_groups is None else np.intersect1d(silo.groups, silo.test_groups)
        if len(both):
            yield shared_groups(silo.name, len(both), Redaction())
        if silo.groups is not None and not silo.test.size and len(np.unique(silo.groups)) == 1:
            message = f"all records of silo {silo.name} are of one group, so none is held out for a test"
            yield Finding("few-records", Severity.SAID, message, "check the group column there", silo=silo.name)
    found = []
    for silo in dataset.silos:
        parts = [part for part in (silo.groups, silo.test_groups) if part is not None]
        own, sizes = np.unique(np.concatenate(parts), return_counts=True) if parts else (np.zeros(0), np.zeros(0))
        found += [own] if silo.groups is not None else []
        public = () if dataset.public_groups is None else np.intersect1d(own, dataset.public_groups)
        if len(public):
            message = f"{len(public):,} of {count(len(own), 'group')} of silo {silo.name} are in the public set as well"
            fix = "remove them from one of the two, unless silos number their groups by themselves"
            yield Finding("shared-records", Severity.SAID, message, fix, silo=silo.name)
        if len(own) > 2 and sizes.max() > sizes.sum() / 2:
            message = f"most records of silo {silo.name} are of one group"
            fix = "leave the group empty where it is not known, also instead of 0 or 9999"
            yield Finding("few-records", Severity.SAID, message, fix, silo=silo.name)
    groups, silos = np.unique(np.concatenate(found), return_counts=True) if found else (np.zeros(0), np.zeros(0))
    if shared := int((silos > 1).sum()):
        message = f"{shared:,} of {count(len(groups), 'group')} have records at several silos"
        fix = "nothing, if each silo numbers its groups by itself; otherwise the pooled test score is too good"
        yield Finding("shared-records", Severity.SAID, message, fix)


def shared_groups(silo: SiloName, amount: int, redaction: Redaction) -> Finding:
    """The finding that an amount of groups stands in a silo's training and test part."""
    groups, fix = redaction.number(amount, "group"), "remove these groups from one of the two"
    message = f"silo {silo} trains on {groups} of its test set, so its scores are too good"
    return Finding("shared-records", Severity.SAID, message, fix, silo=silo)


def shared_records(
    tables: Mapping[SiloName, Features],
    tests: Mapping[SiloName, Features],
    redaction: Redaction,
    categorical: Sequence[int] = (),
) -> Iterator[Finding]:
    """Equal records of tables ``(records, ...)``; the public set's name is empty. ``tests`` are silos' test parts.

    ``categorical`` are the columns that hold numbers of words.
    """
    kept = {silo: X for silo, X in tables.items() if len(X)}
    parts = {f"{silo}{_PART}": X for silo, X in tests.items() if silo in kept and len(X)}
    exact, rounded, bits = _digests({**kept, **parts}, categorical)
    found: dict[_Pair, int] = {}
    for keys in (exact, rounded):
        whole = {silo: np.concatenate([keys[each] for each in (silo, silo + _PART) if each in keys]) for silo in kept}
        between = _beyond_chance(whole, None, bits)
        tested = _beyond_chance(keys, [(silo, silo + _PART) for silo in kept if silo + _PART in keys], bits)
        found |= {pair: max(number, found.get(pair, 0)) for pair, number in (between | tested).items()}
    # Copies within a silo reach its test part by themselves.
    for (one, other), number in sorted(found.items(), key=lambda item: -item[1]):
        yield _shared(one, other, number, redaction)
    again = _beyond_chance({silo: exact[silo] for silo in kept}, [(silo, silo) for silo in kept], bits)
    for (silo, _), number in again.items():
        message = f"{redaction.number(number, 'record')} {redaction.at(silo)} repeat others exactly"
        fix = "remove copies, or name the column that says which records belong together as group"
        yield Finding("repeated-records", Severity.SAID, message, fix, silo=silo)


def _shared(one: SiloName, other: SiloName, number: int, redaction: Redaction) -> Finding:
    records, silo = redaction.number(number, "record"), other
    if other.endswith(_PART):
        message = f"{records} of the test part of silo {one} equal records that it trains on"
        message += ", so its scores are too good"
        silo, fix = one, "remove copies, or name the patients' column as group"
    elif one:
        message = f"{records} of silo {other} stand at silo {one} as well"
        fix = "check for copies of a table; keep each record at one silo"
    else:
        message, fix = f"{records} of silo {other} stand in the public set as well", "remove them from one of the two"
    return Finding("shared-records", Severity.SAID, message, fix, silo=silo)


def _beyond_chance(keys: Mapping[SiloName, _Keys], chosen: Sequence[_Pair] | None, bits: float) -> dict[_Pair, int]:
    """Pairs of tables with more equal records than chance explains, and how many; of a table with itself, repeats.

    Of all pairs of different tables where none are ``chosen``.
    """
    names, at = [*keys], {name: position for position, name in enumerate(keys)}
    tables = _Tables.of([*keys.values()], [(at[name], at[name + _PART]) for name in names if name + _PART in at])
    if tables is None:
        return {}
    within = _rate(tables.repeats, tables.sizes * (tables.sizes - 1) / 2)
    found = {}
    for one, other in tables.alike(names) if chosen is None else chosen:
        a, b = sorted((at[one], at[other]), key=tables.sizes.__getitem__)
        size = tables.sizes[a]
        number = tables.equal[a, b] if a != b else size - len(np.unique(keys[one]))
        if number < max(_FEWEST, 0.02 * size):
            continue
        rate = tables.rate_without(a, b)
        if a != b and not other.endswith(_PART):
            rate = max(rate, within)
        every = size * tables.sizes[b] if a != b else size * (size - 1) / 2
        # Where records differ in many bits, chance makes no equal ones.
        expected = 0.0 if every * 2**-bits < 0.05 else min(size, every * rate)
        if number > 3 * (expected + np.sqrt(expected)):
            found[one, other] = int(number)
    return found


def _rate(agreeing: NDArray[np.float64], every: NDArray[np.float64]) -> float:
    """The share of pairs of records that agree, without the table where most do, which may hold copies."""
    kept = np.argsort(agreeing / np.maximum(every, 1))[: max(1, len(agreeing) - 1)]
    return float(agreeing[kept].sum() / max(1.0, every[kept].sum()))


@dataclass(frozen=True)
class _Tables:
    """How many records tables share. Two tables are the training and the test part of a silo, or apart."""

    sizes: NDArray[np.float64]
    equal: Any
    """Records of one table that are in another: sparse ``(tables, tables)``."""
    repeats: NDArray[np.float64]
    """Equal pairs of records within each table, each pair once."""
    apart: Any
    """Equal pairs of records of tables that are apart: sparse ``(tables, tables)``, each pair of tables twice."""
    others: NDArray[np.float64]
    """All pairs of a record of each table with one of the tables apart from it."""
    partner: NDArray[np.intp]
    """The position of each table's test part, or of the table that a test part is of; -1 for none."""
    most: tuple[NDArray[np.intp], NDArray[np.intp]]
    """Pairs of tables apart that share records, in descending order of the share of pairs of records that agree."""

    @classmethod
    def of(cls, keys: Sequence[_Keys], parts: Sequence[tuple[int, int]]) -> "_Tables | None":
        """``parts``: the positions of each table and its test part.

        None where most of thousands of tables share records: chance is the only explanation.
        """
        # SciPy takes its time to import.
        from scipy.sparse import csr_array, triu

        lengths = np.array([len(own) for own in keys])
        _, number = np.unique(np.concatenate(keys), return_inverse=True)
        times = csr_array((np.ones(len(number)), (np.repeat(np.arange(len(keys)), lengths), number)))
        times.sum_duplicates()
        if min(np.square(np.bincount(times.indices)).sum(), len(keys) ** 2) > _MOST_PAIRS:
            return None
        sizes, pairs = lengths.astype(np.float64), (times @ times.T).tolil()
        repeats = (pairs.diagonal() - sizes) / 2
        pairs.setdiag(0)
        others, partner = sizes * (sizes.sum() - sizes), np.full(len(keys), -1)
        for one, other in parts:
            pairs[one, other] = pairs[other, one] = 0
            others[[one, other]] -= sizes[one] * sizes[other]
            partner[[one, other]] = other, one
        apart = pairs.tocsr()
        apart.eliminate_zeros()
        once = triu(apart, format="coo")
        order = np.argsort(-once.data / (sizes[once.row] * sizes[once.col]), kind="stable")
        return cls(sizes, times @ times.sign().T, repeats, apart, others, partner, (once.row[order], once.col[order]))

    def alike(self, names: Sequence[SiloName]) -> list[_Pair]:
        """Pairs of different tables that share as many records as are worth a look."""
        found = self.equal.tocoo()
        there = found.data >= _FEWEST
        both = zip(found.row[there].tolist(), found.col[there].tolist(), strict=True)
        ordered = {(a, b) if names[a] < names[b] else (b, a) for a, b in both if a != b}
        return [(names[a], names[b]) for a, b in sorted(ordered)]

    @cached_property
    def agreeing(self) -> NDArray[np.float64]:
        """Equal pairs of a record of each table with one of the tables apart from it."""
        return np.asarray(self.apart.sum(axis=1)).ravel()

    def rate_without(self, a: int, b: int) -> float:
        """The share of pairs of records that agree between tables apart, without the two where most do.

        Those may be copies. For the same reason all pairs with one of two different tables are left out.
        """
        agreeing, every = self.agreeing.sum() / 2, self.others.sum() / 2
        left_out = set() if a == b else {a, b}
        for one in left_out:
            agreeing, every = agreeing - self.agreeing[one], every - self.others[one]
        if left_out and self.partner[a] != b:
            agreeing, every = agreeing + self.apart[a, b], every + self.sizes[a] * self.sizes[b]
        for one, other in zip(*self.most, strict=True):
            if not {one, other} & left_out:
                # Unless they are the only two.
                if (without := every - self.sizes[one] * self.sizes[other]) > 0:
                    agreeing, every = agreeing - self.apart[one, other], without
                break
        return float(agreeing / max(1.0, every))


def _digests(
    tables: Mapping[SiloName, Features], categorical: Sequence[int]
) -> tuple[dict[SiloName, _Keys], dict[SiloName, _Keys], float]:
    """The keys of each table, exact, and rounded without identifiers; and in how many bits records differ.

    Half of those in which they would differ if columns had nothing to do with each other.
    """
    if any(X.ndim > 2 for X in tables.values()):
        pictures = {name: _keys([*X]) for name, X in tables.items()}
        return pictures, pictures, 0.0
    exact = {name: [np.zeros(len(X))] for name, X in tables.items()}
    rounded = {name: [np.zeros(len(X))] for name, X in tables.items()}
    bits = 0.0
    for at in range(next(iter(tables.values())).shape[1]):
        cells = [_numbers(X[:, at]) for X in tables.values()]
        for name, own in zip(tables, cells, strict=True):
            exact[name].append(own.view(np.float64))
        if _are_identifiers(cells, word=at in categorical):
            continue
        if at not in categorical and cells[0].dtype == np.float64:
            cells = [np.round(own, decimals) + 0.0 for own, decimals in zip(cells, _decimals(cells), strict=True)]
        for name, own in zip(tables, cells, strict=True):
            rounded[name].append(own.view(np.float64))
        sample = np.concatenate([own[:: -(-len(own) // _SAMPLE)] for own in cells])
        _, counts = np.unique(sample, return_counts=True)
        bits -= float(np.log2(np.square(counts / counts.sum()).sum())) / 2
    both = [{name: _keys(np.stack(own, axis=1)) for name, own in columns.items()} for columns in (exact, rounded)]
    return both[0], both[1], bits


def _keys(rows: Iterable[NDArray[Any]]) -> _Keys:
    return np.array([hash(row.tobytes()) for row in rows])


def _numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Numbers as floats, with one zero and one NaN; of texts a hash, in small letters and without blanks around."""
    if values.dtype == np.object_ and len(values) and isinstance(values[0], str):
        return np.array([hash(text.strip().casefold()) for text in values])
    return np.where(np.isnan(values := values.astype(np.float64)), np.nan, values + 0.0)


def _are_identifiers(tables: Sequence[NDArray[Any]], word: bool) -> bool:
    """Whether 90% of the records have another word in some table, or another whole number in each."""
    found = []
    for values in tables:
        some = values[:_SAMPLE]
        some = some[~np.isnan(some)] if some.dtype == np.float64 else some
        whole = some.dtype != np.float64 or not (some % 1).any()
        if len(some) >= 20:
            found.append(whole and len(np.unique(some)) >= 0.9 * len(some))
    return bool(found) and (any(found) if word or tables[0].dtype != np.float64 else all(found))


def _decimals(tables: Sequence[NDArray[np.float64]]) -> list[int]:
    """For each table the decimals of that with the fewest, and as many as three digits of a usual number have.

    A table whose usual number is powers of ten away, as in another unit, has that many more or fewer.
    """
    some = [values[:_SAMPLE][np.isfinite(values[:_SAMPLE])] for values in tables]
    usual, *each = [float(np.median(np.abs(own))) if len(own) else 0.0 for own in (np.concatenate(some), *some)]
    digits = 2 - int(np.floor(np.log10(usual))) if usual > 0 else 3
    more = [int(np.log10(usual) - np.log10(own)) if usual > 0 and own > 0 else 0 for own in each]
    for decimals in range(min(0, digits), digits):
        for own, at, size in zip(some, more, each, strict=True):
            if len(own) and (np.abs(np.round(own, decimals + at) - own) < 1e-9 * (size or usual)).all():
                return [decimals + further for further in more]
    return [digits + further for further in more]
