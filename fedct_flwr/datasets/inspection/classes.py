"""Findings on the label column: classes in several spellings, several in a cell, numbers, and classes that are rare."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

import pyarrow as pa

from fedct_flwr.datasets.inspection.cells import FEWEST, TESTED
from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.spelling import are_dates, folded, misspelled, truth, without_accents, without_signs
from fedct_flwr.datasets.inspection.words import HIDDEN_BELOW, Words
from fedct_flwr.text.plural import count
from fedct_flwr.text.printable import listed, quoted
from fedct_flwr.types import SiloName

Counts = Mapping[SiloName, Mapping[str, int]]
"""By silo, how many records have each class."""

_SEPARATORS: Final = (";", "|", ",", "/", "+", "&", " and ", " und ", " et ", " y ")
_SURE: Final = (";", "|")
_NUMBER: Final = re.compile(r"[+-]?\d+([.,]\d+)?([eE][+-]?\d+)?")
_HARDLY: Final = 2
"""Records of a class at all silos together, up to which it is refused: hardly a class, rather a cut or wrong cell."""
_FEW: Final = 5
"""Records of a silo or a class below which that is said."""
_FEW_PUBLIC: Final = 10
_MANY: Final = 20
_FRACTIONS: Final = 10
_FEW_EACH: Final = 10
"""Records per number, below which numbers are hardly classes."""
_DATES: Final = 0.8
_USUAL: Final = 0.05
"""Share of a silo's records that a class has which is compared by its name."""
_CODINGS: Final = (frozenset({"0", "1"}), frozenset({"1", "2"}), frozenset({"-1", "1"}))


def of_classes(counts: Counts, agreed: Collection[str], label: str, say: Words) -> Iterator[Finding]:
    """All findings on classes. ``agreed`` are a study's own, if it has any."""
    total: Counter[str] = Counter()
    for own in counts.values():
        total.update(own)
    if too_many := list(_too_many(total, label, say)):
        yield from too_many
        return
    spellings = list(_spellings(counts, agreed, total, label, say))
    if not agreed and not spellings:
        spellings = [*_codings(counts, label), *_renamed(counts, label)]
    several = list(_several_in_a_cell(counts, total, label, say))
    yield from [*spellings, *several]
    if any(found.severity is Severity.REFUSED for found in [*spellings, *several]):
        # The rest follows from it.
        return
    alone = [] if agreed else list(_without_common(counts, say))
    yield from alone
    yield from _few(counts, total, agreed, say, alone)


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
    records, numbers = sum(total.values()), [_number(name) for name in total]
    where, among = f"the label column {quoted(label)}", say.number(records, "record")
    if all(number is not None for number in numbers):
        fractions = any(number is not None and not number.is_integer() for number in numbers)
        many = len(total) > (_FRACTIONS if fractions else _MANY)
        if many and records < (2 if fractions else 1) * _FEW_EACH * len(total):
            said = f"{where} holds {len(total):,} different numbers in {among}"
            fix = "set outcome = 'number' to predict a number, or make classes of it"
            yield Finding("number-to-predict", Severity.REFUSED, said, fix, label)
    elif len(total) > _FEW and are_dates(pa.array([*total], pa.string())).mean() > _DATES:
        yield Finding(
            "dates-as-text", Severity.REFUSED, f"{where} holds dates", "check that it is the right column", label
        )
    elif len(total) > _MANY and records < 3 * len(total):
        said = f"{where} has {len(total):,} different labels in {among}"
        yield Finding("many-classes", Severity.REFUSED, said, "check that it is the right column", label)


def _number(name: str) -> float | None:
    """The number that a label is, also with a decimal comma; None for another label."""
    return float(name.replace(",", ".")) if _NUMBER.fullmatch(name) else None


