"""New records, for a model to say the class of: a table with its columns among others, or a folder of images."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedct_flwr import datasets
from fedct_flwr.config.tables import DATA_FILE, PLAIN, TableSettings
from fedct_flwr.datasets.dates import dated
from fedct_flwr.datasets.inspection import Finding, Redaction, Severity, refuse, with_accepted
from fedct_flwr.datasets.inspection.cells import FEWEST, CellKind, Cells, Inspected
from fedct_flwr.datasets.inspection.columns import empty, of_silo, suspicious
from fedct_flwr.datasets.inspection.table_one import row_of, said_of
from fedct_flwr.datasets.packed_tables import other_sheets
from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.datasets.table_files import read_table
from fedct_flwr.datasets.tables import as_names, encode, is_number
from fedct_flwr.text.printable import count, listed, quoted
from fedct_flwr.text.spelling import without_accents
from fedct_flwr.types import DataError, Features, SiloName

_NONE: Final[Mapping[str, Sequence[float]]] = MappingProxyType({})
_NEW: Final = "new"
"""New records, where findings name a silo."""
_FIX_IMAGES: Final = "put them right into the folder, as .png, .jpg, .bmp or .tif"


class Unlabeled(NamedTuple):
    """Records without labels: a name for each (its number from 1, or the image's file name), and their features.

    ``unknown`` counts, by column, values that are no category of the study's; ``table`` is all that was read, of images
    their names. ``findings`` are what the inspection says of them.
    """

    names: list[str]
    X: Features
    unknown: dict[str, int]
    table: pa.Table
    findings: tuple[Finding, ...] = ()


def read_unlabeled(
    schema: Schema,
    path: Path,
    *,
    accept: Collection[str] = (),
    learned: Mapping[str, Sequence[float]] = _NONE,
    usual: TableSettings = PLAIN,
    text: Sequence[str] = (),
) -> Unlabeled:
    """New records as the study numbers columns. Columns that it does not have are left aside.

    ``accept`` names findings that are accepted; ``learned`` are the ``quantiles`` of what the model has learned from.
    Columns of ``text`` stay as they are written.

    A ``data.toml`` next to a table tells its form; without one it has the ``usual`` one. Raises DataError, which quotes
    no record, and ConfigError.
    """
    if schema.images:
        paths = datasets.images_in(path)
        names = [image.name for image in paths]
        unused = datasets.unused_in(path, {*paths})
        said = [Finding("unreadable", Severity.SAID, unused, _FIX_IMAGES)] if unused else []
        X, table = datasets.read_images(paths, *schema.images), pa.table({"image": names})
        return Unlabeled(names, X, {}, table, _said(with_accepted(said, accept)))
    columns = schema.columns
    if not columns:
        raise DataError(f"the model was trained on arrays that no file format here holds, so {path} cannot be read")
    told = (path.parent / DATA_FILE).is_file()
    form = TableSettings.of_folder(path.parent).of(path.name) if told else usual
    table = read_table(path, [*text, *(column.name for column in columns if column.spelled)], form)
    if table.num_rows == 0:
        raise DataError(f"{path} has no records")
    found = inspect_new(table, columns, [*form.accept, *accept], learned, form.place)
    if others := other_sheets(path, form):
        unread = f"only the first sheet of {quoted(path.name)} is read, and not {listed(others)}"
        remedy = f"write sheet = '...' in {DATA_FILE} next to it to read another"
        found = [Finding("unreadable", Severity.SAID, unread, remedy), *found]
    refuse(found, {_NEW: path})
    X = encode_new(table, columns, path)
    names = [str(number) for number in range(1, table.num_rows + 1)]
    return Unlabeled(names, X, unknown_in(X, columns), table, _said(found))


def unknown_in(X: Features, columns: Sequence[Column]) -> dict[str, int]:
    """How many of the encoded records ``(n, columns)`` have a value that is no category of the study's, by column."""
    known = {column.name: len(column.categories) for column in columns if column.categories is not None}
    counts = {each.name: int((X[:, at] == known.get(each.name, np.nan)).sum()) for at, each in enumerate(columns)}
    return {name: number for name, number in counts.items() if number}


def sentences(findings: Collection[Finding], unknown: Mapping[str, int], X: Features) -> Iterator[str]:
    """Sentences on new records ``X`` ``(n, ...)``: findings, unknown values by column, and records without a value."""
    yield from (found.sentence for found in findings)
    of = f"of {count(len(X), 'record')} have"
    for name in sorted(unknown.keys() - {found.column for found in findings}):
        yield f"{unknown[name]:,} {of} a value of {quoted(name)} that the study does not know"
    if X.dtype.kind == "f" and (empty := int(np.isnan(X).all(axis=tuple(range(1, X.ndim))).sum())):
        yield f"{empty:,} {of} no value at all: take them out"


def _said(found: Sequence[Finding]) -> tuple[Finding, ...]:
    return tuple(each for each in found if each.severity is Severity.SAID)


def encode_new(table: pa.Table, columns: Sequence[Column], where: object) -> Features:
    """A table of new records as numbers, ``(n, columns)``; columns that the model does not have are left aside.

    Codes that a reader took for numbers are the text that they were. Raises DataError.
    """
    wanted = {column.name: column for column in columns}
    # A missing column in another spelling stays, so that the error names it.
    missing = {without_accents(name) for name in wanted.keys() - {*table.column_names}}
    table = table.select([name for name in table.column_names if name in wanted or without_accents(name) in missing])
    for place, name in enumerate(table.column_names):
        known = wanted[name].categories if name in wanted else None
        if known is not None and is_number(table.column(name).type):
            codes = as_names(table.column(name), f"column {quoted(name)} of {where}")
            if pc.any(pc.is_in(codes, pa.array(known))).as_py():
                table = table.set_column(place, name, codes)
    return encode(table, columns, where)


class _OfNew(Redaction):
    """Redaction for new records, which are at no silo."""

    def at(self, silo: SiloName) -> str:
        return "in the new records"

    @property
    def leave_out(self) -> str:
        return "write it as in the tables that the model has learned from"


def _apart(
    new: Inspected, learned: Sequence[float], redaction: Redaction, *, is_dates: bool = False
) -> Iterator[Finding]:
    """The first finding on numbers that lie apart from these quantiles.

    False alarms, on own test records of eleven tables (``benchmarks.natural_silos`` and those by name, four splits): 4
    of 2,216 columns, next to a placeholder that is in the data (24 times). Of ten records or fewer: 2 of 3,324, and 5.
    Middle halves added none in 1,880 columns.
    """
    own = new.silos[_NEW]
    if own.records >= FEWEST:
        public = Cells.of_numbers(np.array(learned)) if learned else new.public
        yield from empty(Inspected(new.name, public, new.silos), redaction)
    if learned and own.kind is CellKind.NUMBERS:
        # Few records are looked at among those that are known.
        among = learned if own.valid < FEWEST else ()
        cells = Cells.of_numbers(np.concatenate([own.ordered, among]))
        column = Inspected(new.name, Cells.of_numbers(np.array(learned)), {_NEW: cells})
        every = [*suspicious(column, redaction, categories=False, dated=is_dates), *said_of(row_of(column), redaction)]
        yield from [found for found in every if found.silo == _NEW][:1]


def _of_text(name: str, own: Cells, redaction: Redaction) -> Iterator[Finding]:
    """Findings on 20 or more records of a column that a learner of texts reads: no text, or a number in each cell."""
    if own.records >= FEWEST:
        # A model file does not tell the texts it has learned from.
        known = Cells(CellKind.TEXT, np.zeros(FEWEST, dtype=np.int64), ("text",))
        yield from empty(Inspected(name, known, {_NEW: own}), redaction)
    if own.valid >= FEWEST and (own.kind is CellKind.NUMBERS or own.looks.plain.all()):
        what = "holds a number in each cell, and the model reads text there"
        yield redaction.finding("number-as-text", name, _NEW, what, "check that it is the right column")


def inspect_new(
    table: pa.Table,
    features: Sequence[Column],
    accept: Collection[str] = (),
    learned: Mapping[str, Sequence[float]] = _NONE,
    settings: str = "",
) -> list[Finding]:
    """Findings on new records for a model of these columns: unknown values, text for numbers, or numbers far away.

    Other columns are left aside. ``settings``: where the table's form is written. Raises ConfigError for names in
    ``accept`` that no finding has.
    """
    redaction = _OfNew(settings=settings, others="what the model has learned from")
    found: list[Finding] = []
    there, dates = dict(zip(table.column_names, table.columns, strict=True)), dated(table)
    for column in features:
        if column.text and column.name in there:
            found += _of_text(column.name, Cells.of(there[column.name]), redaction)
        elif column.name in there:
            # Twice each: the public set's counts are not known, and a value that occurs once would make others likely.
            words = np.arange(2 * len(column.categories or ()), dtype=np.float64) // 2
            kind = CellKind.NUMBERS if column.categories is None else CellKind.TEXT
            known = Cells(kind, words, column.categories or ())
            new = Inspected(column.name, known, {_NEW: Cells.of(there[column.name])})
            far = _apart(new, learned.get(column.name, ()), redaction, is_dates=column.name in dates)
            found += [*of_silo(new, _NEW, redaction), *far]
    return with_accepted(found, accept)
