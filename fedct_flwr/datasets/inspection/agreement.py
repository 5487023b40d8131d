"""Whether the records of several silos agree on what the classes are: labels that are swapped at one of them.

A rule as plain as can be is learned from each silo: the direction from the mean record of one class to that of another
(the nearest centroid, Tibshirani et al. 2002). Where the other silos' common direction ranks a silo's records the wrong
way round, and far from chance, its labels are the opposite of theirs. Records of silos that differ, or labels that
nothing predicts, rank them at random instead.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.schema import Column
from fedct_flwr.text.printable import quoted
from fedct_flwr.types import Examples, SiloName

_CELLS: Final = 20_000_000
_MOST_RECORDS: Final = 2000
_MOST_CATEGORIES: Final = 30
_MOST_CLASSES: Final = 6
_MOST_SILOS: Final = 60
_FEWEST: Final = 20
"""Records of each of two classes that a silo needs to be compared."""
_OPPOSITE: Final = 0.35
_FAR: Final = 3.0
"""Standard errors below one half, where nothing predicts the labels."""
_PREDICTS: Final = 0.6
_NOTHING: Final = 0.1
_SURELY: Final = 0.7
_FEWEST_FOR_NOTHING: Final = 60
"""Records of each of two classes from which an AUC near one half is no accident; with fewer, it is far from theirs."""
_FAR_FROM_THEIRS: Final = 4.0
"""Standard errors."""
_EXTREME: Final = 3.0


def opposed(silos: Mapping[SiloName, Examples], columns: Sequence[Column], classes: Sequence[str]) -> Iterator[Finding]:
    """Silos whose labels are the opposite of what the other silos' records predict.

    ``silos`` hold the records that they train on, features ``(n, columns)`` as ``columns`` number them.
    """
    total = sum(np.bincount(own.y, minlength=len(classes)) for own in silos.values())
    common = np.sort(np.argsort(-np.asarray(total), kind="stable")[:_MOST_CLASSES])
    enough = {silo: own for silo, own in silos.items() if _known(own.y, common).sum() > 1}
    largest = sorted(enough, key=lambda silo: -enough[silo].size)[:_MOST_SILOS]
    chosen = {silo: enough[silo] for silo in enough if silo in largest}
    if len(chosen) < 2:
        return
    spread = _standardized(chosen, columns)
    said: set[SiloName] = set()
    for a, b in combinations(common.tolist(), 2):
        parts = {silo: (X[y == a], X[y == b]) for silo, (X, y) in spread.items()}
        parts = {silo: pair for silo, pair in parts.items() if min(map(len, pair)) >= _FEWEST}
        for silo, others, auc in _opposite(parts):
            if silo in said:
                continue
            said.add(silo)
            against = f"silo {others[0]}" if len(others) == 1 else "the other silos"
            what = (
                f"the labels of silo {silo} are the opposite of what the records of {against} predict "
                f"({quoted(classes[a])} and {quoted(classes[b])}, AUC {auc:.2f})"
            )
            fix = "check that the classes mean the same there, and which of them is which"
            yield Finding("reversed-labels", Severity.SAID, what, fix, silo=silo)
        for silo in _unrelated({silo: pair for silo, pair in parts.items() if silo not in said}):
            said.add(silo)
            what = (
                f"nothing in the records of silo {silo} goes with its labels ({quoted(classes[a])} and "
                f"{quoted(classes[b])}), as it does at the other silos"
            )
            fix = "check that its labels stand next to the right records"
            yield Finding("unrelated-labels", Severity.SAID, what, fix, silo=silo)


def _known(y: NDArray[np.int_], common: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Which of the classes have enough records."""
    known: NDArray[np.bool_] = np.array([np.count_nonzero(y == number) >= _FEWEST for number in common])
    return known


