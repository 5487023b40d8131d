"""Findings on labels: spelling, rarity, and leakage."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection.cells import (
    FEWEST,
    MISSING_CODES,
    TESTED,
    Cells,
    Column,
    Ints,
    are_dates,
    are_missing,
)
from fedct_flwr.datasets.inspection.finding import Finding, Redaction, Severity
from fedct_flwr.text.printable import count, listed, quoted
from fedct_flwr.text.spelling import folded, spelled_alike
from fedct_flwr.types import SiloName

Counts = Mapping[SiloName, Mapping[str, int]]  # By silo, how many records have each class.
_Floats = NDArray[np.float32]

_NUMBER: Final = re.compile(r"[+-]?\d+([.,]\d+)?([eE][+-]?\d+)?")
_FEW: Final = 5
"""Records of a silo or a class below which that is said."""
_MANY: Final = 20
"""Usual largest number of classes."""
_MOST: Final = 30


def of_classes(counts: Counts, agreed: Collection[str], label: str, redaction: Redaction) -> Iterator[Finding]:
    """All findings on classes. ``agreed`` are a study's own, if it has any."""
    total = sum(map(Counter[str], counts.values()), Counter[str]())
    # Where one thing is refused, the rest follows from it.
    refused = [*_too_many(total, label, redaction)]
    refused = refused or [*_spellings(counts, agreed, total, label, redaction), *_several(counts, label)]
    if not refused:
        alone = [] if agreed else [*_without_common(counts, redaction)]
        refused = [*alone, *_few(counts, total, agreed, label, redaction, {found.silo for found in alone})]
    yield from refused


def few_records(silos: Mapping[SiloName, int], public: int, redaction: Redaction) -> Iterator[Finding]:
    """Silos with fewer than five records, and a public set with fewer than ten."""
    if 0 < public < 10:
        message = f"the public set has {count(public, 'record')}, and silos learn from each other by its labels alone"
        yield Finding("few-records", Severity.SAID, message, "add records without labels, a hundred or more")
    for silo, records in silos.items():
        if 0 < records < _FEW and not silo.endswith(TESTED):
            message = f"silo {silo} has {redaction.number(records, 'record')}"
            yield Finding("few-records", Severity.SAID, message, "check that its table is complete", silo=silo)


def _too_many(total: Counter[str], label: str, redaction: Redaction) -> Iterator[Finding]:
    """Numbers, with fewer than ten records each, dates or names as labels, with fewer than three."""
    where, column = f"the label column {quoted(label)}", "check that it is the right column"
    each, size = total.total() / max(1, len(total)), f"in {redaction.number(total.total(), 'record')}"
    if len(total) > _MANY and all(map(_NUMBER.fullmatch, total)):
        if each < 10:
            message = f"{where} holds {len(total):,} different numbers {size}"
            fix = "set outcome = 'number' to predict a number, or make classes of it"
            yield Finding("number-to-predict", Severity.REFUSED, message, fix, label)
    elif len(total) > _FEW and are_dates(total).mean() > 0.8:
        yield Finding("dates-as-text", Severity.REFUSED, f"{where} holds dates", column, label)
    elif len(total) > _MANY and each < 3:
        message = f"{where} has {len(total):,} different labels {size}"
        yield Finding("many-classes", Severity.REFUSED, message, column, label)


def _spellings(
    counts: Counts, agreed: Collection[str], total: Counter[str], label: str, redaction: Redaction
) -> Iterator[Finding]:
    """Two classes that are one in another spelling."""
    names: dict[str, SiloName] = dict.fromkeys(agreed, "")
    for silo, own in counts.items():
        names |= {name: silo for name in own if name not in names}
    if pair := next(spelled_alike(names), None):
        silo = names[pair[1]]
        message = f"two classes in the label column {quoted(label)} are one in another spelling"
        message += redaction.values({name: total[name] for name in pair}) + (f" at silo {silo}" if silo else "")
        fix = "write each class in one way at all silos"
        if agreed:
            fix = f"write them as the study does ({listed([*agreed])}), or say under [data.mapping] what each means"
        yield Finding("label-spellings", Severity.REFUSED, message, fix, label, silo)


