"""The inspection of a federation's tables, column by column: Table 1 by site, and findings that are refused or said."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedct_flwr.config.tables import TableSettings
from fedct_flwr.datasets.dates import dated
from fedct_flwr.datasets.inspection import columns, table_one
from fedct_flwr.datasets.inspection.cells import Cells, Column, Kind, columns_of_tables
from fedct_flwr.datasets.inspection.finding import Finding, Redaction, Severity, check_accept, with_accepted
from fedct_flwr.datasets.inspection.labels import few_records, of_classes
from fedct_flwr.datasets.inspection.table_one import Row, TableOne
from fedct_flwr.datasets.tables import class_name
from fedct_flwr.types import SiloName


@dataclass(frozen=True)
class Inspection:
    """Summary of a federation's tables by site, and the suspicious findings."""

    table: TableOne = field(default_factory=TableOne)
    findings: tuple[Finding, ...] = ()

    @property
    def refused(self) -> list[Finding]:
        """Findings with which nothing runs."""
        return [found for found in self.findings if found.severity is Severity.REFUSED]

    @property
    def suspicious(self) -> list[Finding]:
        """Suspicious findings."""
        return [found for found in self.findings if found.severity is Severity.SAID]


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
    unused = {
        label,
        *([event] if event else []),
        *([settings.group] if settings.group else []),
        *settings.leave_out,
        *settings.text,
    }
    features = public.select([at for at, name in enumerate(public.column_names) if name not in unused])
    given = {silo: table.column(label) for silo, table in silos.items()}
    # Truth values are classes by name.
    answers = {s: Cells.of(own.cast(pa.string()) if pa.types.is_boolean(own.type) else own) for s, own in given.items()}
    rows: list[Row] = []
    if event:
        signed = {silo: own.to_numpy() for silo, own in given.items()}
        answers = {silo: Cells.of_numbers(np.abs(own)) for silo, own in signed.items()}
        had = {silo: int((~np.signbit(own)).sum()) for silo, own in signed.items()}
        counts = {silo: {"yes": had[silo], "no": len(own) - had[silo]} for silo, own in signed.items()}
        rows = [table_one.of_classes(counts, event)] if counts else []
    found = [*few_records({silo: table.num_rows for silo, table in silos.items()}, public.num_rows, redaction)]
    if label and label in public.column_names:
        what = "has the name of the label column, and is not used"
        fix = "nothing, if these are answers to compare with later; a feature needs another name"
        found.append(redaction.finding("label-in-public", label, "", what, fix))
    if number:
        outcome = Column(label, None, answers)
        rows = [table_one.row_of(outcome.trained), *rows]
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
            found += of_classes(counts, agreed, label, redaction)
            rows = [table_one.of_classes(counts, label)]
    categories, days = frozenset(settings.categories), dated(public)
    for column in columns_of_tables(features, silos):
        rows.append(table_one.row_of(column.trained))
        here = [*columns.of_public(column, redaction, categories, days)]
        here = here or [each for silo in column.silos for each in columns.of_silo(column, silo, redaction)]
        if all(each.severity is not Severity.REFUSED for each in here):
            here += columns.suspicious(column, redaction, column.name in categories, column.name in days)
        found += here
    # Skip findings that another finding explains.
    known = {(each.column, each.silo) for each in found}
    for each in found:
        if each.code in ("one-class", "no-common-class"):
            known.add(("", each.silo))
        if (each.severity is Severity.REFUSED and not each.silo) or each.code == "label-spellings":
            known |= {("" if each.column == label else each.column, silo) for silo in silos}
    apart = [
        each for row in rows for each in table_one.said_of(row, redaction) if (each.column, each.silo) not in known
    ]
    return Inspection(TableOne(tuple(rows)), (*with_accepted([*found, *apart], [*settings.accept, *accept]),))


def _classes(cells: Cells, means: Mapping[str, str]) -> np.ndarray[tuple[int, ...], np.dtype[np.str_]]:
    """The class of each record, ``(records,)``, empty where it has none."""
    at: NDArray[np.int64]
    if cells.kind is Kind.NUMBERS:
        values, at = np.unique(cells.numbers, return_inverse=True)
        words = ["" if np.isnan(value) else str(value) for value in values.tolist()]
    else:
        words = [*cells.words, ""]
        at = cells.numbers.astype(np.int64) if cells.words else np.full(cells.records, -1)
    names = [class_name(word) if word else "" for word in words]
    return np.array([means.get(name, name) for name in names])[at]
