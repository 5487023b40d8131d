"""Findings on the label columns: classes in several spellings, without a common one, several in a cell, or numbers."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Final

import pyarrow as pa

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.outcome import codings, missing_as_class, ordered
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
_FEW: Final = 5
_MANY: Final = 20
_FRACTIONS: Final = 10
_FEW_EACH: Final = 10
_MOSTLY: Final = 0.8
_TWO: Final = 2
TESTED: Final = ".test"
"""Ends the name of a table that a silo is tested with."""
_TO_COMPARE: Final = 20
"""Records, at least, of silos whose classes are compared."""
_USUAL: Final = 0.05


def of_classes(counts: Counts, agreed: Collection[str], label: str, say: Words) -> Iterator[Finding]:
    """All findings on classes. ``agreed`` are a study's own, if it has any."""
    total: Counter[str] = Counter()
    for own in counts.values():
        total.update(own)
    if too_many := list(_too_many(total, label, say)):
        yield from too_many
        return
    yield from _spellings(counts, agreed, label, say)
    yield from _several_in_a_cell(counts, total, label, say)
    if not agreed:
        yield from codings(counts, label)
        yield from missing_as_class(total, label)
        yield from ordered(sorted(total), label)
        yield from _without_common(counts, say)
        yield from _renamed(counts, label)
    yield from _few(counts, total, agreed, say)


def _too_many(total: Counter[str], label: str, say: Words) -> Iterator[Finding]:
    records, numbers = sum(total.values()), [_number(name) for name in total]
    if all(number is not None for number in numbers):
        fractions = any(number is not None and not number.is_integer() for number in numbers)
        many = len(total) > _FRACTIONS if fractions else len(total) > _MANY and records < _FEW_EACH * len(total)
        among = say.number(records, "record")
        said = f"the label column {quoted(label)} holds {len(total):,} different numbers in {among}"
        fix = "set outcome = 'number' to predict a number, or make classes of it"
        if many and records < 2 * _FEW_EACH * len(total):
            yield Finding("number-to-predict", Severity.REFUSED, said, fix, label)
        elif many or (len(total) > _FRACTIONS and _in_a_row(numbers)):
            yield Finding("number-to-predict", Severity.SAID, said, fix, label)
        return
    if len(total) > _FEW and are_dates(pa.array([*total], pa.string())).mean() > _MOSTLY:
        said = f"the label column {quoted(label)} holds dates"
        yield Finding("dates-as-text", Severity.REFUSED, said, "check that it is the right column", label)
    elif len(total) > _MANY and records < 3 * len(total):
        said = (
            f"the label column {quoted(label)} has {len(total):,} different labels in {say.number(records, 'record')}"
        )
        yield Finding("many-classes", Severity.REFUSED, said, "check that it is the right column", label)


def _number(name: str) -> float | None:
    """The number that a label is, also with a decimal comma; None for another label."""
    return float(name.replace(",", ".")) if _NUMBER.fullmatch(name) else None


def _in_a_row(numbers: list[float | None]) -> bool:
    """Whether most numbers between the smallest and the largest occur, as of ages."""
    found = [number for number in numbers if number is not None]
    return max(found) - min(found) < 2 * len(found)


def _spellings(counts: Counts, agreed: Collection[str], label: str, say: Words) -> Iterator[Finding]:
    names: dict[str, SiloName] = dict.fromkeys(agreed, "")
    total: Counter[str] = Counter()
    for silo, own in counts.items():
        total.update(own)
        for name in own:
            names.setdefault(name, silo)
    for same, how, severity in (
        (folded, "in case, blanks or form of Unicode alone", Severity.REFUSED),
        (without_accents, "in accents or in encoding alone", Severity.REFUSED),
        (_truth_word, "in spelling alone", Severity.REFUSED),
        (without_signs, "in signs between words alone", Severity.SAID),
    ):
        if same is _truth_word and not all(truth(name) is not None for name in names):
            continue
        first: dict[str, str] = {}
        for name, silo in names.items():
            if (other := first.setdefault(same(name), name)) == name:
                continue
            pair = say.values({other: total[other], name: total[name]})
            where = f" at silo {silo}" if silo else ""
            said = f"classes in the label column {quoted(label)} differ {how}{pair}{where}"
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


def _truth_word(name: str) -> str:
    return str(truth(name))