def _spellings(
    counts: Counts, agreed: Collection[str], total: Counter[str], label: str, say: Words
) -> Iterator[Finding]:
    """Two classes that are one in another spelling."""
    names: dict[str, SiloName] = dict.fromkeys(agreed, "")
    for silo, own in counts.items():
        for name in own:
            names.setdefault(name, silo)
    are_truths = all(truth(name) is not None for name in names)
    ways: list[tuple[Callable[[str], str], str, Severity]] = [
        (folded, "in case, blanks or form of Unicode alone", Severity.REFUSED),
        (without_accents, "in accents or in encoding alone", Severity.REFUSED),
        *([(lambda name: str(truth(name)), "in spelling alone", Severity.REFUSED)] if are_truths else []),
        (without_signs, "in signs between words alone", Severity.SAID),
    ]
    for same, how, severity in ways:
        first: dict[str, str] = {}
        for name, silo in names.items():
            if (other := first.setdefault(same(name), name)) == name:
                continue
            pair = say.values({other: total[other], name: total[name]})
            said = f"classes in the label column {quoted(label)} differ {how}{pair}{f' at silo {silo}' if silo else ''}"
            fix = "write each class in one way at all silos"
            if agreed:
                fix = f"write them as the study does ({listed([*agreed])}), or say under [data.mapping] what each means"
            yield Finding("label-spellings", severity, said, fix, label, silo)
            return
    if not agreed and (found := misspelled(total)):
        rare, frequent = found
        pair = say.values({rare: HIDDEN_BELOW, frequent: total[frequent]} if total[rare] > 1 else total)
        said = f"a class in the label column {quoted(label)} is nearly spelled as a frequent one{pair}, in "
        said += f"{say.number(total[rare], 'record')} at silo {names[rare]}"
        fix = "write each class in one way, unless they are two"
        yield Finding("label-spellings", Severity.SAID, said, fix, label, names[rare])


def _codings(counts: Counts, label: str) -> Iterator[Finding]:
    """Two classes as 0 and 1 at one silo, and as 1 and 2, or -1 and 1, at another."""
    coding = {silo: frozenset(name for name, number in own.items() if number >= _FEW) for silo, own in counts.items()}
    if (
        any(len(own) > 2 for own in counts.values())
        or not {*coding.values()} <= {*_CODINGS}
        or len({*coding.values()}) < 2
    ):
        return
    usual, _ = Counter(coding.values()).most_common(1)[0]
    silo = [silo for silo, own in coding.items() if own != usual][-1]
    said = f"the label column {quoted(label)} holds two classes at each silo, and not the same: "
    said += f"{listed(sorted(usual))} at most, and {listed(sorted(coding[silo]))} at silo {silo}"
    # -1 next to 0 and 1 is another way to write 0. With 1 and 2 there may be three classes.
    severity = Severity.REFUSED if {*coding.values()} == {_CODINGS[0], _CODINGS[2]} else Severity.SAID
    yield Finding("label-spellings", severity, said, "write each class in one way at all silos", label, silo)


def _renamed(counts: Counts, label: str) -> Iterator[Finding]:
    """A class that one silo alone has, where it lacks one that all others have: one class by two names."""
    counts = {silo: own for silo, own in counts.items() if not silo.endswith(TESTED)}
    if len(counts) < 3 or any(sum(own.values()) < FEWEST for own in counts.values()):
        return
    for silo, own in counts.items():
        others = [theirs for other, theirs in counts.items() if other != silo]
        lacking = [name for name in others[0] if name not in own and all(_is_usual(name, theirs) for theirs in others)]
        new = [name for name in own if _is_usual(name, own) and not any(name in theirs for theirs in others)]
        # Numbers are grades, and a silo may well lack one of these.
        if len(lacking) == 1 and len(new) == 1 and _number(new[0]) is None:
            said = f"only silo {silo} has class {quoted(new[0])} in the label column {quoted(label)}, and it lacks "
            said += f"{quoted(lacking[0])}, which all others have"
            fix = "if it is one class by two names, write one name everywhere"
            yield Finding("label-spellings", Severity.REFUSED, said, fix, label, silo)


def _is_usual(name: str, own: Mapping[str, int]) -> bool:
    return own.get(name, 0) >= _USUAL * sum(own.values())


