"""The inspection of a federation's tables: facts of every column, classes of every silo, and findings."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedct_flwr.config.tables import TableSettings
from fedct_flwr.datasets.dates import dated
from fedct_flwr.datasets.inspection.belonging import belonging
from fedct_flwr.datasets.inspection.blocks import apart, strange_blocks, without_records
from fedct_flwr.datasets.inspection.classes import TESTED, of_classes, unequal
from fedct_flwr.datasets.inspection.columns import of_table
from fedct_flwr.datasets.inspection.combinations import excluding
from fedct_flwr.datasets.inspection.company import strangers
from fedct_flwr.datasets.inspection.contradictions import contradicting
from fedct_flwr.datasets.inspection.encoding import damaged, damaged_classes
from fedct_flwr.datasets.inspection.exchanged import exchanged
from fedct_flwr.datasets.inspection.factors import multiplied
from fedct_flwr.datasets.inspection.finding import Finding, Severity, with_accepted
from fedct_flwr.datasets.inspection.future_dates import future_dates
from fedct_flwr.datasets.inspection.headings import headings
from fedct_flwr.datasets.inspection.last_lines import last_lines
from fedct_flwr.datasets.inspection.nearly_shared import nearly_shared
from fedct_flwr.datasets.inspection.one_sided import one_sided
from fedct_flwr.datasets.inspection.one_value import one_value
from fedct_flwr.datasets.inspection.outcome import few_records, survival
from fedct_flwr.datasets.inspection.outstanding import outstanding
from fedct_flwr.datasets.inspection.parts import broken
from fedct_flwr.datasets.inspection.pasted import pasted
from fedct_flwr.datasets.inspection.populations import other_columns
from fedct_flwr.datasets.inspection.profile import Kind, Profile, distinct_texts, kind_of, profile
from fedct_flwr.datasets.inspection.quantity import of_quantity
from fedct_flwr.datasets.inspection.records import of_records
from fedct_flwr.datasets.inspection.remarks import remarks
from fedct_flwr.datasets.inspection.scores import Scale, Scores
from fedct_flwr.datasets.inspection.shift import constant_in_public, of_silo, unknown
from fedct_flwr.datasets.inspection.shifted_codes import shifted_codes
from fedct_flwr.datasets.inspection.slips import slipped
from fedct_flwr.datasets.inspection.summary_rows import summary_rows
from fedct_flwr.datasets.inspection.telling import telling_columns
from fedct_flwr.datasets.inspection.texts import of_texts
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.datasets.labels import class_name
from fedct_flwr.types import SiloName

_CROSSED_CLASSES: Final = 30
_MOST_ORDERED: Final = 20
"""Silos, the largest ones, whose columns are compared with each other."""
_NAMES_RECORDS: Final = frozenset({"record-number", "index-column", "one-per-record"})
_FROM_PUBLIC: Final = _NAMES_RECORDS | {"number-as-text", "dates-as-text"}
_NO_MEASURES: Final = frozenset({"record-number", "dates-as-numbers"})
_OF_OTHER_NUMBERS: Final = frozenset(
    {"other-scale", "out-of-range", "two-scales", "far-number", "missing-as-number", "repeated-number"}
)
_OF_MEASURES: Final = frozenset({"other-scale", "out-of-range"})


_EXPLAINS: Final = {
    "label-spellings": ("no-common-class", "class-at-one-silo", "few-of-class", "one-class"),
    "no-common-class": ("class-at-one-silo",),
    "labels-in-a-cell": ("class-at-one-silo", "few-of-class"),
}
"""What is found as well where labels are written in several ways."""


@dataclass(frozen=True)
class ColumnFacts:
    """One column of one table.

    ``unknown`` counts cells of a silo's text column whose value the public set does not have; ``not_numbers`` cells of
    text in a column that holds numbers, the first of them in record ``example``.
    """

    name: str
    kind: str
    missing: int
    distinct: int
    unknown: int | None = None
    not_numbers: int | None = None
    example: int | None = None


@dataclass(frozen=True)
class TableFacts:
    """One table; ``silo`` is empty for the public set, ``classes`` where numbers are predicted."""

    silo: SiloName
    records: int
    columns: tuple[ColumnFacts, ...]
    classes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Inspection:
    """What the tables of a federation are, and what is suspicious about them."""

    tables: tuple[TableFacts, ...]
    findings: tuple[Finding, ...]

    @property
    def refused(self) -> list[Finding]:
        """Findings with which nothing runs."""
        return [found for found in self.findings if found.severity is Severity.REFUSED]

    @property
    def said(self) -> list[Finding]:
        """Suspicious findings."""
        return [found for found in self.findings if found.severity is Severity.SAID]


def inspect_tables(
    public: pa.Table,
    silos: Mapping[SiloName, pa.Table],
    label: str,
    *,
    number: bool = False,
    settings: TableSettings | None = None,
    accept: Collection[str] = (),
    agreed: Collection[str] = (),
    mapping: Mapping[str, str] | None = None,
    words: Words | None = None,
) -> Inspection:
    """Inspect the public table and the silos' tables, each with the column ``label``, with the public set's features.

    ``number``: the label column holds numbers to predict. ``agreed`` are a study's classes, into which a real silo's
    ``mapping`` leads. ``accept`` are findings that are meant so, with those of the ``settings``. ``words`` say whether
    findings may quote cells.

    Columns that a table lacks, and labels that are missing, are for others to refuse. Raises ConfigError for names in
    ``accept`` that no finding has.
    """
    settings, say = settings or TableSettings(), words or Words()
    unused = {label, *([settings.group] if settings.group else []), *settings.leave_out, *settings.text}
    features = _without(public, unused)
    # As they are read: a study's class "True" is what a file means by "true".
    means = {class_name(name): meant for name, meant in (mapping or {name: name for name in agreed}).items()}
    labels = {silo: _labels(table, label, means) for silo, table in silos.items() if not number}
    classes = sorted({name for own in labels.values() for name in own.counts})
    crossed = len(classes) if len(classes) <= _CROSSED_CLASSES else 0
    theirs = profile(features)
    ours: dict[SiloName, Profile] = {}
    y: dict[SiloName, NDArray[np.int64]] = {}
    for silo, table in silos.items():
        own = _without(table, unused)
        own = _of(own, [position for position, name in enumerate(own.column_names) if name in theirs.kinds])
        # Records without a label are refused elsewhere, and of no class here.
        y[silo] = labels[silo].numbered(classes) if silo in labels else np.zeros(own.num_rows, dtype=np.int64)
        complete = crossed and silo in labels and bool((y[silo] >= 0).all())
        ours[silo] = profile(own, y[silo] if complete else None, crossed if complete else 0)
    # A rare thing may be in no public example.
    varies = {name for own in ours.values() for name in own.kinds if own.distinct(name) > 1}
    meant = frozenset(settings.categories)
    found = [
        each
        for each in of_table(theirs, say, meant, dated(public))
        if (each.code != "constant-column" or each.column not in varies)
        and (each.code != "missing-values" or not _is_as_empty(each.column, ours))
    ]
    known = {each.column for each in found if each.code in _NAMES_RECORDS}
    names_records = [] if settings.group else [*belonging(ours, known, say)]
    by_silos = [*constant_in_public(theirs, ours, say), *names_records]
    # A real silo is told what its records alone show.
    found += [replace(each, silo=silo) for each in by_silos for silo in ours] if say.private else by_silos
    if label and label in public.column_names:
        found.append(_label_in_public(label, say))
    found += survival(theirs, label, number)
    for silo, own in ours.items():
        found += of_silo(theirs, own, silo, say, no_features={each.column for each in names_records})
        found += _next_to_public(theirs, own, silo, say, found)
    known_far = {(each.column, each.silo) for each in found if each.code in _OF_MEASURES}
    found += future_dates({"": public, **silos}, say, known_far)
    counts = {silo: own.counts for silo, own in labels.items()}
    if number:
        found += of_quantity(silos, ours, label, say)
    elif any(counts.values()):
        found += of_classes(counts, agreed, label, say)
    sizes = {silo: own.records for silo, own in ours.items()}
    found += [*unequal(sizes), *few_records(sizes, theirs.records, say)]
    copies = of_records(theirs, ours, {} if number else y, say)
    # Records of one group may well be alike.
    found += [each for each in copies if not (settings.group and each.code == "repeated-records")]
    found += _nearly_shared(theirs, ours, found, say)
    found += _of_lines({"": theirs, **ours}, found, say)
    found += damaged_classes(counts, label, say)
    for silo, table in {"": public, **silos}.items():
        found += of_texts(table, settings.text, silo, say)
    found += telling_columns(ours, crossed, label, say)
    found += one_sided(ours, classes if crossed else [], label, say, _telling(found))
    found += _contradicting(theirs, ours, found, say)
    outcomes = {silo: _outcome(silos[silo].column(label), y[silo], number=number) for silo in ours}
    found += _of_order(theirs, ours, outcomes, label, say, _telling(found), number=number)
    tables = [
        _facts("", theirs, None, {}),
        *(_facts(silo, own, theirs, counts.get(silo, {})) for silo, own in ours.items()),
    ]
    return Inspection(tuple(tables), tuple(_without_consequences(with_accepted(found, [*settings.accept, *accept]))))


def _is_as_empty(column: str, silos: Mapping[SiloName, Profile]) -> bool:
    """Whether all silos have a column mostly empty, and not all of it: it is known of some patients alone."""
    every = [*silos.values()]
    return bool(every) and all(
        own.kinds.get(column, Kind.NOTHING) is not Kind.NOTHING and own.missing(column) > own.records / 2
        for own in every
    )


def _nearly_shared(
    public: Profile, silos: Mapping[SiloName, Profile], findings: Collection[Finding], say: Words
) -> list[Finding]:
    """Records that are nearly those of another table, but for a silo of which that is said already."""
    own = {silo: each for silo, each in silos.items() if not silo.endswith(TESTED)}
    known = {(each.code, each.silo) for each in findings}
    return [each for each in nearly_shared(public, own, say) if (each.code, each.silo) not in known]


def _next_to_public(
    public: Profile, own: Profile, silo: SiloName, say: Words, findings: Collection[Finding]
) -> Iterator[Finding]:
    """What shows in a silo's columns next to the public set's alone, but for what is said already."""
    yield from one_value(public, own, silo, say)
    known = {each.column for each in findings if each.silo == silo and each.code in _OF_MEASURES}
    yield from multiplied(public, own, silo, say, known)
    yield from shifted_codes(public, own, silo, say, known)
    yield from exchanged(public, own, silo, say)


def _of_lines(tables: Mapping[SiloName, Profile], findings: Collection[Finding], say: Words) -> Iterator[Finding]:
    """Lines of a file that are no records, or stand there twice, and damaged words."""
    known = {(each.column, each.silo) for each in findings if each.code == "value-spellings"}
    for silo, table in tables.items():
        yield from summary_rows(table, silo, say)
        yield from last_lines(table, silo, say)
        yield from headings(table, silo, say)
        yield from remarks(table, silo, say, tables[""] if silo else None)
        yield from (each for each in damaged(table, silo, say) if (each.column, each.silo) not in known)
    yield from pasted(tables, say)


def _telling(findings: Collection[Finding]) -> set[str]:
    """Columns of which it is said that they tell the label."""
    return {each.column for each in findings if each.code == "tells-the-label"}


def _contradicting(
    public: Profile, silos: Mapping[SiloName, Profile], findings: Collection[Finding], say: Words
) -> list[Finding]:
    """Columns that contradict another one, but for those of which it is said already that their numbers are others."""
    known = {(each.column, each.silo) for each in findings if each.code in _OF_OTHER_NUMBERS}
    found = [*contradicting(public, silos, say), *excluding(public, silos, say)]
    return [each for each in found if (each.column, each.silo) not in known]


def _outcome(column: pa.ChunkedArray, y: NDArray[np.int64], *, number: bool) -> NDArray[np.float64]:
    """What is predicted of each record, ``(records,)``, with NaN where it is not known."""
    if not number:
        return np.where(y < 0, np.nan, y)
    if kind_of(column) is not Kind.NUMBERS:
        return np.full(len(column), np.nan)
    numbers: NDArray[np.float64] = column.cast(pa.float64(), safe=False).to_numpy()
    return numbers


def _of_order(
    public: Profile,
    silos: Mapping[SiloName, Profile],
    outcomes: Mapping[SiloName, NDArray[np.float64]],
    label: str,
    say: Words,
    telling: Collection[str],
    *,
    number: bool,
) -> list[Finding]:
    """Columns whose cells stand next to other records than their own, or mean the opposite; and what tells the label.

    ``telling`` columns are known to tell it already.
    """
    largest = sorted(silos, key=lambda silo: -silos[silo].records)[:_MOST_ORDERED]
    scale = Scale.of(public, label, [outcomes[silo] for silo in largest], number=number)
    scores = {"": scale.scores(public)}
    scores |= {silo: scale.scores(silos[silo], outcomes[silo]) for silo in silos if silo in largest}
    found = [each for silo in scores for each in slipped(scores[silo], silo, say)]
    found += [each for silo in scores for each in _broken(scores[silo], label, silo, say, found)]
    have_slipped = {(each.column, each.silo) for each in found}
    own = {silo: each for silo, each in scores.items() if not silo.endswith(TESTED)}
    of_many = {silo: each for silo, each in own.items() if not each.repeats}
    others = {silo: other_columns(public, silos[silo], alone=len(silos) == 1) for silo in largest}
    strange = strangers(of_many, say, label, others)
    found += [each for each in strange if (each.column, each.silo) not in have_slipped]
    for blocks in (apart(scores, label, say), strange_blocks(scores, label, say, others)):
        in_disorder = {each.silo for each in found}
        found += [each for each in blocks if each.silo not in in_disorder]
    for silo in silos if say.private else ():
        found += without_records(scores[silo], label, silo, say)
    found += outstanding([each for silo, each in own.items() if silo], label, telling)
    return found


def _broken(scores: Scores, label: str, silo: SiloName, say: Words, slips: Collection[Finding]) -> Iterator[Finding]:
    """Columns that go with the others in one part of a table alone, unless it has slipped or is of few patients."""
    if not scores.repeats and not any(each.silo == silo for each in slips):
        yield from broken(scores, label, silo, say)


def _label_in_public(label: str, say: Words) -> Finding:
    said = f"{say.column(label, '')} has the name of the label column, and is not used"
    fix = "nothing, if these are answers to compare with later; a feature needs another name"
    return Finding("label-in-public", Severity.SAID, said, fix, label)


def _without(table: pa.Table, unused: Collection[str]) -> pa.Table:
    return _of(table, [position for position, name in enumerate(table.column_names) if name not in unused])


def _of(table: pa.Table, positions: list[int]) -> pa.Table:
    """Some columns. By position: names would be looked up one by one among all."""
    return table if len(positions) == table.num_columns else table.select(positions)


def _without_consequences(findings: list[Finding]) -> list[Finding]:
    """The findings but for those that another, refused one explains."""
    refused = [found for found in findings if found.severity is Severity.REFUSED]
    columns = {found.column for found in refused if not found.silo and found.code in _FROM_PUBLIC}
    no_measures = {
        found.column
        for found in findings
        if found.severity is Severity.SAID and not found.silo and found.code in _NO_MEASURES
    }
    codes = {code for found in refused for code in _EXPLAINS.get(found.code, ())}
    return [
        found
        for found in findings
        if found.code not in codes
        and not (found.silo and found.code in {"unknown-values", *_OF_MEASURES} and found.column in columns)
        and not (found.silo and found.code in _OF_MEASURES and found.column in no_measures)
    ]


@dataclass(frozen=True, eq=False)
class _Labels:
    names: list[str]
    counts: dict[str, int]
    codes: NDArray[np.int64]

    def numbered(self, classes: list[str]) -> NDArray[np.int64]:
        """The number of each record's class, or -1 without one."""
        number = {name: position for position, name in enumerate(classes)}
        return np.array([*(number.get(name, -1) for name in self.names), -1], dtype=np.int64)[self.codes]


