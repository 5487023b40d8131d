"""Whether the records of several silos agree on what the classes are: labels that are swapped at one of them.

A plain rule is learned from each silo: the direction from the mean record of one class to that of another (the nearest
centroid, Tibshirani et al. 2002). A silo whose records the other silos' common direction ranks the wrong way round, far
from chance, has the opposite labels. Silos that differ, or labels that nothing predicts, give an AUC near one half.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

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
"""AUC with which the other silos must predict their own labels, one half of the records those of the other half."""
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
        silo: Examples(own.X[:: 1 + own.size // most], own.y[:: 1 + own.size // most]) for silo, own in silos.items()
    }
    some = {silo: own for silo, own in some.items() if min(np.sum(own.y == a), np.sum(own.y == b)) >= _FEWEST}
    if len(some) < 2:
        return
    features = _standardized(np.concatenate([own.X for own in some.values()]), columns)
    ends = np.cumsum([own.size for own in some.values()])[:-1]
    parts = {
        silo: (X[own.y == a], X[own.y == b])
        for (silo, own), X in zip(some.items(), np.split(features, ends), strict=True)
    }
    aucs = {silo: _auc(*parts[silo], _way([parts[other] for other in parts if other != silo])) for silo in parts}
    worst = min(aucs, key=lambda silo: aucs[silo])
    one, other = map(len, parts.pop(worst))
    # The standard error of an AUC where nothing predicts the labels (Mann and Whitney 1947).
    error = np.sqrt((one + other + 1) / (12 * one * other))
    way = _way([(one[::2], other[::2]) for one, other in parts.values()])
    agreed = np.mean([_auc(one[1::2], other[1::2], way) for one, other in parts.values()])
    if aucs[worst] <= min(_OPPOSITE, 0.5 - _FAR * error) and agreed >= _PREDICTS:
        against = f"silo {next(iter(parts))}" if len(parts) == 1 else "the other silos"
        said = f"the labels of silo {worst} are the opposite of what the records of {against} predict "
        said += f"({quoted(classes[a])} and {quoted(classes[b])}, AUC {aucs[worst]:.2f})"
        fix = "check that the classes mean the same there, and which of them is which"
        yield Finding("reversed-labels", Severity.SAID, said, fix, silo=worst)


def _standardized(X: NDArray[Any], columns: Sequence[Column]) -> _Floats:
    """Records in units of spread over all; categories as columns of their own."""
    blocks = [np.zeros((len(X), 0), np.float32)]
    for at, column in enumerate(columns):
        if column.text or len(names := column.categories or ()) > _MOST_CATEGORIES:
            continue
        own = X[:, at].astype(np.float64)
        # A code such as -999 would be all of the standard deviation.
        low, middle, high = (0, 0, 0) if np.isnan(own).all() else np.nanpercentile(own, (10, 50, 90))
        scaled = np.clip(np.nan_to_num((own - middle) / ((high - low) / 2 or 1.0)), -_EXTREME, _EXTREME)
        block = own[:, None] == np.arange(len(names)) if names else scaled[:, None]
        blocks.append(block.astype(np.float32))
    return np.concatenate(blocks, axis=1)


def _way(parts: Collection[tuple[_Floats, _Floats]]) -> _Floats:
    """The mean direction. Silos count alike: one large silo with swapped labels would turn the others' round."""
    way: _Floats = np.mean([one.mean(axis=0) - other.mean(axis=0) for one, other in parts], axis=0)
    return way


def _auc(one: _Floats, other: _Floats, way: _Floats) -> float:
    """How often a record of one class lies farther this way than a record of another; ties count half."""
    high, low = one @ way, np.sort(other @ way)
    below = np.searchsorted(low, high, side="left") + np.searchsorted(low, high, side="right")
    return float(below.mean() / (2 * len(low)))
