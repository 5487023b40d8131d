"""Whether the records of several silos agree on what the classes are: labels that are swapped at one of them.

A plain rule is learned from each silo: the direction from the mean record of one class to that of another (the nearest
centroid, Tibshirani et al. 2002). A silo whose records the other silos' common direction ranks the wrong way round, far
from chance, has the opposite labels. Silos that differ, or labels that nothing predicts, give an AUC near one half.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.schema import Column
from fedct_flwr.text.printable import quoted
from fedct_flwr.types import Examples, Features, SiloName

_OPPOSITE: Final = 0.35
"""AUC of the others' direction, from which a silo's labels are the opposite; three standard errors below one half."""
_FAR: Final = 3.0
_PREDICTS: Final = 0.6
"""AUC with which the other silos must predict each other's labels."""
_FEWEST: Final = 8
"""Records of each of the two classes that a silo needs to be compared."""
_MOST_CATEGORIES: Final = 30
_CELLS: Final = 5_000_000
"""Cells of all silos that are compared."""
_EXTREME: Final = 3.0

_Floats = NDArray[np.float32]


def opposed(silos: Mapping[SiloName, Examples], columns: Sequence[Column], classes: Sequence[str]) -> Iterator[Finding]:
    """The silo whose labels are most clearly the opposite of what the other silos' records predict, if there is one.

    The two most frequent classes count. ``silos`` hold the records that they train on, features ``(n, columns)`` as
    ``columns`` number them.
    """
    total = sum(np.bincount(own.y, minlength=len(classes)) for own in silos.values())
    a, b = sorted(np.argsort(-np.asarray(total), kind="stable")[:2].tolist())
    most = max(50, _CELLS // max(1, len(columns) * len(silos)))
    some = {
        silo: (own.X[step], own.y[step])
        for silo, own in silos.items()
        for step in [slice(None, None, 1 + own.size // most)]
    }
    some = {silo: (X, y) for silo, (X, y) in some.items() if min(np.sum(y == a), np.sum(y == b)) >= _FEWEST}
    if len(some) < 2:
        return
    features = _standardized({silo: X for silo, (X, _) in some.items()}, columns)
    parts = {silo: (features[silo][y == a], features[silo][y == b]) for silo, (_, y) in some.items()}
    # Silos count alike: one large silo with swapped labels would turn the others' direction round.
    ways = {silo: one.mean(axis=0) - other.mean(axis=0) for silo, (one, other) in parts.items()}
    aucs = {silo: _auc(*parts[silo], _common(ways, {*ways} - {silo})) for silo in parts}
    worst = min(aucs, key=lambda silo: aucs[silo])
    one, other = map(len, parts[worst])
    # The standard error of an AUC where nothing predicts the labels (Mann and Whitney 1947).
    error = np.sqrt((one + other + 1) / (12 * one * other))
    others = [silo for silo in parts if silo != worst]
    if len(others) > 1:
        agreed = float(np.mean([_auc(*parts[silo], _common(ways, {*others} - {silo})) for silo in others]))
    else:
        (first, second) = parts[others[0]]
        agreed = _auc(first[1::2], second[1::2], first[::2].mean(axis=0) - second[::2].mean(axis=0))
    if aucs[worst] <= min(_OPPOSITE, 0.5 - _FAR * error) and agreed >= _PREDICTS:
        against = f"silo {others[0]}" if len(others) == 1 else "the other silos"
        said = f"the labels of silo {worst} are the opposite of what the records of {against} predict "
        said += f"({quoted(classes[a])} and {quoted(classes[b])}, AUC {aucs[worst]:.2f})"
        fix = "check that the classes mean the same there, and which of them is which"
        yield Finding("reversed-labels", Severity.SAID, said, fix, silo=worst)


def _standardized(silos: Mapping[SiloName, Features], columns: Sequence[Column]) -> dict[SiloName, _Floats]:
    """The records of each silo, in units of spread over all; categories as columns of their own."""
    found: dict[SiloName, list[NDArray[np.float32]]] = {
        silo: [np.zeros((len(X), 0), np.float32)] for silo, X in silos.items()
    }
    for at, column in enumerate(columns):
        if column.text or len(names := column.categories or ()) > _MOST_CATEGORIES:
            continue
        cells = {silo: X[:, at].astype(np.float64) for silo, X in silos.items()}
        together = np.concatenate([*cells.values()])
        # A code such as -999 would be all of the standard deviation.
        low, middle, high = np.nanpercentile([*together, 0.0] if np.isnan(together).all() else together, (10, 50, 90))
        for silo, own in cells.items():
            scaled = np.clip(np.nan_to_num((own - middle) / ((high - low) / 2 or 1.0)), -_EXTREME, _EXTREME)
            block = own[:, None] == np.arange(len(names)) if names else scaled[:, None]
            found[silo].append(block.astype(np.float32))
    return {silo: np.concatenate(blocks, axis=1) for silo, blocks in found.items()}


def _common(ways: Mapping[SiloName, _Floats], silos: Collection[SiloName]) -> _Floats:
    mean: _Floats = np.mean([ways[silo] for silo in sorted(silos)], axis=0)
    return mean


def _auc(one: _Floats, other: _Floats, way: _Floats) -> float:
    """How often a record of one class lies farther this way than a record of another; ties count half."""
    high, low = one @ way, np.sort(other @ way)
    below = np.searchsorted(low, high, side="left") + np.searchsorted(low, high, side="right")
    return float(below.mean() / (2 * len(low)))
