"""The inspections of a folder, of a study, and of a silo's records next to it.

Formal guarantee: what is found of a real silo's records tells as much as ``Redaction`` with ``private``: names of the
study and of settings, numbers of records where they are not small, SMDs to one decimal where there are 20 records or
more, and where in the file an example is.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

import pyarrow as pa

from fedct_flwr import datasets
from fedct_flwr.config.run import RunConfig
from fedct_flwr.config.silo import DataSettings
from fedct_flwr.config.tables import StudyTables, TableSettings
from fedct_flwr.datasets import files
from fedct_flwr.datasets.federated import column_of_groups
from fedct_flwr.datasets.from_tables import Source
from fedct_flwr.datasets.inspection import Finding, Redaction, Severity, check_accept, with_accepted
from fedct_flwr.datasets.inspection.cells import FEWEST, TESTED
from fedct_flwr.datasets.inspection.data_set import inspect_dataset, shared_groups, shared_records, unfollowed
from fedct_flwr.datasets.inspection.inspect import inspect_tables
from fedct_flwr.datasets.inspection.table_one import Inspection, TableOne
from fedct_flwr.datasets.silo_records import differing, events_of, form_of, table_of
from fedct_flwr.datasets.study_folder import StudyFolder
from fedct_flwr.datasets.table_files import TableFolder, read_folder, read_table
from fedct_flwr.datasets.tables import encode, no_column, text_columns, with_signed_times
from fedct_flwr.text.printable import count, listed, quoted
from fedct_flwr.types import DataError, SiloName

_FEWEST_TESTED: Final = 10
"""Records of a test file below which scores on it mean little."""


class FolderInspection(NamedTuple):
    """Inspection of the tables, and the files of the folder."""

    inspection: Inspection
    files: TableFolder
    sheets: Mapping[str, list[str]] = MappingProxyType({})
    """By file, the sheets with contents that are not read."""


def inspect_folder(config: RunConfig) -> FolderInspection:
    """Inspect the folder ``data-dir`` as a simulation of it would; errors of single tables are findings as well.

    Where nothing is refused, a simulation reads the folder. Raises DataError for a folder that is not there, or that
    lacks a public set or silos, and ConfigError for names in ``accept`` that no finding has.
    """
    of_folder = TableSettings.of_folder(Path(config.data_dir))
    folder = read_folder(Path(config.data_dir), of_folder)
    accept = [*of_folder.accept, *config.accept]
    check_accept(accept)
    public, *others = (files.source(path, of_folder) for path in folder.tables)
    silos = dict(zip([*folder.silos, *(f"{silo}{TESTED}" for silo in folder.tests)], others, strict=True))
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
    words = Redaction(files={silo: source.tables.places for silo, source in {"": public, **silos}.items()})
    found = inspect_tables(
        table,
        tables,
        config.label_column,
        number=number,
        event=event,
        settings=settings,
        accept=config.accept,
        words=words,
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
    """Read each silo's table, and compare its columns with the public set's.

    Returns the tables that have records and a label column, and a finding for each silo with a fault: one with missing
    or extra columns is in both.
    """
    label = config.label_column
    text = [*([label] if config.outcome == "class" else []), *text_columns(public), *settings.text]
    text += [settings.group] if settings.group else []
    tables, wrong, theirs = {}, [], public.column_names
    for silo, source in silos.items():
        try:
            table = source.read(text)
            if config.event_column and label in table.column_names:
                table = with_signed_times(table, label, config.event_column, source.where, source.tables)
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
            message = f"has columns that the public set lacks: {listed(extra)}; take them out, or name them under"
            _check(not extra, source, f"{message} leave-out in data.toml")
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
        return Inspection()
    words = Redaction(settings=config.tables.place)
    return inspect_tables(read_table(config.public, tables=config.tables), {}, "", settings=config.tables, words=words)


def table_of_tests(data: DataSettings, study: StudyFolder) -> pa.Table | None:
    """A silo's ``test-file`` as ``table_of`` reads its records; None without one, and of images. Raises DataError."""
    if data.test_file is None:
        return None
    table = table_of(type(data)(file=data.test_file, label=data.label, tables=data.tables), study)
    return table if table is None or data.opt_out is None else datasets.records_left(table, data, data.test_file)


