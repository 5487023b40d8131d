"""Findings on the label column: classes in several spellings, several in a cell, numbers, and classes that are rare."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from fedct_flwr.datasets.inspection.cells import FEWEST, TESTED
from fedct_flwr.datasets.inspection.finding import Finding, Severity, Words
from fedct_flwr.datasets.inspection.spelling import are_dates, folded, twice_named, without_accents
from fedct_flwr.text.plural import count
from fedct_flwr.text.printable import listed, quoted
from fedct_flwr.types import SiloName

Counts = Mapping[SiloName, Mapping[str, int]]
"""By silo, how many records have each class."""

_NUMBER: Final = re.compile(r"[+-]?\d+([.,]\d+)?([eE][+-]?\d+)?")
_HARDLY: Final = 2
"""Records of a class at all silos together, up to which it is refused: hardly a class, rather a cut or wrong cell."""
_FEW: Final = 5
"""Records of a silo or a class below which that is said."""
_FEW_PUBLIC: Final = 10
_MANY: Final = 20
"""Classes that may well be."""
_FEW_EACH: Final = 10
"""Records per number, below which numbers are hardly classes."""
_DATES: Final = 0.8


def of_classes(counts: Counts, agreed: Collection[str], label: str, say: Words) -> Iterator[Finding]:
    """All findings on classes. ``agreed`` are a study's own, if it has any."""
    total: Counter[str] = Counter()
    for own in counts.values():
        total.update(own)
    # Where one thing is refused, the rest follows from it.
    for found in (
        _too_many(total, label, say),
        [*_spellings(counts, agreed, total, label, say), *_several(counts, label)],
    ):
        if refused := list(found):
            yield from refused
            return
    alone = [] if agreed else list(_without_common(counts, say))
    yield from alone
    yield from _few(counts, total, agreed, say, {found.silo for found in alone})


def few_records(silos: Mapping[SiloName, int], public: int, say: Words) -> Iterator[Finding]:
    """Silos with fewer than five records, and a public set with fewer than ten."""
    if 0 < public < _FEW_PUBLIC:
        said = f"the public set has {count(public, 'record')}, and silos learn from each other by its labels alone"
        yield Finding("few-records", Severity.SAID, said, "add records without labels, a hundred or more")
    for silo, records in silos.items():
        if 0 < records < _FEW and not silo.endswith(TESTED):
            said = f"silo {silo} has {say.number(records, 'record')}"
            yield Finding("few-records", Severity.SAID, said, "check that its table is complete", silo=silo)


def _too_many(total: Counter[str], label: str, say: Words) -> Iterator[Finding]:
    """Numbers, dates or names as labels."""
    records, where = sum(total.values()), f"the label column {quoted(label)}"
    column = "check that it is the right column"
    if len(total) > _MANY and all(map(_NUMBER.fullmatch, total)):
        if records < _FEW_EACH * len(total):
            said = f"{where} holds {len(total):,} different numbers in {say.number(records, 'record')}"
            fix = "set outcome = 'number' to predict a number, or make classes of it"
            yield Finding("number-to-predict", Severity.REFUSED, said, fix, label)
    elif len(total) > _FEW and are_dates(total).mean() > _DATES:
        yield Finding("dates-as-text", Severity.REFUSED, f"{where} holds dates", column, label)
    elif len(total) > _MANY and records < 3 * len(total):
        said = f"{where} has {len(total):,} different labels in {say.number(records, 'record')}"
        yield Finding("many-classes", Severity.REFUSED, said, column, label)


def _spellings(
    counts: Counts, agreed: Collection[str], total: Counter[str], label: str, say: Words
) -> Iterator[Finding]:
    """Two classes that are one in another spelling."""
    names: dict[str, SiloName] = dict.fromkeys(agreed, "")
    for silo, own in counts.items():
        for name in own:
            names.setdefault(name, silo)
    pairs = [twice_named(names)]
    for same in (folded, without_accents):
        first: dict[str, str] = {}
        pairs += [(other, name) for name in names if (other := first.setdefault(same(name), name)) != name]
    for one, other in filter(None, pairs):
        silo = f" at silo {names[other]}" if names[other] else ""
        said = f"two classes in the label column {quoted(label)} are one in another spelling"
        said += say.values({one: total[one], other: total[other]}) + silo
        fix = "write each class in one way at all silos"
        if agreed:
            fix = f"write them as the study does ({listed([*agreed])}), or say under [data.mapping] what each means"
        yield Finding("label-spellings", Severity.REFUSED, said, fix, label, names[other])
        return


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
                said = f"cells of the label column {quoted(label)} at silo {silo} hold several labels, separated by "
                fix = "give each record one class, such as the first, or run once for each label (yes or no)"
                yield Finding("labels-in-a-cell", Severity.REFUSED, said + quoted(separator), fix, label, silo)
                return


def _without_common(counts: Counts, say: Words) -> Iterator[Finding]:
    silos_of = Counter(name for own in counts.values() for name in own)
    for silo, own in counts.items():
        if len(counts) > 1 and sum(own.values()) >= _FEW and all(silos_of[name] == 1 for name in own):
            said = f"silo {silo} has no class in common with the others{say.values(own)}"
            fix = "write the classes as they do, or leave the silo out"
            yield Finding("no-common-class", Severity.REFUSED, said, fix, silo=silo)


def _few(
    counts: Counts, total: Counter[str], agreed: Collection[str], say: Words, known: Collection[SiloName]
) -> Iterator[Finding]:
    """Silos of one class, classes of few records, and classes of one silo, but for silos ``known`` to share none."""
    counts = {silo: own for silo, own in counts.items() if not silo.endswith(TESTED)}
    for silo, own in counts.items():
        if len(own) == 1 and len({*total, *agreed}) > 1 and sum(own.values()) >= _FEW:
            said = f"all records of silo {silo} have one class{say.values(own)}"
            fix = "nothing, if that is so: others teach it the rest"
            yield Finding("one-class", Severity.SAID, said, fix, silo=silo)
    if say.private:
        return
    enough = sum(total.values()) >= FEWEST
    for number, classes in sorted(Counter(total.values()).items()):
        if number < _FEW:
            # Its name may be a patient's.
            what = "a class has" if classes == 1 else f"{classes} classes have each"
            said, fix = (
                f"{what} {count(number, 'record')} at all silos together",
                "correct the cell, join the class with another, or remove it",
            )
            yield Finding(
                "few-of-class", Severity.REFUSED if number <= _HARDLY and enough else Severity.SAID, said, fix
            )
    for name, number in total.items():
        silos = [silo for silo, own in counts.items() if name in own]
        if len(counts) > 2 and len(silos) == 1 and number >= _FEW and silos[0] not in known:
            said, fix = f"only silo {silos[0]} has class {quoted(name)}", "check that others write it so, too"
            yield Finding("class-at-one-silo", Severity.SAID, said, fix, silo=silos[0])
