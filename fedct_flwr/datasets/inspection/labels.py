"""Findings on labels: their spelling, and how many records have them."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from fedct_flwr.datasets.inspection.cells import FEWEST, TESTED, are_dates
from fedct_flwr.datasets.inspection.finding import Finding, Redaction, Severity
from fedct_flwr.text.printable import count, listed, quoted
from fedct_flwr.text.spelling import folded, spelled_alike
from fedct_flwr.types import SiloName

Counts = Mapping[SiloName, Mapping[str, int]]  # By silo, how many records have each class.

_NUMBER: Final = re.compile(r"[+-]?\d+([.,]\d+)?([eE][+-]?\d+)?")
_FEW: Final = 5
"""Records of a silo or a class below which that is said."""
_MANY: Final = 20
"""Usual largest number of classes."""


def of_classes(counts: Counts, agreed: Collection[str], label: str, redaction: Redaction) -> Iterator[Finding]:
    """All findings on classes. ``agreed`` are a study's own, if it has any."""
    total = sum(map(Counter[str], counts.values()), Counter[str]())
    # Where one thing is refused, the rest follows from it.
    refused = [*_too_many(total, label, redaction)]
    refused = refused or [*_spellings(counts, agreed, total, label, redaction), *_several(counts, label)]
    if not refused:
        refused = [*([] if agreed else _without_common(counts, redaction)), *_few(counts, total, agreed, redaction)]
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


def _few(counts: Counts, total: Counter[str], agreed: Collection[str], redaction: Redaction) -> Iterator[Finding]:
    """Silos of one class, and classes of few records."""
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
