"""Whether a silo's labels follow its columns as they do elsewhere: the row "labels fit" of Table 1.

Labels that are shifted by a row, sorted by themselves or reversed leave every column as it is. So the other silos'
records teach a linear discriminant (R. Fisher, 1936, with a ridge) to rank the silo's records, and the area under the
ROC curve (AUC) says how well it does. Silos count alike: no large one with wrong labels turns the direction.

The two most frequent classes count, and silos with eight records of both. The level of several silos is their mean AUC
less 1.5 standard errors. A silo is named if its AUC and 1.5 standard errors are nearer to one half than to the level of
the others without it, which must be 0.65. Measured by ``python -m benchmarks false-alarms``.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection import Finding, Severity
from fedct_flwr.scoring.assessment import delong
from fedct_flwr.scoring.intervals import Estimate, area
from fedct_flwr.text.printable import quoted

if TYPE_CHECKING:
    from fedct_flwr.datasets.schema import Column
    from fedct_flwr.types import Examples, SiloName

_Floats: TypeAlias = NDArray[np.floating[Any]]
_Part: TypeAlias = tuple[_Floats, _Floats]
_FEWEST_OF_CLASS: Final = 8
_MOST_CATEGORIES: Final = 30
_MOST_FEATURES: Final = 300
"""With more, features count as uncorrelated."""
_RIDGE: Final = 0.1
_ERRORS: Final = 1.5
_CANDIDATES: Final = 4
_MOST_NAMED: Final = 5
_TOLD: Final = 0.65
_REVERSED: Final = 0.35


class LabelFit(NamedTuple):
    """How well others' records predict a silo's labels: ``error`` is the standard error of an AUC of one half."""

    auc: float
    error: float

    @property
    def reversed(self) -> bool:
        """Whether the labels are the opposite of what the others' records predict."""
        return self.auc <= min(_REVERSED, 0.5 - 3 * self.error)

    def fails(self, level: float) -> bool:
        """Whether the labels do not fit, where an AUC of ``level`` is usual."""
        return level >= _TOLD and self.auc + _ERRORS * self.error < (0.5 + level) / 2


class LabelsFit:
    """The fit of each silo's labels, by training records ``(n, columns)`` as ``columns`` number them.

    ``silos`` are those that can be compared, none or several; ``classes`` are the two that count.
    """

    def __init__(self, silos: Mapping["SiloName", "Examples"], columns: Sequence["Column"], num_classes: int) -> None:
        total = sum((np.bincount(own.y, minlength=num_classes) for own in silos.values()), np.zeros(num_classes))
        a, b = self.classes = sorted(np.argsort(-total, kind="stable")[:2].tolist())
        some = {s: own for s, own in silos.items() if min(np.sum(own.y == a), np.sum(own.y == b)) >= _FEWEST_OF_CLASS}
        self._parts: dict[SiloName, _Part] = {}
        if len(some) > 1:
            features = _standardized(np.concatenate([own.X for own in some.values()]), columns)
            split = np.split(features, np.cumsum([own.size for own in some.values()])[:-1])
            for (silo, own), X in zip(some.items(), split, strict=True):
                self._parts[silo] = X[own.y == a], X[own.y == b]
            # Texts alone have nothing to compare.
            self._parts = self._parts if features.shape[1] else {}
        self.silos = [*self._parts]
        self._sums = {silo: _sums(*part) for silo, part in self._parts.items()}

    def own(self, silo: "SiloName") -> float:
        """AUC of a rule from one half of the silo's own records on the other half, the mean of both ways."""
        one, other = self._parts[silo]
        halves = [(one[start::2], other[start::2]) for start in (0, 1)]
        return float(np.mean([_auc(*halves[1 - at], _way(_sums(*halves[at]))) for at in (0, 1)]))

    @cached_property
    def all(self) -> dict["SiloName", LabelFit]:
        """The fit of each silo, by all others."""
        return self._among(self.silos)

    def misfits(self) -> Iterator[tuple["SiloName", LabelFit, float]]:
        """Silos whose labels do not fit, the worst first, each with the level of those that are left without it.

        Wrong labels of one silo spoil the fit of others, so the worst is the one without which the rest fits best.
        """
        left, fits = self.silos, self.all
        while len(left) > 1:
            lowest = sorted(left, key=lambda silo: fits[silo].auc + _ERRORS * fits[silo].error)[:_CANDIDATES]
            found = []
            for silo in (silo for silo in lowest if fits[silo].fails(1.0)):
                rest = [other for other in left if other != silo]
                among = self._among(rest) if len(rest) > 1 else {}
                level = _level([*among.values()] or [LabelFit(self.own(rest[0]), fits[rest[0]].error)])
                if fits[silo].fails(level):
                    found.append((level, silo, rest, among))
            if not found:
                return
            level, worst, rest, among = max(found, key=lambda each: each[0])
            yield worst, fits[worst], level
            left, fits = rest, among

    def findings(self, names: Sequence[str]) -> Iterator[Finding]:
        """A finding for each silo whose labels do not fit; ``names`` are those of all classes."""
        a, b = (quoted(names[at]) for at in self.classes)
        for silo, fit, level in islice(self.misfits(), _MOST_NAMED):
            # Of two that are the opposite of each other, either may be wrong.
            named = "" if fit.reversed and len(self.silos) == 2 else silo
            if fit.reversed:
                other = "what the other silos' records predict" if named else "each other's"
                code, what = "reversed-labels", f"are the opposite of {other}"
                fix = "check that the classes mean the same there, and which is which"
            else:
                code, what = "labels-do-not-fit", "do not follow its columns as those of the other silos do"
                fix = "check that each label is in the row of its record, and each column under its name"
            where = f"silo {named}" if named else f"silos {' and '.join(self.silos)}"
            figures = f"{a} and {b}, AUC {fit.auc:.2f}{f', elsewhere {level:.2f}' if named else ''}"
            yield Finding(code, Severity.SAID, f"the labels of {where} {what} ({figures})", fix, silo=named)

    def areas(self) -> dict["SiloName", tuple[int, Estimate]]:
        """Each silo's records, and its AUC with a 95% interval."""
        areas = {}
        for silo, way in self._ways(self.silos):
            n, m = map(len, self._parts[silo])
            value, parts = delong(np.arange(n + m) < n, np.concatenate(self._parts[silo]) @ way)
            areas[silo] = n + m, area(value, float(np.sum(parts**2)), *sorted((n, m)))
        return areas

    def _among(self, silos: Sequence["SiloName"]) -> dict["SiloName", LabelFit]:
        found = {}
        for silo, way in self._ways(silos):
            one, other = self._parts[silo]
            n, m = len(one), len(other)
            # Mann and Whitney 1947.
            found[silo] = LabelFit(_auc(one, other, way), float(np.sqrt((n + m + 1) / (12 * n * m))))
        return found

    def _ways(self, silos: Sequence["SiloName"]) -> Iterator[tuple["SiloName", _Floats]]:
        """Each of these silos, with the direction ``(features,)`` that the others teach."""
        own = [self._sums[silo] for silo in silos]
        total = _Sums(*map(sum, zip(*own, strict=True))) if own else None
        for silo, sums in zip(silos, own, strict=True):
            yield silo, _way(_Sums(*(whole - part for whole, part in zip(total or sums, sums, strict=True))))