def _several(counts: Counts, label: str) -> Iterator[Finding]:
    """Cells of several labels: each part between commas is a class; between ``;`` or ``|``, it is in two cells."""
    names = {name: re.sub(r"[\[\](){}\"']", "", name) for own in counts.values() for name in own}
    for separator in (";", "|", ","):
        parts = {name: [part.strip() for part in bare.split(separator)] for name, bare in names.items()}
        several = {name for name, own in parts.items() if len(own) > 1 and all(own) and not _NUMBER.fullmatch(name)}
        single = {folded(own[0]) for own in parts.values() if len(own) == 1}
        uses = Counter(folded(part) for name in several for part in {*parts[name]})
        known = single if separator == "," else {*single, *(part for part, number in uses.items() if number > 1)}
        for silo, own in counts.items():
            if any(known.issuperset(map(folded, parts[name])) for name in several.intersection(own)):
                message = f"cells of the label column {quoted(label)} at silo {silo} hold several labels, separated by "
                fix = "give each record one class, such as the first, or run once for each label (yes or no)"
                yield Finding("labels-in-a-cell", Severity.REFUSED, message + quoted(separator), fix, label, silo)
                return


def _without_common(counts: Counts, redaction: Redaction) -> Iterator[Finding]:
    silos_of = Counter(name for own in counts.values() for name in own)
    for silo, own in counts.items():
        if len(counts) > 1 and sum(own.values()) >= _FEW and all(silos_of[name] == 1 for name in own):
            message = f"silo {silo} has no class in common with the others{redaction.values(own)}"
            fix = "write the classes as they do, or leave the silo out"
            yield Finding("no-common-class", Severity.REFUSED, message, fix, silo=silo)


def _missing(names: Collection[str]) -> list[str]:
    """Classes, among three or more, that are a word or a code for a missing value, far from the other numbers.

    >>> _missing(["no", "yes", "unknown"]), _missing(["1", "2", "9"]), _missing(["-1", "0", "1"])
    (['unknown'], ['9'], [])
    """
    if all(map(_NUMBER.fullmatch, names)):
        numbers = {name: float(name.replace(",", ".")) for name in names}
        rest = [number for number in numbers.values() if abs(number) not in MISSING_CODES]
        low, high = min(rest, default=0.0), max(rest, default=0.0)
        found = [
            name
            for name, number in numbers.items()
            if number not in rest and (number < 0 <= low or number >= 3 * high > 0)
        ]
    else:
        found = [name for name, missing in zip(names, are_missing(names), strict=True) if missing]
    return found if len(names) - len(found) > 1 else []


def _few(
    counts: Counts,
    total: Counter[str],
    agreed: Collection[str],
    label: str,
    redaction: Redaction,
    known: Collection[SiloName],
) -> Iterator[Finding]:
    """Silos of one class, classes of few records or of missing labels, and of one silo, but for ``known`` ones."""
    counts = {silo: own for silo, own in counts.items() if not silo.endswith(TESTED)}
    for silo, own in counts.items():
        if len(own) == 1 and len({*total, *agreed}) > 1 and sum(own.values()) >= _FEW:
            message = f"all records of silo {silo} have one class{redaction.values(own)}"
            yield Finding(
                "one-class", Severity.SAID, message, "nothing, if that is so: others teach it the rest", silo=silo
            )
    if redaction.private:
        return
    for number in sorted(number for number in total.values() if number < _FEW):
        # Its name may be a patient's. Of one or two records it is hardly a class, rather a cut or wrong cell.
        message = f"a class has {count(number, 'record')} at all silos together"
        severity = Severity.REFUSED if number <= 2 and total.total() >= FEWEST else Severity.SAID
        yield Finding("few-of-class", severity, message, "correct the cell, join the class with another, or remove it")
    for name in () if agreed else _missing(total):
        message = f"class {quoted(name)} in the label column {quoted(label)} reads as a missing label"
        fix = f"take these records out, or accept 'missing-as-class:{label}' if it is a class"
        yield Finding("missing-as-class", Severity.SAID, message, fix, label)
    for name, number in total.items():
        silos = [silo for silo, own in counts.items() if name in own]
        if len(counts) > 2 and len(silos) == 1 and number >= _FEW and silos[0] not in known:
            message = f"only silo {silos[0]} has class {quoted(name)}"
            yield Finding(
                "class-at-one-silo", Severity.SAID, message, "check that others write it so, too", silo=silos[0]
            )


