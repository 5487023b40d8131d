"""Findings on the kind of outcome: classes with an order, missing labels as a class, several codings, survival.

They go by names of columns and classes, as people in hospitals give them.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.profile import Kind, Profile
from fedct_flwr.datasets.inspection.spelling import folded
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.text.plural import count
from fedct_flwr.text.printable import listed, quoted
from fedct_flwr.types import SiloName

_WORDS: Final = (
    "lowest low lower medium moderate middle mid intermediate high higher highest none no absent minimal "
    "minor mild slight major severe extreme critical fatal never rarely seldom sometimes often always poor "
    "fair good excellent bad small large keine keiner kein gering niedrig mittel mäßig maessig mittelgradig "
    "mittelschwer hoch leicht leichtgradig schwer hochgradig schwerst kritisch nie selten manchmal oft immer "
    "gut schlecht befriedigend early late advanced faible moyen élevé léger modéré sévère bajo medio alto "
    "leve moderado grave "
)
_ORDERED: Final = frozenset(_WORDS.split())
_FIRST_WORD: Final = re.compile(r"^(very|sehr|muy|très|rather|eher)[ _-]+")
_OF_SCALE: Final = (
    "stage|stadium|stufe|grade|grad|level|score|severity|schweregrad|schwere|nyha|asa|ecog|ckd|gleason|bi-?rads|rating|"
    "rank|mrs|child|tnm|staging|grading"
)
_STEP: Final = re.compile(rf"(?:({_OF_SCALE}|class)[ _-]*)?(\d|[ivx]{{1,4}})[abc]?", re.I)
_SCALE: Final = re.compile(rf"(^|[^a-z])({_OF_SCALE}|quality|stars)($|[^a-z])", re.I)
_ROMAN: Final = frozenset({"i", "ii", "iii", "iv", "v", "vi"})
_FEWEST_STEPS: Final = 3
_MOST_STEPS: Final = 12

_NO_LABEL: Final = re.compile(
    r"\?+|\.+|-+|–|n\.?/?\s?a\.?|nan|null|unknown|unk|missing|n\.?d\.?|k\.?\s?a\.?|unbekannt|unbek\.?|fehlt|fehlend|inconnu|"
    r"desconocido|not (done|known|available|applicable)|pending|tba|tbd|#.*|\(?leer\)?|\(?blank\)?",
    re.I,
)
_NINES: Final = frozenset({"9", "99", "999", "9999", "-9", "-99", "-999", "-9999", "88", "888", "77", "777"})
_WHOLE: Final = re.compile(r"-?\d{1,9}")
_FEW: Final = 5
_FEW_PUBLIC: Final = 10

_EVENT: Final = re.compile(
    r"(^|[_\W])(event|death|dead|died|deceased|censor\w*|zensiert|status|relapse|recurrence|rezidiv|verstorben|tod|"
    r"mortality|failure|progression)($|[_\W\d])",
    re.I,
)
_TIME: Final = re.compile(
    r"^(time|tte|duration|days|weeks|months|years|zeit|dauer|tage|monate)$|"
    r"surviv\w*|überleb\w*|ueberleb\w*|follow[_\W]?up|nachbeobachtung|^fu[_\W]|^fu$|time[_\W]?to|"
    r"(^|[_\W])(os|pfs|dfs|rfs|efs)([_\W]?(time|days|months|years|tage|monate|d|m))?$|"
    r"(event|death|censoring)[_\W]?time|(time|days|months)[_\W]?(event|death)",
    re.I,
)
_FEWEST_TIMES: Final = 10
_TWO: Final = 2

_CODINGS: Final = (frozenset({"0", "1"}), frozenset({"1", "2"}), frozenset({"-1", "1"}))


def missing_as_class(total: Mapping[str, int], label: str) -> Iterator[Finding]:
    """Classes that are named as a missing value is: 'unknown', or 9 where the others are 0 and 1."""
    signs = {"+", "-"} if "+" in total else set()
    found = [name for name in total if _NO_LABEL.fullmatch(name) and name not in signs]
    if not found and all(_WHOLE.fullmatch(name) for name in total):
        found = [name for name in total if name in _NINES and _is_far([*map(int, total)], int(name))]
        # Next to 0 and 1; with 1 alone it is a class.
        found += ["-1"] if "-1" in total and min(int(name) for name in total if name != "-1") == 0 else []
    if found and len(total) - len(found) >= _TWO:
        said = f"the label column {quoted(label)} has a class that is named as a missing value is ({listed(found)})"
        fix = "take these records out, unless it is a class of its own"
        yield Finding("missing-as-class", Severity.SAID, said, fix, label)


def _is_far(numbers: list[int], one: int) -> bool:
    others = [number for number in numbers if number != one]
    width = max(others) - min(others)
    return len(others) > 1 and min(abs(one - number) for number in others) >= 2 * width


def codings(counts: Mapping[SiloName, Mapping[str, int]], label: str) -> Iterator[Finding]:
    """Two classes as 0 and 1 at one silo, and as 1 and 2, or -1 and 1, at another."""
    first: dict[frozenset[str], SiloName] = {}
    for silo, own in counts.items():
        classes = frozenset(name for name, number in own.items() if number >= _FEW)
        if len(own) > _TWO or (len(classes) == _TWO and classes not in _CODINGS):
            return
        if len(classes) == _TWO:
            first.setdefault(classes, silo)
    if len(first) < _TWO:
        return
    said = f"the label column {quoted(label)} holds two classes at each silo, and not the same: "
    said += ", ".join(f"{listed(sorted(classes, key=int))} at silo {silo}" for classes, silo in first.items())
    # -1 next to 0 and 1 is another way to write 0. With 1 and 2 there may be three classes.
    severity = Severity.REFUSED if {*first} == {_CODINGS[0], _CODINGS[2]} else Severity.SAID
    fix = "write each class in one way at all silos, unless there are more than two"
    yield Finding("label-spellings", severity, said, fix, label, [*first.values()][-1])


def ordered(classes: Collection[str], label: str) -> Iterator[Finding]:
    """Whether classes are steps of a scale: words, or numbers of stages."""
    if not _FEWEST_STEPS <= len(classes) <= _MOST_STEPS:
        return
    words = [_FIRST_WORD.sub("", folded(name)) for name in classes]
    if not all(word in _ORDERED for word in words) and not _are_steps(classes, label):
        return
    where = f"of the label column {quoted(label)} " if label else ""
    said = f"the classes {where}look like steps of a scale ({listed([*classes], 3)}), and a class has no order"
    fix = "nothing, if each class counts alone; or write numbers, and set outcome = 'number' to predict one"
    yield Finding("ordinal-classes", Severity.SAID, said, fix, label)


def _are_steps(classes: Collection[str], label: str) -> bool:
    steps = [_STEP.fullmatch(name.strip()) for name in classes]
    if not all(steps):
        return False
    scales = {(step[1] or "").lower() for step in steps if step}
    values = {step[2].lower() for step in steps if step}
    if len(scales) > 1:
        return False
    if values <= _ROMAN:
        return scales != {"class"} and bool({"i", "ii"} & values)
    numbers = sorted(int(value) for value in values if value.isdigit())
    in_a_row = len(numbers) == len(values) and numbers[0] <= _TWO and numbers[-1] - numbers[0] == len(numbers) - 1
    return in_a_row and (scales not in ({""}, {"class"}) or bool(_SCALE.search(label)))


def survival(public: Profile, label: str, number: bool) -> Iterator[Finding]:
    """Whether there is a time until an event, and a column that says whether it has come."""
    times = [
        name
        for name, kind in public.kinds.items()
        if kind is Kind.NUMBERS and _TIME.search(name) and public.distinct(name) > _FEWEST_TIMES
    ]
    if number:
        events = [name for name in public.kinds if _EVENT.search(name) and public.distinct(name) == _TWO]
        pair = (label, events[0]) if events and _TIME.search(label) else None
    else:
        pair = (times[0], label) if times and _EVENT.search(label) else None
    if not pair:
        return
    said = f"columns {quoted(pair[0])} and {quoted(pair[1])} look like survival data, a time and whether the event came"
    fix = (
        "predict the event within a fixed time (yes or no), leave out records that were censored earlier, and take "
        f"{quoted(pair[1] if number else pair[0])} out of all tables"
    )
    yield Finding("survival", Severity.SAID, said, fix, pair[1] if number else pair[0])


def few_records(silos: Mapping[SiloName, int], public: int, say: Words) -> Iterator[Finding]:
    """Silos with hardly any record, and a public set from whose labels nothing can be learned."""
    if 0 < public < _FEW_PUBLIC:
        said = f"the public set has {count(public, 'record')}, and silos learn from each other by its labels alone"
        yield Finding("few-records", Severity.SAID, said, "add records without labels, a hundred or more")
    for silo, records in silos.items():
        if 0 < records < _FEW:
            said = f"silo {silo} has {say.number(records, 'record')}"
            yield Finding("few-records", Severity.SAID, said, "check that its table is complete", silo=silo)
