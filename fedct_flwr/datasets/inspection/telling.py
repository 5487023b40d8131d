"""Columns that tell what is to be predicted: copies of the label, and what is known only after it.

Nearly every record, 99%, is what a copy tells. Of 95% it cannot be known from the records whether a column is a proxy,
such as a treatment given after the diagnosis, or an honest sign: the odor of mushrooms tells 98.5%. It is said, and
whoever knows what the column is accepts it. The best column of the breast cancer data tells 92%, that of the hearts
77%: nothing is said of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.profile import FEWEST, Kind, Profile
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.types import SiloName

_ERRORS: Final = 0.01
_OF_OTHERS: Final = 0.1
"""Errors, at most, among the records outside of the largest class."""
_SUSPICIOUS: Final = 0.05
_SUSPICIOUS_OF_OTHERS: Final = 0.2
_HARDLY: Final = 0.5
_FEWEST_OF_CLASS: Final = 10
_FEWEST_WITH_ERRORS: Final = 200
_MOST_CLASSES: Final = 30
_MOST_RECORDS: Final = 20_000
"""Records of all silos, at most, that trees see."""
_MOST_LEAVES: Final = 8
_FEW_LEAVES: Final = 4
"""Of a tree that is to tell most records: more would learn some by heart."""
_SMALLEST_LEAF: Final = 3
_FEW_COLUMNS: Final = 100
"""Numeric columns, at most, on each of which a tree is grown; of more, on those alone whose means differ by class."""
_FEW_SILOS: Final = 20
_EXPLAINS: Final = 0.4
"""Share of a column's variance between classes from which a tree is grown on it."""
_BLOCK: Final = 1 << 21
"""Numbers that are looked at together: 16 MB."""
_CORRELATED: Final = 0.99


def telling_columns(silos: Mapping[SiloName, Profile], classes: int, label: str, say: Words) -> Iterator[Finding]:
    """Columns each of which tells the class of 95% of all records, or of those of one silo alone.

    That a cell is empty may tell it, too.
    """
    profiles = {name: found for name, found in silos.items() if found.y is not None}
    if not profiles or not 2 <= classes <= _MOST_CLASSES:
        return
    found, *others = profiles.values()
    names = [name for name in found.kinds if all(name in other.kinds for other in others)]
    for name in names:
        numeric = all(each.kinds[name] in (Kind.NUMBERS, Kind.TRUTH, Kind.NOTHING) for each in profiles.values())
        if not numeric and (wrong := _errors_of_texts([*profiles.values()], name)):
            found_in_all = [*_said(name, "", wrong, label, say)]
            yield from found_in_all or _text_at_one_silo(profiles, name, label, say)
    numbers = [name for name in names if all(name in each.numbers.position for each in profiles.values())]
    every = [*profiles.values()]
    of_silos = [_some(every, each, np.asarray(each.y)) for each in every]
    y, owner = np.concatenate(of_silos), np.repeat(np.arange(len(every)), [len(own) for own in of_silos])
    for name, x in _suspicious(every, numbers, y):
        found_in_all = [*_said(name, "", _errors(x, y), label, say)]
        yield from found_in_all
        if found_in_all or not 1 < len(profiles) <= _FEW_SILOS:
            continue
        for at, silo in enumerate(profiles):
            here = owner == at
            if np.count_nonzero(here) < _FEWEST_WITH_ERRORS or not (own := [*_told(_errors(x[here], y[here]))]):
                continue
            elsewhere = _errors(x[~here], y[~here])
            if elsewhere and elsewhere[0] > _HARDLY * elsewhere[2]:
                yield from _said(name, silo, own[0], label, say)


def _text_at_one_silo(profiles: Mapping[SiloName, Profile], name: str, label: str, say: Words) -> Iterator[Finding]:
    """A text column that tells the class at one silo, and hardly anything at all others."""
    if not 1 < len(profiles) <= _FEW_SILOS:
        return
    for silo, own in profiles.items():
        others = [each for other, each in profiles.items() if other != silo]
        if own.records < _FEWEST_WITH_ERRORS or not (wrong := [*_told(_errors_of_texts([own], name))]):
            continue
        elsewhere = _errors_of_texts(others, name)
        if elsewhere and elsewhere[0] > _HARDLY * elsewhere[2]:
            yield from _said(name, silo, wrong[0], label, say)