def leakage(
    column: Column, y: Mapping[SiloName, Ints], classes: int, label: str, redaction: Redaction
) -> Iterator[Finding]:
    """Whether a column tells the class of 95% of all records, or of one silo's. ``y`` ``(records,)`` are classes.

    Such a column may be a treatment given after the diagnosis, or an honest sign, as the odor of mushrooms.
    """
    own = {silo: cells for silo, cells in column.silos.items() if silo in y}
    if not own or not 1 < classes <= _MOST:
        return
    bins = _bins(own)
    shape = (1 + max(int(each.max(initial=0)) for each in bins.values()), classes)
    tables = {silo: np.zeros(shape, np.int64) for silo in bins}
    for silo, each in bins.items():
        np.add.at(tables[silo], (each, y[silo]), 1)
    every: Ints = np.sum([*tables.values()], axis=0)
    leaking = [("", every)] if _is_told(every, FEWEST) else []
    for silo, table in () if leaking else tables.items():
        errors, _, others = _errors(every - table)
        # Elsewhere it hardly tells the label.
        if _is_told(table, 100) and errors > others / 2 > 0:
            leaking.append((silo, table))
    for silo, table in leaking:
        errors, records, _ = _errors(table)
        whom = (
            f"most records{'' if redaction.private else f' ({1 - errors / records:.1%})'}" if errors else "every record"
        )
        message = f"column {column.name!r} alone tells {label!r} of {whom}{f' at silo {silo}' if silo else ''}"
        fix = f"take it out if it is known only after {label!r}; otherwise accept 'tells-the-label:{column.name}'"
        yield Finding("tells-the-label", Severity.SAID, message, fix, column.name, silo)


def _bins(own: Mapping[SiloName, Cells]) -> dict[SiloName, Ints]:
    """The number of each record's value, or of a range of numbers; missing is 0."""
    if any(cells.words for cells in own.values()):
        words = {word: at + 1 for at, word in enumerate({word: 0 for cells in own.values() for word in cells.words})}
        numbers = {silo: np.array([*(words[word] for word in cells.words), 0]) for silo, cells in own.items()}
        # Numbers where others have words count as missing.
        codes = {silo: cells.numbers if cells.words else np.full(cells.records, -1) for silo, cells in own.items()}
        return {silo: numbers[silo][codes[silo].astype(np.int64)] for silo in own}
    every = np.sort(np.concatenate([cells.ordered for cells in own.values()]))
    edges = np.unique(every[np.linspace(0, len(every) - 1, 64).astype(int)]) if len(every) else every
    numbers = {silo: cells.numbers for silo, cells in own.items()}
    return {silo: np.where(np.isnan(X), 0, np.searchsorted(edges, X, side="right") + 1) for silo, X in numbers.items()}


def _errors(table: Ints) -> tuple[int, int, int]:
    """Errors, where the others of its value predict a label; all records, and those outside of the largest class."""
    ordered, total = np.sort(table, axis=1), table.sum(axis=0)
    first, second = ordered[:, -1], ordered[:, -2]
    right = int(np.where(first > second + 1, first, 0).sum())
    return int(total.sum()) - right, int(total.sum()), int(total.sum() - total.max())


def _is_told(table: Ints, fewest: int) -> bool:
    """Whether 95% of all records are told, and 80% of those outside of the largest class."""
    errors, records, others = _errors(table)
    enough = records >= fewest and sorted(table.sum(axis=0).tolist())[-2] >= 10
    return enough and errors <= 0.05 * records and errors <= 0.2 * others
