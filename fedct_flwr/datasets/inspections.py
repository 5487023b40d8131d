"""The inspections of a folder, of a study, of a silo's records next to it, of a loaded data set, and of new records.

New records are for a model to say the class of: a table with its columns among others, or a folder of images.

Formal guarantee: what is found of a real silo's records tells as much as ``finding.Redaction`` with ``private``: names
of the study and of settings, numbers of records where they are not small, SMDs to one decimal where there are 20
records or more, and where in the file an example is.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from fedct_flwr.config.run import RunConfig
from fedct_flwr.config.silo import DataSettings
from fedct_flwr.config.tables import StudyTables, TableSettings
from fedct_flwr.datasets import files
from fedct_flwr.datasets.dates import dated
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.datasets.folder import TableFolder, read_folder
from fedct_flwr.datasets.from_tables import Source
from fedct_flwr.datasets.image_folder import images_in, read_images
from fedct_flwr.datasets.inspection.cells import FEWEST, Cells, Kind, columns_of_arrays
from fedct_flwr.datasets.inspection.cells import Column as Inspected
from fedct_flwr.datasets.inspection.columns import of_silo, suspicious
from fedct_flwr.datasets.inspection.finding import Finding, Redaction, Severity, check_accept, refuse, with_accepted
from fedct_flwr.datasets.inspection.inspect import Inspection, inspect_tables
from fedct_flwr.datasets.inspection.labels_fit import LabelsFit
from fedct_flwr.datasets.inspection.shared_records import shared_records
from fedct_flwr.datasets.inspection.table_one import LABELS_FIT, Row, Site, TableOne, of_classes, row_of, said_of
from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.datasets.study_folder import StudyFolder, events_of, form_of, table_of
from fedct_flwr.datasets.table_files import no_column, read_table
from fedct_flwr.datasets.tables import encode, text_columns, with_signed_times
from fedct_flwr.text.printable import count, listed
from fedct_flwr.types import LABEL_DTYPE, DataError, Examples, Features, SiloName

_NOTHING: Final = Inspection()
_NONE: Final[Mapping[str, Sequence[float]]] = MappingProxyType({})
_NEW: Final = "new"
"""New records, where findings name a silo."""
_LEVELS: Final = np.arange(0.01, 1, 0.02)
"""Levels of quantiles, without the smallest and the largest value, which are single records'."""
_MOST_COLUMNS: Final = 10_000
"""Columns with quantiles: a model file's description has an end."""


class FolderInspection(NamedTuple):
    """Inspection of the tables, and the files of the folder."""

    inspection: Inspection
    files: TableFolder
    sheets: Mapping[str, list[str]] = MappingProxyType({})
    """By file, the sheets with contents that are not read."""


def accepted(config: RunConfig) -> list[str]:
    """The findings that a run config accepts, and ``data.toml`` in its folder. Raises ConfigError."""
    of_folder = TableSettings.of_folder(Path(config.data_dir)).accept if config.data == "files" else ()
    return [*of_folder, *config.accept]


def inspect_dataset(dataset: FederatedDataset, accept: Collection[str] = (), *, drawn: bool = False) -> Inspection:
    """Inspect what needs all silos' records: shared ones, groups in several places, labels that do not fit.

    Its Table 1 by site is what its tables' inspection has made, or of its arrays. Examples of a ``drawn`` public set
    may equal records by chance. Raises ConfigError for names in ``accept`` that no finding has.
    """
    silos, schema = dataset.silos, dataset.schema
    tables = {**({} if drawn else {"": dataset.public.X}), **{silo.name: silo.private.X for silo in silos}}
    tests = {silo.name: silo.test.X for silo in silos if silo.test.size}
    found = [*_of_groups(dataset), *shared_records(tables, tests, Redaction(), schema.categorical)]
    if any(silo.groups is not None for silo in silos):
        # Records of one group may well be equal.
        found = [each for each in found if each.code != "repeated-records"]
    table = _table_of(dataset)
    if schema.columns:
        own = {silo.name: silo.private for silo in silos}
        classes = schema.classes
        if schema.outcome.number:
            own, classes = {silo: _by_half(records) for silo, records in own.items()}, ("below the median", "above it")
        fit = LabelsFit(own, schema.columns, len(classes))
        found += fit.findings(classes)
        sites = [Site(silo, n, 0, numbers=(auc.low, auc.value, auc.high)) for silo, (n, auc) in fit.areas().items()]
        if sites:
            table = TableOne((*table.rows, Row(LABELS_FIT, tuple(sites), label=True)))
    return Inspection(table, tuple(with_accepted(found, accept)))


