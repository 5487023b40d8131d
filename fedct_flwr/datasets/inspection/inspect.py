"""The inspection of a federation's tables, column by column: Table 1 by site, and findings that are refused or said."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedct_flwr.config.tables import TableSettings
from fedct_flwr.datasets.dates import dated
from fedct_flwr.datasets.inspection import Finding, Redaction, Severity, check_accept, columns, table_one, with_accepted
from fedct_flwr.datasets.inspection.cells import (
    FEWEST,
    MISSING_CODES,
    TESTED,
    CellKind,
    Cells,
    Inspected,
    are_dates,
    are_missing,
    columns_of_tables,
)
from fedct_flwr.datasets.inspection.table_one import Inspection, Row, TableOne
from fedct_flwr.datasets.tables import class_name
from fedct_flwr.text.printable import count, listed, quoted
from fedct_flwr.text.spelling import folded, spelled_alike
from fedct_flwr.types import SiloName

Counts = Mapping[SiloName, Mapping[str, int]]  # By silo, how many records have each class.
_NUMBER: Final = re.compile(r"[+-]?\d+([.,]\d+)?([eE][+-]?\d+)?")
_FEW: Final = 5
"""Records of a silo or a class below which that is said."""
_MANY: Final = 20
"""Usual largest number of classes."""


def inspect_tables(
    public: pa.Table,
    silos: Mapping[SiloName, pa.Table],
    label: str,
    *,
    number: bool = False,
    event: str = "",
    settings: TableSettings | None = None,
    accept: Collection[str] = (),
    agreed: Collection[str] = (),
    mapping: Mapping[str, str] | None = None,
    words: Redaction | None = None,
) -> Inspection:
    """Inspect the public table and the silos' tables, each with the column ``label``, with the public set's features.

    ``number``: the label column holds numbers to predict; with ``event`` signed times, whose column of events had this
    name. ``agreed`` are a study's classes, into which a real silo's
    ``mapping`` leads. ``accept`` are findings to accept, with those of the ``settings``. Columns that a table
    lacks, and labels that are missing, are for others to refuse. Raises ConfigError for names that no finding has.
    """
    settings, redaction = settings or TableSettings(), words or Redaction()
    check_accept([*settings.accept, *accept])
    unused = {label, *filter(None, (event, settings.group)), *settings.leave_out, *settings.text}
    features = public.select([at for at, name in enumerate(public.column_names) if name not in unused])
    given = {silo: table.column(label) for silo, table in silos.items()}
    # Truth values are classes by name.
    answers = {s: Cells.of(own.cast(pa.string()) if pa.types.is_boolean(own.type) else own) for s, own in given.items()}
    rows: list[Row] = []
    tested: list[Row] = []
    if event:
        signed = {silo: own.to_numpy() for silo, own in given.items()}
        answers = {silo: Cells.of_numbers(np.abs(own)) for silo, own in signed.items()}
        had = {silo: int((~np.signbit(own)).sum()) for silo, own in signed.items()}
        counts = {silo: {"yes": had[silo], "no": len(own) - had[silo]} for silo, own in signed.items()}
        rows = [table_one.of_classes(counts, event)] if counts else []
    found = [*_few_records({silo: table.num_rows for silo, table in silos.items()}, public.num_rows, redaction)]
    if label and label in public.column_names:
        what = "has the name of the label column, and is not used"
        fix = "nothing, if these are answers to compare with later; a feature needs another name"
        found.append(redaction.finding("label-in-public", label, "", what, fix))
    if number:
        outcome = Inspected(label, None, answers)
        rows = [table_one.row_of(outcome.trained), *rows]
        tested = [table_one.of_test_tables(outcome)]
        texts = [columns.number_as_text(cells, label, silo, redaction) for silo, cells in answers.items()]
        on_outcome = filter(None, texts) if any(texts) else columns.suspicious(outcome, redaction, categories=False)
        take_out = "take the records out whose outcome is not known"
        found += [replace(each, fix=take_out) if each.code == "missing-as-number" else each for each in on_outcome]
    else:
        # As they are read: a study's class "True" is what a file means by "true".
        means = {class_name(name): meant for name, meant in (mapping or {name: name for name in agreed}).items()}
        named = {silo: _classes(cells, means) for silo, cells in answers.items()}
        counts = {silo: Counter(own[own != ""].tolist()) for silo, own in named.items()}
        if any(counts.values()):
            found += _of_classes(counts, agreed, label, redaction)
            rows = [table_one.of_classes(counts, label)]
    categories, days = frozenset(settings.categories), dated(public)
    for column in columns_of_tables(features, silos):
        rows.append(table_one.row_of(column.trained))
        tested.append(table_one.of_test_tables(column))
        here = [*columns.of_public(column, redaction, categories, days)]
        here = here or [each for silo in column.silos for each in columns.of_silo(column, silo, redaction)]
        here += [*columns.empty(column, redaction), *columns.lost(column, redaction)]
        if all(each.severity is not Severity.REFUSED for each in here):
            here += columns.suspicious(column, redaction, column.name in categories, column.name in days)
            here += columns.following(column.trained, answers if event else {}, label, redaction)
        found += here
    # Skip findings that another finding explains.
    known = {(each.column, each.silo) for each in found}
    for each in found:
        if each.code in ("one-class", "no-common-class"):
            known.add(("", each.silo))
        if (each.severity is Severity.REFUSED and not each.silo) or each.code == "label-spellings":
            known |= {("" if each.column == label else each.column, silo) for silo in silos}
    said = [each for row in [*rows, *tested] for each in table_one.said_of(row, redaction)]
    apart = [each for each in said if (each.column, each.silo) not in known]
    return Inspection(TableOne(tuple(rows)), (*with_accepted([*found, *apart], [*settings.accept, *accept]),))


def _classes(cells: Cells, means: Mapping[str, str]) -> np.ndarray[tuple[int, ...], np.dtype[np.str_]]:
    """The class of each record, ``(records,)``, empty where it has none."""
    at: NDArray[np.int64]
    if cells.kind is CellKind.NUMBERS:
        values, at = np.unique(cells.numbers, return_inverse=True)
        words = ["" if np.isnan(value) else str(value) for value in values.tolist()]
    else:
        words = [*cells.words, ""]
        at = cells.numbers.astype(np.int64) if cells.words else np.full(cells.records, -1)
    names = [class_name(word) if word else "" for word in words]
    return np.array([means.get(name, name) for name in names])[at]


def _of_classes(counts: Counts, agreed: Collection[str], label: str, redaction: Redaction) -> Iterator[Finding]:
    """All findings on classes. ``agreed`` are a study's own, if it has any."""
    total = sum(map(Counter[str], counts.values()), Counter[str]())
    # Where one thing is refused, the rest follows from it.
    refused = [*_too_many(total, label, redaction)]
    refused = refused or [*_spellings(counts, agreed, total, label, redaction), *_several(counts, label)]
    if not refused:
        refused = [*([] if agreed else _without_common(counts, redaction)), *_few(counts, total, agreed, redaction)]
        refused += _unknown_labels(total, agreed, label)
    yield from refused