def _several_in_a_cell(counts: Counts, total: Counter[str], label: str, say: Words) -> Iterator[Finding]:
    for separator in _SEPARATORS:
        split = {name: [part.strip() for part in _bare(name).split(separator)] for name in total if separator in name}
        several = {name: parts for name, parts in split.items() if all(parts) and len(parts) > 1}
        if not several:
            continue
        single = {folded(_bare(name)) for name in total if name not in several}
        uses = Counter(folded(part) for parts in several.values() for part in {*parts})
        of_known = [
            parts
            for parts in several.values()
            if all(folded(part) in single or uses[folded(part)] > 1 for part in parts)
        ]
        of_single = any(folded(part) in single for parts in several.values() for part in parts)
        lists = separator == "," and any(_bare(name) != name for name in several)
        words = separator == "," and not any(_number(name) is not None for name in single)
        certain = lists or (separator in _SURE and (of_known or len(several) > 1)) or (words and of_known and of_single)
        if not (certain or separator in _SURE or (of_known and of_single)):
            continue
        silo = next(silo for silo, own in counts.items() if not several.keys().isdisjoint(own))
        said = f"cells of the label column {quoted(label)} hold several labels, separated by {quoted(separator)}"
        said += f"{say.values({name: total[name] for name in several})} at silo {silo}"
        fix = "give each record one class, such as the first, or run once for each label (yes or no)"
        yield Finding("labels-in-a-cell", Severity.REFUSED if certain else Severity.SAID, said, fix, label, silo)
        return


def _bare(name: str) -> str:
    """A label without the brackets and quotation marks of a list."""
    is_list = name[:1] in "[{(" and name[-1:] in "]})" and len(name) > 1
    return re.sub(r"[\"']", "", name[1:-1]) if is_list else name


def _without_common(counts: Counts, say: Words) -> Iterator[Finding]:
    silos_of: Counter[str] = Counter(name for own in counts.values() for name in own)
    for silo, own in counts.items():
        if len(counts) < 2 or any(silos_of[name] > 1 for name in own):
            continue
        certain = sum(own.values()) >= _FEW
        said = f"silo {silo} has no class in common with the others{say.values(own)}"
        fix = "write the classes as they do, or leave the silo out"
        yield Finding("no-common-class", Severity.REFUSED if certain else Severity.SAID, said, fix, silo=silo)


def _few(
    counts: Counts, total: Counter[str], agreed: Collection[str], say: Words, known: Collection[Finding]
) -> Iterator[Finding]:
    """Silos of one class, classes of few records, and classes of one silo, but for silos ``known`` to share none."""
    counts = {silo: own for silo, own in counts.items() if not silo.endswith(TESTED)}
    for silo, own in counts.items():
        if len(own) == 1 and len({*total, *agreed}) > 1 and sum(own.values()) >= _FEW:
            said = f"all records of silo {silo} have one class{say.values(own)}"
            yield Finding(
                "one-class", Severity.SAID, said, "nothing, if that is so: others teach it the rest", silo=silo
            )
    if say.private:
        return
    enough = sum(total.values()) >= FEWEST
    rare = [number for number in total.values() if number < _FEW]
    for number in sorted({*rare}):
        classes = f"a class has {count(number, 'record')}" if rare.count(number) == 1 else ""
        classes = classes or f"{rare.count(number)} classes have {count(number, 'record')} each"
        # Its name may be a patient's.
        said, fix = f"{classes} at all silos together", "correct the cell, join the class with another, or remove it"
        yield Finding("few-of-class", Severity.REFUSED if number <= _HARDLY and enough else Severity.SAID, said, fix)
    without = {found.silo for found in known}
    for name, number in total.items():
        silos = [silo for silo, own in counts.items() if name in own]
        if len(counts) > 2 and len(silos) == 1 and number >= _FEW and silos[0] not in without:
            said = f"only silo {silos[0]} has class {quoted(name)}"
            yield Finding("class-at-one-silo", Severity.SAID, said, "check that others write it so, too", silo=silos[0])