def _standardized(
    silos: Mapping[SiloName, Examples], columns: Sequence[Column]
) -> dict[SiloName, tuple[NDArray[np.float32], NDArray[np.int_]]]:
    """Some records of each silo, in units of spread over all; categories as columns of their own."""
    kept = [
        at for at, column in enumerate(columns) if not column.text and len(column.categories or ()) <= _MOST_CATEGORIES
    ]
    width = sum(len(columns[at].categories or ("",)) for at in kept)
    most = min(_MOST_RECORDS, max(2 * _FEWEST, _CELLS // max(1, width * len(silos))))
    raw, answers = {}, {}
    for silo, own in silos.items():
        step = -(-own.size // most)
        X = own.X[::step][:, kept].astype(np.float64)
        pieces: list[NDArray[Any]] = [
            X[:, [at]] if (names := columns[column].categories) is None else X[:, [at]] == np.arange(len(names))
            for at, column in enumerate(kept)
        ]
        with np.errstate(over="ignore"):
            raw[silo] = np.hstack(pieces).astype(np.float32) if pieces else np.zeros((len(X), 0), dtype=np.float32)
        answers[silo] = own.y[::step]
    together = np.concatenate([*raw.values()])
    together[:, np.isnan(together).all(axis=0)] = 0
    with np.errstate(all="ignore"):
        # A sentinel such as -999 would be all of the spread.
        quantiles = np.nanpercentile if np.isnan(together).any() else np.percentile
        low, middle, high = quantiles(together, (10, 50, 90), axis=0) if together.size else (0, 0, 0)
        width_of = np.where(high > low, high - low, 1) / 2
    found = {}
    for silo, rows in raw.items():
        scaled = np.clip(np.nan_to_num((rows - middle) / width_of), -_EXTREME, _EXTREME)
        found[silo] = (scaled.astype(np.float32), answers[silo])
    return found


_Parts = Mapping[SiloName, tuple[NDArray[np.float32], NDArray[np.float32]]]
"""The records of two classes, by silo."""


def _opposite(parts: _Parts) -> Iterator[tuple[SiloName, list[SiloName], float]]:
    """Silos where the others' direction is the wrong one, those others, and the AUC there; the worst first."""
    ways = {silo: one.mean(axis=0) - other.mean(axis=0) for silo, (one, other) in parts.items()}
    left = [*parts]
    for _ in range(len(parts) // 2):
        if len(left) < 2:
            return
        # Silos count alike: one large silo with swapped labels would turn the others' direction round.
        aucs = {silo: _auc(*parts[silo], _common(ways, left, silo)) for silo in left}
        worst = min(left, key=lambda silo: aucs[silo])
        if aucs[worst] > min(_OPPOSITE, 0.5 - _FAR * _error(*parts[worst])):
            return
        left.remove(worst)
        if not _agree(parts, ways, left):
            return
        yield worst, left, aucs[worst]


def _unrelated(parts: _Parts) -> Iterator[SiloName]:
    """Silos whose labels neither the others' records predict nor their own, where the others predict each other."""
    ways = {silo: one.mean(axis=0) - other.mean(axis=0) for silo, (one, other) in parts.items()}
    for silo in parts:
        others = [other for other in parts if other != silo]
        if len(others) < 2:
            continue
        error, few = _error(*parts[silo]), min(map(len, parts[silo])) < _FEWEST_FOR_NOTHING
        away = abs(_auc(*parts[silo], _common(ways, [*parts], silo)) - 0.5)
        if away > max(_NOTHING, 2 * error if few else 0):
            continue
        # Half of the records are learned from, and half are left.
        if abs(_own_auc(*parts[silo]) - 0.5) > max(_NOTHING, 2 * np.sqrt(2) * error if few else 0):
            continue
        lowest = min(_auc(*parts[other], _common(ways, others, other)) for other in others)
        if lowest >= max(_SURELY, 0.5 + away + _FAR_FROM_THEIRS * error if few else 0):
            yield silo


def _error(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """The standard error of an AUC where nothing predicts the labels (Mann and Whitney 1947)."""
    return float(np.sqrt((len(one) + len(other) + 1) / (12 * len(one) * len(other))))


def _own_auc(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """How well one half of a silo's records predicts the other."""
    way = one[::2].mean(axis=0) - other[::2].mean(axis=0)
    return _auc(one[1::2], other[1::2], way)


def _agree(parts: _Parts, ways: Mapping[SiloName, NDArray[np.float32]], silos: list[SiloName]) -> bool:
    """Whether these silos predict each other's labels; one alone, whether one half of it predicts the other."""
    if len(silos) > 1:
        return bool(np.mean([_auc(*parts[silo], _common(ways, silos, silo)) for silo in silos]) >= _PREDICTS)
    return _own_auc(*parts[silos[0]]) >= _PREDICTS


def _common(ways: Mapping[SiloName, NDArray[np.float32]], silos: list[SiloName], but: SiloName) -> NDArray[np.float32]:
    mean: NDArray[np.float32] = np.mean([ways[silo] for silo in silos if silo != but], axis=0)
    return mean


def _auc(one: NDArray[np.float32], other: NDArray[np.float32], way: NDArray[np.float32]) -> float:
    """How often a record of one class lies farther this way than a record of another; ties count half."""
    high, low = one @ way, np.sort(other @ way)
    below = np.searchsorted(low, high, side="left") + np.searchsorted(low, high, side="right")
    return float(below.mean() / (2 * len(low)))
