"""Whole records that stand twice: at two silos, in the public set, in a silo's training and test part, or within it.

Records are compared twice: exactly, and rounded without identifiers. Numbers are rounded as coarsely as the coarsest
table writes them, and to three significant digits. An identifier is a column with another value in nearly each record.
So neither another order nor other identifiers hide a copy. The label does not count: a copy may have other ones.

Chance makes equal records where columns are few or coarse. Then records agree as often between other tables and within
tables. The larger of these two rates, each without the tables that agree most, is the chance with which a number of
equal records is compared; for the test part and for repeats within a table, the rate between tables. Where the columns
tell records apart beyond doubt, chance makes none.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.types import Features, SiloName

SHARE: Final = 0.02
"""Share of the smaller table's records, and of a table's own, from which equal records are said."""
_FEWEST: Final = 5
_TIMES: Final = 3.0
"""Times what chance makes."""
_ONCE: Final = 0.9
"""Different values per record from which a column is an identifier."""
_ENOUGH: Final = 20
_DIGITS: Final = 3
_SAMPLE: Final = 2000
_MOST_TABLES: Final = 200
_NO_CHANCE: Final = 0.05
"""Pairs of equal records to be expected, below which chance makes none."""
_PART: Final = " (test)"

_Keys = NDArray[np.uint64]


class _Equal(NamedTuple):
    """Of each two tables, how many records of the one are in the other, and how many pairs of records agree, of all."""

    records: NDArray[np.float64]
    pairs: NDArray[np.float64]
    every: NDArray[np.float64]
    sizes: NDArray[np.int64]


def shared_records(
    tables: Mapping[SiloName, Features],
    tests: Mapping[SiloName, Features],
    say: Words,
    categorical: Sequence[int] = (),
) -> Iterator[Finding]:
    """Equal records of tables ``(records, ...)``; the public set's name is empty. ``tests`` are silos' test parts.

    ``categorical`` are the columns that hold numbers of words.
    """
    largest = sorted(tables, key=lambda silo: -len(tables[silo]))[:_MOST_TABLES]
    kept = {silo: X for silo, X in tables.items() if silo in largest and len(X)}
    parts = {f"{silo}{_PART}": X for silo, X in tests.items() if silo in kept and len(X)}
    exact, rounded, bits = _digests({**kept, **parts}, categorical)
    found: dict[tuple[SiloName, SiloName], int] = {}
    for keys in (exact, rounded):
        whole = {
            silo: np.concatenate([keys[silo], *([keys[silo + _PART]] if silo + _PART in keys else [])]) for silo in kept
        }
        for pair, number in _beyond_chance(whole, [(a, b) for a in whole for b in whole if a < b], bits):
            found[pair] = max(found.get(pair, 0), number)
        own = [(silo, f"{silo}{_PART}") for silo in kept if f"{silo}{_PART}" in keys]
        for pair, number in _beyond_chance(keys, own, bits):
            found[pair] = max(found.get(pair, 0), number)
    again = dict(_repeated(exact, kept, bits))
    # Copies within a silo reach its test part by themselves.
    for (one, other), number in sorted(found.items(), key=lambda item: -item[1]):
        yield _shared(one, other, number, say)
    for silo, number in again.items():
        said = f"{say.number(number, 'record')} {say.at(silo) if silo else 'of the public set'} repeat others exactly"
        fix = "remove copies, or name the column that says which records belong together as group"
        yield Finding("repeated-records", Severity.SAID, said, fix, silo=silo)


def _shared(one: SiloName, other: SiloName, number: int, say: Words) -> Finding:
    records = say.number(number, "record")
    if other.endswith(_PART):
        said = f"{records} of the test part of silo {one} equal records that it trains on, so its scores are too good"
        fix = "remove copies, or name the patients' column as group"
        return Finding("shared-records", Severity.SAID, said, fix, silo=one)
    if not one:
        said, fix = f"{records} of silo {other} stand in the public set as well", "remove them from one of the two"
    else:
        said = f"{records} of silo {other} stand at silo {one} as well"
        fix = "check for copies of a table; keep each record at one silo"
    return Finding("shared-records", Severity.SAID, said, fix, silo=other)


def _beyond_chance(
    keys: Mapping[SiloName, _Keys], chosen: Sequence[tuple[SiloName, SiloName]], bits: float
) -> Iterator[tuple[tuple[SiloName, SiloName], int]]:
    """Pairs of tables with more equal records than chance explains, and how many."""
    names, (equal, pairs, every, sizes) = [*keys], _equal([*keys.values()])
    at = {name: position for position, name in enumerate(names)}
    apart = np.triu(np.ones(pairs.shape, dtype=bool), k=1)
    for name in (name for name in names if name.endswith(_PART)):
        own = at[name.removesuffix(_PART)]
        apart[own, at[name]] = apart[at[name], own] = False
    within = _rate(np.diag(pairs), np.diag(every))
    for one, other in chosen:
        a, b = sorted((at[one], at[other]), key=lambda position: sizes[position])
        number = int(equal[a, b])
        if number < max(_FEWEST, SHARE * sizes[a]):
            continue
        # A table that is a copy may have been copied more than once.
        others = apart.copy()
        others[[a, b]] = others[:, [a, b]] = False
        rate = _rate(pairs[others], every[others])
        if not other.endswith(_PART):
            rate = max(rate, within)
        if _is_more(number, min(sizes[a], every[a, b] * rate), every[a, b], bits):
            yield (one, other), number


def _repeated(
    keys: Mapping[SiloName, _Keys], tables: Mapping[SiloName, Features], bits: float
) -> Iterator[tuple[SiloName, int]]:
    """Tables with more records that repeat others of it than chance explains, and how many."""
    _, pairs, every, sizes = _equal([keys[name] for name in tables])
    apart = np.triu(np.ones(pairs.shape, dtype=bool), k=1)
    for at, name in enumerate(tables):
        number = int(sizes[at] - len(np.unique(keys[name])))
        rate = _rate(pairs[apart], every[apart])
        enough = number >= max(_FEWEST, SHARE * sizes[at])
        if enough and _is_more(number, every[at, at] * rate, every[at, at], bits):
            yield name, number


def _rate(agreeing: NDArray[np.float64], every: NDArray[np.float64]) -> float:
    """The share of pairs of records that agree, without the pair of tables where most do, which may be copies."""
    kept = np.argsort(agreeing / np.maximum(every, 1))[: max(1, len(agreeing) - 1)]
    return float(agreeing[kept].sum() / max(1.0, every[kept].sum()))


def _is_more(number: int, expected: float, pairs: float, bits: float) -> bool:
    """Whether chance does not explain a number of equal records; where records differ in many bits, it makes none."""
    expected = 0.0 if pairs * 2**-bits < _NO_CHANCE else expected
    return number > _TIMES * (expected + float(np.sqrt(expected)))


def _equal(keys: Sequence[_Keys]) -> _Equal:
    """Counts for each two tables ``(tables, tables)``, by products of matrices ``(tables, different records)``."""
    # SciPy takes its time to import.
    from scipy.sparse import csr_array

    _, number = np.unique(np.concatenate(keys), return_inverse=True)
    table = np.repeat(np.arange(len(keys)), [len(own) for own in keys])
    times = csr_array((np.ones(len(number)), (table, number)), shape=(len(keys), int(number.max()) + 1))
    there = times.copy()
    there.data = np.minimum(there.data, 1.0)
    sizes = np.array([len(own) for own in keys])
    pairs, every = (times @ times.T).toarray(), np.outer(sizes, sizes).astype(np.float64)
    # Within a table, each pair of different records once.
    np.fill_diagonal(pairs, (np.diag(pairs) - sizes) / 2)
    np.fill_diagonal(every, sizes * (sizes - 1) / 2)
    return _Equal((times @ there.T).toarray(), pairs, every, sizes)


def _digests(
    tables: Mapping[SiloName, Features], categorical: Sequence[int]
) -> tuple[dict[SiloName, _Keys], dict[SiloName, _Keys], float]:
    """64 bits for each record of each table, exact, and rounded without identifiers; and in how many bits they differ.

    Half of those in which they would differ if columns had nothing to do with each other.
    """
    flat = {name: X.reshape(len(X), -1) for name, X in tables.items()}
    exact = {name: np.zeros(len(X), dtype=np.uint64) for name, X in flat.items()}
    rounded = {name: np.zeros(len(X), dtype=np.uint64) for name, X in flat.items()}
    pictures = any(X.ndim > 2 for X in tables.values())
    bits = 0.0
    for at in range(next(iter(flat.values())).shape[1]):
        cells = {name: _numbers(X[:, at]) for name, X in flat.items()}
        for name, own in cells.items():
            exact[name] = _mixed(exact[name], own)
        if pictures or _are_identifiers([*cells.values()], word=at in categorical):
            continue
        if at not in categorical and cells and next(iter(cells.values())).dtype == np.float64:
            decimals = _decimals([*cells.values()])
            cells = {name: np.round(own, decimals) for name, own in cells.items()}
        for name, own in cells.items():
            rounded[name] = _mixed(rounded[name], own)
        sample = np.concatenate([own[:: -(-len(own) // _SAMPLE)] for own in cells.values()])
        _, counts = np.unique(sample, return_counts=True)
        bits -= float(np.log2(np.square(counts / counts.sum()).sum())) / 2
    return exact, exact if pictures else rounded, bits


def _numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Numbers as floats, with one zero; of texts 64 bits of their hash, in small letters and without blanks around."""
    if values.dtype == np.object_ and len(values) and isinstance(values[0], str):
        hashes = (hashlib.blake2b(text.strip().casefold().encode(), digest_size=8).digest() for text in values)
        return np.frombuffer(b"".join(hashes), dtype=np.uint64)
    return values.astype(np.float64) + 0.0