def following_columns(
    silos: Mapping[SiloName, Profile], values: Mapping[SiloName, NDArray[np.float64]], label: str
) -> Iterator[Finding]:
    """Columns of numbers that go up or down with the number to predict, nearly without exception."""
    profiles = [*silos.values()]
    numbers = [name for name in profiles[0].numbers.names if all(name in each.numbers.position for each in profiles)]
    y = np.concatenate([_some(profiles, each, values[silo]) for silo, each in silos.items()])
    for names, X in _blocks(profiles, numbers):
        for name, x in zip(names, X, strict=True):
            known = np.isfinite(x) & np.isfinite(y)
            if np.count_nonzero(known) < max(FEWEST, len(y) / 2):
                continue
            pair = np.stack([x[known], y[known]])
            if pair.std(axis=1).min() == 0:
                continue
            ranks = pair.argsort(axis=1).argsort(axis=1)
            correlation = max(abs(np.asarray(np.corrcoef(each))[0, 1]) for each in (pair, ranks))
            if correlation >= _CORRELATED:
                said = f"column {name!r} alone tells {label!r}: their correlation is {correlation:.3f}"
                fix = f"take it out of all tables if it is known only after {label!r} is"
                yield Finding("tells-the-label", Severity.SAID, said, fix, name)


_Errors = tuple[float, int, int]
"""Records whose class a column does not tell, all records, and those outside of the largest class."""


def _told(wrong: _Errors | None) -> Iterator[_Errors]:
    """What so few errors are that the column tells the class, or most of it."""
    if wrong is not None and (_is_told(wrong) or _is_suspicious(wrong)):
        yield wrong


def _is_told(wrong: _Errors) -> bool:
    errors, records, others = wrong
    # Two standard errors above one in a hundred.
    allowed = _ERRORS * records + 2 * np.sqrt(_ERRORS * records) if records >= _FEWEST_WITH_ERRORS else 0
    return bool(errors <= allowed and errors <= _OF_OTHERS * others)


def _is_suspicious(wrong: _Errors) -> bool:
    errors, records, others = wrong
    allowed = _SUSPICIOUS * records + np.sqrt(_SUSPICIOUS * records)
    return bool(records >= _FEWEST_WITH_ERRORS and errors <= min(allowed, _SUSPICIOUS_OF_OTHERS * others))


def _said(name: str, silo: SiloName, wrong: _Errors | None, label: str, say: Words) -> Iterator[Finding]:
    for errors, records, others in _told(wrong):
        share = "" if say.private else f" ({1 - errors / records:.1%})"
        surely = _is_told((errors, records, others))
        whom = f"{'nearly every record' if surely else 'most records'}{share}" if errors else "every record"
        said = f"column {name!r} alone tells the class of {whom}{f' at silo {silo}' if silo else ''}"
        fix = f"take it out of all tables if it is known only after {label!r} is"
        if not surely:
            fix += f", as a treatment is; accept 'tells-the-label:{name}' if it is not"
        yield Finding("tells-the-label", Severity.SAID, said, fix, name, silo)


def _errors_of_texts(profiles: Sequence[Profile], name: str) -> _Errors | None:
    """Of the most frequent class of each value, without the record in question; a missing value is one, too."""
    by_class: dict[str, NDArray[np.int64]] = {}
    missing = np.zeros(profiles[0].classes, dtype=np.int64)
    for found in profiles:
        missing += np.bincount(np.asarray(found.y), minlength=found.classes)
        text = found.texts.get(name)
        if text is None and found.kinds[name] is Kind.NOTHING:
            continue
        if text is None or text.by_class is None:
            return None
        missing -= text.by_class.sum(axis=0)
        for value, counts in zip(text.values.to_pylist(), text.by_class, strict=True):
            by_class[value] = by_class.get(value, 0) + counts
    table = np.array([*by_class.values(), missing])
    if not _is_enough(table.sum(axis=0)):
        return None
    first = table.max(axis=1)
    second = np.sort(table, axis=1)[:, -2]
    right = np.where(first > second + 1, first, 0).sum()
    return float(table.sum() - right), int(table.sum()), int(table.sum() - table.sum(axis=0).max())


