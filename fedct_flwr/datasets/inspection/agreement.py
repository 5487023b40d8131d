"""Whether the records of several silos agree on what the classes are: labels that are swapped at one of them.

A plain rule is learned from each silo: the direction from the mean record of one class to that of another (the nearest
centroid, Tibshirani et al. 2002). A silo whose records the other silos' common direction ranks the wrong way round, far
from chance, has the opposite labels. Silos that differ, or labels that nothing predicts, give an AUC near one half.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.schema import Column
from fedct_flwr.text.printable import quoted
from fedct_flwr.types import Examples, SiloName

_OPPOSITE: Final = 0.35
"""AUC of the others' direction, from which a silo's labels are the opposite; three standard errors below one half."""
_FAR: Final = 3.0
_PREDICTS: Final = 0.6
"""AUC with which the other silos must predict each other's labels."""
_FEWEST: Final = 8
"""Records of each of the two classes that a silo needs to be compared."""
_MOST_RECORDS: Final = 2000
_MOST_CATEGORIES: Final = 30
_MOST_SILOS: Final = 60
_CELLS: Final = 20_000_000
_EXTREME: Final = 3.0

_Pair = tuple[NDArray[np.float32], NDArray[np.float32]]
"""A silo's records of two classes."""


def opposed(silos: Mapping[SiloName, Examples], columns: Sequence[Column], classes: Sequence[str]) -> Iterator[Finding]:
    """Silos whose labels are the opposite of what the other silos' records predict, of the two most frequent classes.

    ``silos`` hold the records that they train on, features ``(n, columns)`` as ``columns`` number them.
    """
    total = sum(np.bincount(own.y, minlength=len(classes)) for own in silos.values())
    a, b = sorted(np.argsort(-np.asarray(total), kind="stable")[:2].tolist())
    enough = {
        silo: own
        for silo, own in silos.items()
        if min(np.count_nonzero(own.y == a), np.count_nonzero(own.y == b)) >= _FEWEST
    }
    largest = sorted(enough, key=lambda silo: -enough[silo].size)[:_MOST_SILOS]
    if len(largest) < 2:
        return
    spread = _standardized({silo: enough[silo] for silo in enough if silo in largest}, columns)
    parts = {silo: (X[y == a], X[y == b]) for silo, (X, y) in spread.items()}
    parts = {silo: pair for silo, pair in parts.items() if min(map(len, pair)) >= _FEWEST}
    for silo, others, auc in _opposite(parts):
        against = f"silo {others[0]}" if len(others) == 1 else "the other silos"
        said = f"the labels of silo {silo} are the opposite of what the records of {against} predict "
        said += f"({quoted(classes[a])} and {quoted(classes[b])}, AUC {auc:.2f})"
        fix = "check that the classes mean the same there, and which of them is which"
        yield Finding("reversed-labels", Severity.SAID, said, fix, silo=silo)


def _standardized(
    silos: Mapping[SiloName, Examples], columns: Sequence[Column]
) -> dict[SiloName, tuple[NDArray[np.float32], NDArray[np.int_]]]:
    """Some records of each silo, in units of spread over all; categories as columns of their own."""
    kept = [
        at for at, column in enumerate(columns) if not column.text and len(column.categories or ()) <= _MOST_CATEGORIES
    ]
    width = sum(len(columns[at].categories or ("",)) for at in kept)
    most = min(_MOST_RECORDS, max(50, _CELLS // max(1, width * len(silos))))
    steps = {silo: slice(None, None, -(-own.size // most)) for silo, own in silos.items()}
    found: dict[SiloName, list[NDArray[np.float32]]] = {silo: [] for silo in silos}
    for at in kept:
        cells = {silo: own.X[steps[silo]][:, at].astype(np.float64) for silo, own in silos.items()}
        names = columns[at].categories
        for value in [None] if names is None else range(len(names)):
            raw = cells if value is None else {silo: (own == value).astype(float) for silo, own in cells.items()}
            together = np.concatenate([*raw.values()])
            together = together[~np.isnan(together)]
            # A code such as -999 would be all of the standard deviation.
            low, middle, high = np.percentile(together, (10, 50, 90)) if len(together) else (0.0, 0.0, 0.0)
            scale = (high - low) / 2 or 1.0
            for silo, own in raw.items():
                scaled = np.clip(np.nan_to_num((own - middle) / scale), -_EXTREME, _EXTREME)
                found[silo].append(scaled.astype(np.float32))
    return {
        silo: (np.stack(found[silo], axis=1) if found[silo] else np.zeros((len(own.y[steps[silo]]), 0), np.float32), y)
        for silo, own in silos.items()
        for y in [own.y[steps[silo]]]
    }


def _opposite(parts: Mapping[SiloName, _Pair]) -> Iterator[tuple[SiloName, list[SiloName], float]]:
    """Silos where the others' direction is the wrong one, those others, and the AUC there; the worst first."""
    ways = {silo: one.mean(axis=0) - other.mean(axis=0) for silo, (one, other) in parts.items()}
    left = [*parts]
    for _ in range(len(parts) // 2):
        # Silos count alike: one large silo with swapped labels would turn the others' direction round.
        aucs = {silo: _auc(*parts[silo], _common(ways, left, silo)) for silo in left}
        worst = min(left, key=lambda silo: aucs[silo])
        one, other = map(len, parts[worst])
        # The standard error of an AUC where nothing predicts the labels (Mann and Whitney 1947).
        error = np.sqrt((one + other + 1) / (12 * one * other))
        if aucs[worst] > min(_OPPOSITE, 0.5 - _FAR * error):
            return
        left.remove(worst)
        if _agreed(parts, ways, left) < _PREDICTS:
            return
        yield worst, left, aucs[worst]


def _agreed(
    parts: Mapping[SiloName, _Pair], ways: Mapping[SiloName, NDArray[np.float32]], left: list[SiloName]
) -> float:
    """How well these silos predict each other's labels; a single one, how well one half of it predicts the other."""
    if len(left) > 1:
        return float(np.mean([_auc(*parts[silo], _common(ways, left, silo)) for silo in left]))
    one, other = parts[left[0]]
    return _auc(one[1::2], other[1::2], one[::2].mean(axis=0) - other[::2].mean(axis=0))


def _common(ways: Mapping[SiloName, NDArray[np.float32]], silos: list[SiloName], but: SiloName) -> NDArray[np.float32]:
    mean: NDArray[np.float32] = np.mean([ways[silo] for silo in silos if silo != but], axis=0)
    return mean


def _auc(one: NDArray[np.float32], other: NDArray[np.float32], way: NDArray[np.float32]) -> float:
    """How often a record of one class lies farther this way than a record of another; ties count half."""
    high, low = one @ way, np.sort(other @ way)
    below = np.searchsorted(low, high, side="left") + np.searchsorted(low, high, side="right")
    return float(below.mean() / (2 * len(low)))