def inspect_records(
    data: DataSettings, study: StudyFolder, silo: SiloName, table: pa.Table | None = None, *, scored: bool = False
) -> Inspection:
    """Inspect a silo's records, and its test file, next to the study's public set; of images, those not used.

    ``table`` is what ``table_of`` has read of the records, if it has; ``scored``: whether scores on the test file may
    leave. Raises ConfigError or DataError where one of the two cannot be read.
    """
    records = table_of(data, study) if table is None else table
    words = Redaction(private=True, settings=form_of(data, study).place)
    if records is None:
        return Inspection(findings=tuple(_of_images(data, silo, words)))
    settings, agreed = form_of(data, study), study.config.tables
    event = next(iter(events_of(study.schema)), "")
    places, tables = {silo: data.source}, {silo: records}
    if data.test_file and (test := table_of_tests(data, study)) is not None:
        places[silo + TESTED], tables[silo + TESTED] = data.test_file, test
    for name, path in places.items():
        if data.label not in tables[name].column_names or tables[name].num_rows == 0:
            raise DataError(f"{path} has no records, or no column {data.label!r}: correct file or label in silo.toml")
        if event:
            tables[name] = with_signed_times(tables[name], data.label, event, path, data.tables)
    accept = (*settings.accept, *agreed.accept)
    found = inspect_tables(
        read_table(study.config.public, tables=agreed),
        tables,
        data.label,
        number=study.schema.outcome.number,
        event=event,
        settings=settings.model_copy(update={"accept": ()}),
        accept=accept,
        agreed=study.schema.classes,
        mapping=data.mapping,
        words=words,
    )
    lacking = [each for name, own in tables.items() for each in _differing(own, name)]
    known = {(each.code, each.column) for each in lacking}
    findings = [each for each in _for_silo(found.findings, data.label, silo) if (each.code, each.column) not in known]
    findings += [*(datasets.said_of_opt_out(records, silo, words) if data.opt_out else []), *lacking]
    if study.schema.follow_up:
        times = {name: own.column(data.label).to_numpy() for name, own in tables.items()}
        findings += with_accepted(unfollowed(times, data.label, study.schema.follow_up.horizons, words), accept)
    columns, X = study.schema.columns, {}
    for name, own in tables.items():
        if not found.refused and {column.name for column in columns} <= {*own.column_names}:
            X[name] = encode(own.select([column.name for column in columns]), columns, places[name])
    if silo in X:
        tests = {silo: X[silo + TESTED]} if silo + TESTED in X else {}
        shared = [*shared_records({"": study.public.X, silo: X[silo]}, tests, words, study.schema.categorical)]
        more = [each for each in shared if each.code == "shared-records" or (each.silo and not settings.group)]
        findings += with_accepted([*more, *_outside_stated(found.table, agreed, silo)], accept)
    return Inspection(found.table, (*findings, *with_accepted(_of_tests(data, places, tables, words, scored), accept)))


def _of_images(data: DataSettings, silo: SiloName, words: Redaction) -> Iterator[Finding]:
    """Files in the folders of images that are not read."""
    for path, of in ((data.source, ""), (data.test_file, "test ")):
        if path and (unused := datasets.LabeledImages.of(path).unused):
            files = words.number(unused, "file")
            message = f"{files} among the {of}images of silo {silo} are not used, for their suffix or folder"
            fix = "put them right into the folder of their class, as .png, .jpg, .bmp or .tif"
            yield Finding("unreadable", Severity.SAID, message, fix, silo=silo)


def _of_tests(
    data: DataSettings,
    places: Mapping[SiloName, Path],
    tables: Mapping[SiloName, pa.Table],
    words: Redaction,
    scored: bool,
) -> Iterator[Finding]:
    """Groups that a silo trains on and is tested with, and a test file of so few records that scores tell of each."""
    silo, *tested = tables
    for name in tested:
        if data.tables.group:
            own, others = (set(column_of_groups(tables[at], data.tables.group, places[at]).drop_null().to_pylist())
                           for at in (silo, name))  # fmt: skip
            if both := len(own & others):
                yield shared_groups(silo, both, words)
        if scored and tables[name].num_rows < _FEWEST_TESTED:
            few = f"fewer than {_FEWEST_TESTED} test records"
            message = f"silo {silo} has {few}, so their scores mean little, and may tell about single patients"
            fix = "add records to test-file, or set metrics = false"
            yield Finding("few-records", Severity.SAID, message, fix, silo=silo)


def _differing(records: pa.Table, silo: SiloName) -> Iterator[Finding]:
    """Columns of the study that the silo lacks, and how many of its own are left out: their names are its own."""
    lacking, extra = differing(records)
    for name in lacking:
        what = f"column {quoted(name)} is not there, as the study allows: all its values count as missing"
        yield Finding("column-missing", Severity.SAID, what, "", name, silo)
    if extra:
        what = f"{count(len(extra), 'column')} not of the study left out"
        yield Finding("column-left-out", Severity.SAID, what, "", silo=silo)


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


def _for_silo(findings: Collection[Finding], label: str, silo: SiloName) -> list[Finding]:
    """The findings that concern a silo, which corrects its labels; the coordinator corrects a wrong public set."""
    ask = "ask the coordinator for a study in which that is put right"
    name_it = "name the column with the study's classes as label in silo.toml, or correct the labels in it"
    public = [found for found in findings if not found.silo and found.severity is Severity.REFUSED]
    own = (replace(each, fix=name_it, silo=silo) if each.column == label else replace(each, fix=ask) for each in public)
    return [*own, *(found for found in findings if found.silo)]