def _errors(x: NDArray[np.float64], y: NDArray[np.int64]) -> _Errors | None:
    """Of a small tree on this column alone."""
    if not _is_enough(np.bincount(y)):
        return None
    # scikit-learn takes its time to import.
    from sklearn.tree import DecisionTreeClassifier

    # As ranks: the tree works with 32 bits.
    ranks = np.searchsorted(np.unique(x), x).astype(np.float64)
    column = np.where(np.isnan(x), np.nan, ranks)[:, None]
    wrong: _Errors = (0.0, 0, 0)
    for most in (_MOST_LEAVES, _FEW_LEAVES):
        leaves = max(most, len(np.unique(y)) + 1)
        tree = DecisionTreeClassifier(max_leaf_nodes=leaves, min_samples_leaf=_SMALLEST_LEAF, random_state=0)
        errors = float(np.count_nonzero(tree.fit(column, y).predict(column) != y))
        wrong = errors, len(y), int(len(y) - np.bincount(y).max())
        if _is_told(wrong) or not _is_suspicious(wrong):
            break
    return wrong


def _is_enough(of_class: NDArray[np.int64]) -> bool:
    return len(of_class) > 1 and bool(np.sort(of_class)[-2] >= _FEWEST_OF_CLASS) and of_class.sum() >= 2 * FEWEST


def _suspicious(
    profiles: Sequence[Profile], names: Sequence[str], y: NDArray[np.int64]
) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Columns of numbers on which a tree is worth its time, ``(records,)``."""
    for some, X in _blocks(profiles, names):
        chosen = np.ones(len(X), dtype=bool)
        if len(names) > _FEW_COLUMNS:
            empty = np.isnan(X)
            middle = np.stack([each.numbers.quantiles[[each.numbers.position[n] for n in some]] for each in profiles])
            low, high = middle[:, :, 0].min(axis=0)[:, None], middle[:, :, -1].max(axis=0)[:, None]
            clipped = np.where(empty, (low + high) / 2, np.clip(X, low, high))
            chosen = (_explained(clipped, y) >= _EXPLAINS) | (_explained(empty.astype(float), y) >= _EXPLAINS)
        yield from ((some[at], X[at]) for at in np.flatnonzero(chosen).tolist())


def _explained(X: NDArray[np.float64], y: NDArray[np.int64]) -> NDArray[np.float64]:
    """The share of each row's variance that lies between classes, ``(columns,)``."""
    member = (y == np.unique(y)[:, None]).astype(float)
    of_class = X @ member.T / member.sum(axis=1)
    mean, total = X.mean(axis=1, keepdims=True), X.var(axis=1)
    between = ((of_class - mean) ** 2 @ member.sum(axis=1)) / X.shape[1]
    share: NDArray[np.float64] = np.divide(between, total, out=np.zeros_like(total), where=total > 0)
    return share


def _blocks(profiles: Sequence[Profile], names: Sequence[str]) -> Iterator[tuple[Sequence[str], NDArray[np.float64]]]:
    """Columns of numbers of some records of all silos, ``(columns, records)``."""
    records = sum(len(_some(profiles, each, each.keys)) for each in profiles)
    step = max(1, _BLOCK // max(1, records))
    for start in range(0, len(names), step):
        some = names[start : start + step]
        X = np.empty((len(some), records))
        for at, name in enumerate(some):
            cells = [each.cells(name) for each in profiles]
            X[at] = np.concatenate([_some(profiles, *pair) for pair in zip(profiles, cells, strict=True)])
        yield some, X


def _some(profiles: Sequence[Profile], of: Profile, values: NDArray[Any]) -> NDArray[Any]:
    """Every second or tenth record of one silo, so that all have not too many."""
    total = sum(each.records for each in profiles)
    return values[:: max(1, total // _MOST_RECORDS)]