def _labels(table: pa.Table, label: str, means: Mapping[str, str]) -> _Labels:
    column = table.column(label)
    if pa.types.is_nested(column.type) or pa.types.is_temporal(column.type) or pa.types.is_binary(column.type):
        return _Labels([], {}, np.full(table.num_rows, -1))
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    if kind_of(column) is not Kind.TEXT:
        column = pa.chunked_array(
            [pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string())]
        )
    text, codes = distinct_texts(column)
    names = [class_name(value) for value in text.values.to_pylist()]
    names = [means.get(name, name) for name in names]
    counts: dict[str, int] = {}
    for name, number in zip(names, text.counts.tolist(), strict=True):
        counts[name] = counts.get(name, 0) + number
    # Blanks alone are a missing label.
    counts.pop("", None)
    return _Labels(names, counts, codes)


def _facts(silo: SiloName, own: Profile, public: Profile | None, classes: Mapping[str, int]) -> TableFacts:
    columns = []
    for name, kind in own.kinds.items():
        numeric = public is not None and public.kinds.get(name) in (Kind.NUMBERS, Kind.TRUTH)
        text = own.texts.get(name)
        not_numbers = example = None
        if text is not None and (numeric or (public is None and text.looks.number.mean() > 0.5)):
            bad = ~text.looks.plain
            not_numbers = int(text.counts[bad].sum())
            place = own.first(name, text.values.filter(pa.array(bad))) if not_numbers else None
            example = place[0] if place else None
        new = unknown(public, own, name) if public is not None else None
        columns.append(ColumnFacts(name, str(kind), own.missing(name), own.distinct(name), new, not_numbers, example))
    return TableFacts(silo, own.records, tuple(columns), dict(classes))