def _table_of(dataset: FederatedDataset) -> TableOne:
    if dataset.table_one is not None:
        return dataset.table_one
    silos = {silo.name: silo.private.X for silo in dataset.silos}
    rows = [row_of(column) for column in columns_of_arrays(dataset.public.X, silos, dataset.schema)]
    if rows and not dataset.schema.outcome.number:
        counts = {silo.name: dataset.schema.outcome.counts(silo.private.y) for silo in dataset.silos}
        rows.insert(0, of_classes(counts, "class"))
    return TableOne(tuple(rows))


def _by_half(records: Examples) -> Examples:
    """Records of two classes: below and above the median of the number to predict, or of the times of follow-up."""
    return Examples(records.X, (records.y > np.median(records.y)).astype(LABEL_DTYPE))


def _of_groups(dataset: FederatedDataset) -> Iterator[Finding]:
    """Groups that stand at several silos, or in a silo's training and test part."""
    for silo in dataset.silos:
        both = () if silo.groups is None or silo.test_groups is None else np.intersect1d(silo.groups, silo.test_groups)
        if len(both):
            message = (
                f"silo {silo.name} trains on {count(len(both), 'group')} of its test set, so its scores are too good"
            )
            yield Finding("shared-records", Severity.SAID, message, "remove them from one of the two", silo=silo.name)
        if silo.groups is not None and not silo.test.size and len(np.unique(silo.groups)) == 1:
            message = f"all records of silo {silo.name} are of one group, so none is held out for a test"
            yield Finding("constant-column", Severity.SAID, message, "check the group column there", silo=silo.name)
    found = [
        np.unique(np.concatenate([part for part in (silo.groups, silo.test_groups) if part is not None]))
        for silo in dataset.silos
        if silo.groups is not None
    ]
    groups, silos = np.unique(np.concatenate(found), return_counts=True) if found else (np.zeros(0), np.zeros(0))
    if shared := int((silos > 1).sum()):
        message = f"{shared:,} of {count(len(groups), 'group')} have records at several silos"
        fix = "nothing, if each silo numbers its groups by itself; otherwise the pooled test score is too good"
        yield Finding("shared-records", Severity.SAID, message, fix)


def inspect_folder(config: RunConfig) -> FolderInspection:
    """Inspect the folder ``data-dir`` as a simulation of it would; errors of single tables are findings as well.

    Where nothing is refused, a simulation reads the folder. Raises DataError for a folder that is not there, or that
    lacks a public set or silos, and ConfigError for names in ``accept`` that no finding has.
    """
    of_folder = TableSettings.of_folder(Path(config.data_dir))
    folder = read_folder(Path(config.data_dir), of_folder)
    accept = [*of_folder.accept, *config.accept]
    check_accept(accept)
    public, *others = (files.source(path, of_folder) for path in (*folder.tables[:1], *folder.silos.values()))
    silos = dict(zip(folder.silos, others, strict=True))
    group = config.group_column or public.tables.group
    text = tuple(dict.fromkeys([*config.text_columns, *public.tables.text]))
    settings = public.tables.model_copy(update={"text": text, "group": group})
    try:
        table = public.read(settings.text)
        no_features = {config.label_column, group, config.event_column}
        unlabeled = table.drop_columns([name for name in table.column_names if name in no_features])
        _check(unlabeled.num_rows > 0 and unlabeled.column_names, public, "is empty: it needs a record and a feature")
    except DataError as error:
        return FolderInspection(Inspection(findings=(_unreadable(error, ""),)), folder)
    tables, wrong = _read(config, unlabeled, silos, settings)
    number, event = config.outcome != "class", config.event_column
    found = inspect_tables(
        table, tables, config.label_column, number=number, event=event, settings=settings, accept=config.accept
    )
    more = Inspection(found.table)
    if not wrong and not found.refused:
        try:
            more = inspect_dataset(files.load(config), accept)
        except DataError as error:
            wrong = [_unreadable(error, "")]
    try:
        sheets = files.unread_sheets(folder, of_folder)
    except DataError:
        # Such a file is among the findings.
        sheets = {}
    return FolderInspection(Inspection(more.table, (*wrong, *found.findings, *more.findings)), folder, sheets)