def _several_in_a_cell(counts: Counts, total: Counter[str], label: str, say: Words) -> Iterator[Finding]:
    for separator in _SEPARATORS:
        split = {name: [part.strip() for part in _bare(name).split(separator)] for name in total if separator in name}
        several = {name: parts for name, parts in split.items() if all(parts) and len(parts) > 1}
        if not several:
            continue
        single = {folded(_bare(name)) for name in total if name not in several}
        uses = Counter(folded(part) for parts in several.values() for part in {*parts})
        known = [
            name
            for name, parts in several.items()
            if all(folded(part) in single or uses[folded(part)] > 1 for part in parts)
        ]
        of_single = [name for name, parts in several.items() if any(folded(part) in single for part in parts)]
        certain = separator in _SURE and (known or len(several) > 1)
        certain = certain or (separator == "," and any(_bare(name) != name for name in several))
        certain = certain or (
            separator == "," and not any(_number(name) is not None for name in single) and known and of_single
        )
        if not (certain or separator in _SURE or (known and of_single)):
            continue
        silo = next(silo for silo, own in counts.items() if not several.keys().isdisjoint(own))
        said = (
            f"cells of the label column {quoted(label)} hold several labels, separated by {quoted(separator)}"
            f"{say.values({name: total[name] for name in several})} at silo {silo}"
        )
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


def _renamed(counts: Counts, label: str) -> Iterator[Finding]:
    """A class that one silo alone has, where it lacks one that all others have: one class by two names.

    A table that a silo is tested with has the silo's classes, or is refused without a quotation of its cells.
    """
    counts = {silo: own for silo, own in counts.items() if not silo.endswith(TESTED)}
    if len(counts) <= _TWO or any(sum(own.values()) < _TO_COMPARE for own in counts.values()):
        return
    for silo, own in counts.items():
        others = [theirs for other, theirs in counts.items() if other != silo]
        common = [name for name in others[0] if all(_is_usual(name, theirs) for theirs in others)]
        lacking = [name for name in common if name not in own]
        new = [name for name in own if _is_usual(name, own) and not any(name in theirs for theirs in others)]
        # Numbers are grades, and a silo may well lack one of these.
        if len(lacking) == 1 and len(new) == 1 and _number(new[0]) is None:
            said = (
                f"silo {silo} alone has class {quoted(new[0])} in the label column {quoted(label)}, and lacks "
                f"{quoted(lacking[0])}, which all others have"
            )
            fix = "if it is one class by two names, write one name everywhere"
            yield Finding("label-spellings", Severity.REFUSED, said, fix, label, silo)


def _is_usual(name: str, own: Mapping[str, int]) -> bool:
    return own.get(name, 0) >= _USUAL * sum(own.values())


def _few(counts: Counts, total: Counter[str], agreed: Collection[str], say: Words) -> Iterator[Finding]:
    for silo, own in counts.items():
        if len(own) == 1 and len({*total, *agreed}) > 1 and sum(own.values()) >= _FEW:
            said = f"all records of silo {silo} are of one class{say.values(own)}"
            yield Finding(
                "one-class",
                Severity.SAID,
                said,
                "nothing, if that is so, as it learns the others from other silos",
                silo=silo,
            )
    for name, number in total.items():
        if number < _FEW and not say.private:
            # Its name may be a patient's.
            said = f"a class has {count(number, 'record')} at all silos together"
            yield Finding("few-of-class", Severity.SAID, said, "join it with another class, or take it out")
        elif len(counts) > 2 and sum(name in own for own in counts.values()) == 1 and number >= _FEW:
            silo = next(silo for silo, own in counts.items() if name in own)
            said = f"class {quoted(name)} occurs at silo {silo} alone"
            yield Finding("class-at-one-silo", Severity.SAID, said, "check that the others write it so, too", silo=silo)


def unequal(sizes: Mapping[SiloName, int]) -> Iterator[Finding]:
    """Whether one silo has many times as many records as others."""
    ordered = sorted(sizes.values())
    if len(ordered) < 2:
        return
    usual = ordered[len(ordered) // 2 if len(ordered) > 2 else 0]
    if ordered[-1] > _MANY * usual:
        large = max(sizes, key=lambda silo: sizes[silo])
        said = f"silo {large} has {count(sizes[large], 'record')}, and most others at most {count(usual, 'record')}"
        yield Finding("unequal-sizes", Severity.SAID, said, "nothing, if that is so", silo=large)