def _are_identifiers(tables: Sequence[NDArray[Any]], word: bool) -> bool:
    """Whether nearly each record has another word in some table, or another whole number in each."""
    found = []
    for values in tables:
        some = values[:_SAMPLE]
        some = some[~np.isnan(some)] if some.dtype == np.float64 else some
        whole = some.dtype != np.float64 or not (some % 1).any()
        if len(some) >= _ENOUGH:
            found.append(whole and len(np.unique(some)) >= _ONCE * len(some))
    return bool(found) and (any(found) if word or tables[0].dtype != np.float64 else all(found))


def _decimals(tables: Sequence[NDArray[np.float64]]) -> int:
    """Decimals of the table with the fewest, and as many as three significant digits of a usual number have."""
    some = [values[:_SAMPLE][np.isfinite(values[:_SAMPLE])] for values in tables]
    every = np.concatenate(some)
    usual = float(np.median(np.abs(every))) if len(every) else 0.0
    digits = _DIGITS - 1 - int(np.floor(np.log10(usual))) if usual > 0 else _DIGITS
    for decimals in range(min(0, digits), digits):
        if any(len(values) and (np.abs(np.round(values, decimals) - values) < 1e-9 * usual).all() for values in some):
            return decimals
    return digits


def _mixed(digest: _Keys, values: NDArray[Any]) -> _Keys:
    if values.dtype == np.float64:
        values = np.where(np.isnan(values), np.nan, values + 0.0).view(np.uint64)
    # The finalizer of MurmurHash3.
    mixed = digest ^ values
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        mixed = (mixed ^ (mixed >> np.uint64(33))) * np.uint64(factor)
    found: _Keys = digest * np.uint64(31) + (mixed ^ (mixed >> np.uint64(33)))
    return found