class ConsensusFit(NamedTuple):
    """How the consensus labels of public examples rank a silo's own records, next to a rule from half of these."""

    auc: float
    error: float
    own: float

    @classmethod
    def of(cls, consensus: "Examples", own: "Examples", columns: Sequence["Column"], num_classes: int) -> Self | None:
        """The fit of a silo's ``own`` labels; None with fewer than eight records of a class."""
        both = LabelsFit({"consensus": consensus, "own": own}, columns, num_classes)
        return cls(*both.all["own"], both.own("own")) if both.silos else None

    @property
    def words(self) -> str:
        """A sentence for the silo's people where labels do not fit, else empty."""
        fit, unknown = LabelFit(self.auc, self.error), _TOLD - _ERRORS * self.error
        figures = f"(AUC {self.auc:.2f}, by your own records {self.own:.2f})"
        if fit.reversed:
            return f"the consensus ranks your records the other way round {figures}: check which class is which"
        if fit.fails(self.own):
            return f"your labels do not follow your columns as the consensus does {figures}: check their meaning"
        if max(self.auc, self.own) < unknown:
            return f"your columns tell nothing of your labels {figures}: check that each label is in its record's row"
        return ""


class _Sums(NamedTuple):
    """A silo's part in a discriminant: the difference of its classes' means, scatter within classes, records.

    ``scatter`` is ``(features, features)``, of many features ``(features,)``: these count as uncorrelated.
    """

    means: Any
    scatter: Any
    records: Any


def _level(fits: Sequence[LabelFit]) -> float:
    """The mean AUC less its own 1.5 standard errors: what columns surely tell of labels."""
    aucs, errors = np.array(fits).T
    return float(aucs.mean() - _ERRORS * np.sqrt((errors**2).sum()) / len(fits))


def _sums(one: _Floats, other: _Floats) -> _Sums:
    centers = one.mean(axis=0, dtype=np.float64), other.mean(axis=0, dtype=np.float64)
    apart = np.concatenate([one - centers[0], other - centers[1]])
    scatter = apart.T @ apart if apart.shape[1] <= _MOST_FEATURES else (apart**2).sum(axis=0)
    return _Sums(centers[0] - centers[1], scatter, len(apart))


def _way(sums: _Sums) -> _Floats:
    """The discriminant's direction ``(features,)``."""
    spread = sums.scatter / sums.records
    if spread.ndim == 1:
        return np.asarray(sums.means / (spread + _RIDGE * spread.mean() + 1e-9))
    ridge = _RIDGE * np.trace(spread) / len(spread) + 1e-9
    return np.asarray(np.linalg.solve(spread + ridge * np.eye(len(spread)), sums.means))


def _standardized(X: NDArray[Any], columns: Sequence["Column"]) -> _Floats:
    """Records in units of spread over all; categories as columns of their own."""
    blocks = [np.zeros((len(X), 0), np.float32)]
    for at, column in enumerate(columns):
        if column.text or len(names := column.categories or ()) > _MOST_CATEGORIES:
            continue
        own = X[:, at].astype(np.float64)
        # A code such as -999 would be all of the standard deviation.
        low, middle, high = (0, 0, 0) if np.isnan(own).all() else np.nanpercentile(own, (10, 50, 90))
        scaled = np.clip(np.nan_to_num((own - middle) / ((high - low) / 2 or 1.0)), -3, 3)
        block = own[:, None] == np.arange(len(names)) if names else scaled[:, None]
        blocks.append(block.astype(np.float32))
    return np.concatenate(blocks, axis=1)


def _auc(one: _Floats, other: _Floats, way: _Floats) -> float:
    """How often a record of one class lies farther this way than a record of another; ties count half."""
    high, low = one @ way, np.sort(other @ way)
    below = np.searchsorted(low, high, side="left") + np.searchsorted(low, high, side="right")
    return float(below.mean() / (2 * len(low)))