def _read(
    config: RunConfig, public: pa.Table, silos: Mapping[SiloName, Source], settings: TableSettings
) -> tuple[dict[SiloName, pa.Table], list[Finding]]:
    """The silos' tables that can be read and have a label column, and what is wrong with the others' columns."""
    label = config.label_column
    text = [*([label] if config.outcome == "class" else []), *text_columns(public), *settings.text]
    text += [settings.group] if settings.group else []
    tables, wrong, theirs = {}, [], public.column_names
    for silo, source in silos.items():
        try:
            table = source.read(text)
            if config.event_column and label in table.column_names:
                table = with_signed_times(table, label, config.event_column, source.where)
            # A table makes its list of names again at each access.
            names = table.column_names
            there, known = {*names}, {label, settings.group, *theirs}
            if label not in there:
                raise no_column(source.where, label, names)
            _check(table.num_rows > 0, source, "has no records: add records, or take the file away")
            tables[silo] = table
            missing = [name for name in theirs if name not in there]
            extra = [name for name in names if name not in known]
            instead = f" (it has {listed(extra)})" if extra else ", or take them out of the public set"
            message = f"lacks columns of the public set: {listed(missing)}; name them as there{instead}"
            _check(not missing, source, message)
            message = (
                f"has columns that the public set lacks: {listed(extra)}; take them out, or name them under leave-out"
            )
            _check(not extra, source, f"{message} in data.toml")
        except DataError as error:
            wrong.append(_unreadable(error, silo))
    return tables, wrong


def _check(fine: object, source: Source, message: str) -> None:
    if not fine:
        raise DataError(f"{source.where} {message}")


def _unreadable(error: DataError, silo: SiloName) -> Finding:
    message, _, fix = str(error).partition(": ")
    return Finding("unreadable", Severity.REFUSED, message, fix, silo=silo)


def inspect_public(study: StudyFolder) -> Inspection:
    """Inspect a study's public set; of images nothing is said. Raises ConfigError or DataError."""
    config = study.config
    if config.image_size:
        return _NOTHING
    words = Redaction(settings=config.tables.place)
    return inspect_tables(read_table(config.public, tables=config.tables), {}, "", settings=config.tables, words=words)


def inspect_records(
    data: DataSettings, study: StudyFolder, silo: SiloName, table: pa.Table | None = None
) -> Inspection:
    """Inspect a silo's records next to the study's public set; of images nothing is said.

    ``table`` is what ``table_of`` has read of them, if it has.
    Raises ConfigError or DataError where they cannot be read.
    """
    records = table_of(data, study) if table is None else table
    if records is None:
        return _NOTHING
    tables, agreed = form_of(data, study), study.config.tables
    if data.label not in records.column_names or records.num_rows == 0:
        raise DataError(
            f"{data.source} has no records, or no column {data.label!r}: correct file or label in silo.toml"
        )
    event = next(iter(events_of(study.schema)), "")
    if event:
        records = with_signed_times(records, data.label, event, data.source)
    words = Redaction(private=True, settings=tables.place)
    accept = (*tables.accept, *agreed.accept)
    found = inspect_tables(
        read_table(study.config.public, tables=agreed),
        {silo: records},
        data.label,
        number=study.schema.outcome.number,
        event=event,
        settings=tables.model_copy(update={"accept": ()}),
        accept=accept,
        agreed=study.schema.classes,
        mapping=data.mapping,
        words=words,
    )
    findings = _for_silo(found.findings)
    columns = study.schema.columns
    if not found.refused and {column.name for column in columns} <= {*records.column_names}:
        X = encode(records.select([column.name for column in columns]), columns, data.source)
        shared = [*shared_records({"": study.public.X, silo: X}, {}, words, study.schema.categorical)]
        more = [each for each in shared if each.code == "shared-records" or (each.silo and not tables.group)]
        findings += with_accepted([*more, *_outside_stated(found.table, agreed, silo)], accept)
    return Inspection(found.table, tuple(findings))