def _unknown_labels(total: Counter[str], agreed: Collection[str], label: str) -> Iterator[Finding]:
    """A third class that is a word for a missing label, or a code far from all other numbers."""
    names = [*total] if len(total) > 2 else []
    numbers = {name: float(name.replace(",", ".")) for name in names if _NUMBER.fullmatch(name)}
    for name, is_word in zip(names, are_missing(names), strict=True):
        others = [value for other, value in numbers.items() if other != name]
        code = numbers.get(name, 0.0)
        far = code < 0 <= min(others, default=0.0) or code > 2 * max(others, default=0.0) + 1
        # pandas writes -1 for a missing category.
        if name not in agreed and (is_word or ((code == -1 or abs(code) in MISSING_CODES) and far)):
            message = f"the class {quoted(name)} in the label column {quoted(label)} looks like a missing label"
            fix = f"take its {count(total[name], 'record')} out, unless it is a class"
            yield Finding("missing-as-number", Severity.SAID, message, fix, label)


def _few_records(silos: Mapping[SiloName, int], public: int, redaction: Redaction) -> Iterator[Finding]:
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
        message += redaction.values({name: total[name] for name in pair})
        one, other = (listed([where for where, own in counts.items() if name in own]) for name in pair)
        place, fix = f", one at {one}, the other at {other}", "write each class in one way at all silos"
        if agreed:
            place = f" at silo {silo}" if silo else ""
            fix = f"write them as the study does ({listed([*agreed])}), or say under [data.mapping] what each means"
        yield Finding("label-spellings", Severity.REFUSED, message + place, fix, label, silo)


def _several(counts: Counts, label: str) -> Iterator[Finding]:
    """Refuse label cells that hold several labels, with one finding at most.

    Each part is a cell of its own elsewhere; between ``;`` or ``|``, two different cells that share a part are enough.
    """
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
            fix = "nothing, if that is so: others teach it the rest"
            yield Finding("one-class", Severity.SAID, message, fix, silo=silo)
    if redaction.private:
        return
    for number in sorted(number for number in total.values() if number < _FEW):
        # Its name may be a patient's. Of one or two records it is hardly a class, rather a cut or wrong cell.
        message = f"a class has {count(number, 'record')} at all silos together"
        severity = Severity.REFUSED if number <= 2 and total.total() >= FEWEST else Severity.SAID
        yield Finding("few-of-class", severity, message, "correct the cell, join the class with another, or remove it")