def _outside_stated(table: TableOne, agreed: StudyTables, silo: SiloName) -> Iterator[Finding]:
    """Classes whose share of a silo's records lies outside of the range that the study states."""
    sites = next((row.sites for row in table.rows if row.label), ())
    for site in (each for each in sites if each.records >= FEWEST):
        for name, (low, high) in agreed.class_shares.items():
            if not low <= (site.words or {}).get(name, 0) / site.records <= high:
                message = (
                    f"class {name!r} has a share outside of {low:.0%} to {high:.0%}, the range that the study states"
                )
                fix = "check that the classes mean the same there"
                yield Finding("class-shares", Severity.SAID, message, fix, silo=silo)


def _for_silo(findings: Collection[Finding]) -> list[Finding]:
    """The findings that concern a silo; a public set that is wrong is for the coordinator to correct."""
    ask = "ask the coordinator for a study in which that is put right"
    public = [
        found
        for found in findings
        if not found.silo and (found.severity is Severity.REFUSED or found.code == "tells-the-label")
    ]
    return [*(replace(found, fix=ask) for found in public), *(found for found in findings if found.silo)]


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
    schema: Schema, path: Path, *, accept: Collection[str] = (), learned: Mapping[str, Sequence[float]] = _NONE
) -> Unlabeled:
    """New records as the study numbers columns. Columns that it does not have are left aside.

    ``accept`` names findings that are accepted. ``learned`` are ``quantiles`` of what the model has learned from.

    A ``data.toml`` next to a table tells its form. Raises DataError, which quotes no record, and ConfigError.
    """
    if schema.images:
        paths = images_in(path)
        names = [image.name for image in paths]
        return Unlabeled(names, read_images(paths, *schema.images), {}, pa.table({"image": names}))
    columns = schema.columns
    if not columns:
        raise DataError(f"the model was trained on arrays that no file format here holds, so {path} cannot be read")
    form = TableSettings.of_folder(path.parent).of(path.name)
    table = read_table(path, [column.name for column in columns if column.spelled], form)
    if table.num_rows == 0:
        raise DataError(f"{path} has no records")
    found = inspect_new(table, columns, [*form.accept, *accept], learned, form.place)
    refuse(found, {_NEW: path})
    known = [name for name in table.column_names if name in {column.name for column in columns}]
    X = encode(table.select(known), columns, path)
    counts = {
        column.name: int(np.count_nonzero(X[:, position] == len(column.categories)))
        for position, column in enumerate(columns)
        if column.categories is not None
    }
    names = [str(number) for number in range(1, table.num_rows + 1)]
    unknown = {name: count for name, count in counts.items() if count}
    return Unlabeled(names, X, unknown, table, tuple(each for each in found if each.severity is Severity.SAID))


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
    """
    own = new.silos[_NEW]
    if learned and own.kind is Kind.NUMBERS:
        # Few records are looked at among those that are known.
        among = learned if own.valid < FEWEST else ()
        cells = Cells.of_numbers(np.concatenate([own.ordered, among]))
        column = Inspected(new.name, Cells.of_numbers(np.array(learned)), {_NEW: cells})
        every = [*suspicious(column, redaction, categories=False, dated=is_dates), *said_of(row_of(column), redaction)]
        yield from [found for found in every if found.silo == _NEW][:1]


def quantiles(schema: Schema, *learned: Features) -> dict[str, tuple[float, ...]]:
    """Of each numeric column of tables ``(n, columns)``, without those that hold nothing."""
    found = {}
    for at, column in enumerate(schema.columns[:_MOST_COLUMNS] if learned else ()):
        if not column.spelled:
            values = np.concatenate([X[:, at] for X in learned]).astype(np.float64)
            known = values[~np.isnan(values)]
            if len(known):
                found[column.name] = tuple(float(f"{value:.6g}") for value in np.quantile(known, _LEVELS))
    return found


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
    for column in features:
        if not column.text and column.name in table.column_names:
            # Twice each: the public set's counts are not known, and a value that occurs once would make others likely.
            words = np.arange(2 * len(column.categories or ()), dtype=np.float64) // 2
            known = Cells(Kind.NUMBERS if column.categories is None else Kind.TEXT, words, column.categories or ())
            new = Inspected(column.name, known, {_NEW: Cells.of(table.column(column.name))})
            far = _apart(new, learned.get(column.name, ()), redaction, is_dates=column.name in dated(table))
            found += [*of_silo(new, _NEW, redaction), *far]
    return with_accepted(found, accept)
